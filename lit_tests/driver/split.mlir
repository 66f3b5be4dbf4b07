// RUN: %opt %s --split-input-file -p remove-dead-values | filecheck %s

// CHECK:      func.func @a
// CHECK:      // -----
// CHECK-NEXT: builtin.module
// CHECK:      func.func @b
func.func @a() { func.return }
// -----
func.func @b() { func.return }
