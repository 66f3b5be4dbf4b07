// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// What is not known counts as the worst.

// An operator of unknown behaviour may write the copy.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what own.opaque.default{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  fx.call "own.opaque.default"(%c) effects<unknown> results<> : (memref<4xf32>) -> ()
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Nothing reads the source afterwards: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "own.opaque.default"(%y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  fx.call "own.opaque.default"(%c) effects<unknown> results<> : (memref<4xf32>) -> ()
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// It may return the copy, which would then be a result next to its source.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "two results would share memory"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<4xf32>, memref<4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %p = fx.call "own.pick.default"(%c) effects<read 0> results<may 0> : (memref<4xf32>) -> memref<4xf32>
  func.return %y, %p : memref<4xf32>, memref<4xf32>
}

// -----

// The declared twin returns fresh memory.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "own.pick.default"(%y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<4xf32>, memref<4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %p = fx.call "own.pick.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %y, %p : memref<4xf32>, memref<4xf32>
}

// -----

// The source may be anywhere.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "the memory of its source is not known"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %p = fx.call "own.pick.default"(%x) effects<read 0> results<may 0> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%p) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// It is known to be in one argument: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%p)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %p = fx.call "own.pick.default"(%x) effects<read 0> results<view 0> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%p) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}
