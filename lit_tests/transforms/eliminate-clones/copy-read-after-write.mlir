// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Clause 2: the copy must not be read after a write into the source.

// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%y, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The write comes before the copy: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%y, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}
