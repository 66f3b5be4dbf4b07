// RUN: %opt %s -p remove-dead-values,remove-dead-values --print-ir-after-all --verify-each --timing -o %t 2>&1 | filecheck %s

// CHECK:      // -----// IR after remove-dead-values //----- //
// CHECK:      func.func @a
// CHECK:      // -----// IR after remove-dead-values //----- //
// CHECK:      ms  parse
// CHECK-NEXT: ms  verify
// CHECK-NEXT: ms  remove-dead-values
// CHECK-NEXT: ms  remove-dead-values
// CHECK-NEXT: ms  write mlir
// CHECK-NEXT: ms  total
func.func @a() { func.return }
