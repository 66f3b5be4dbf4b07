// RUN: %opt %s --split-input-file -p 'eliminate-clones{hoist_reads=true}' | filecheck %s

// hoist-reads: a read moves above a write where that frees a copy, never across a write that it depends on.

// The sum of the source moves up, with its view; the copy goes.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.view.default"(%y
// CHECK-NEXT: "aten.sum.default"
// CHECK-NEXT: "aten.add_.Scalar"(%y
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %v = fx.call "aten.view.default"(%y, [4]) effects<> results<view 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// It reads what a write to the source left, and must stay behind that; so the copy stays.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.mul_.Scalar{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
// CHECK: "aten.mul_.Scalar"
// CHECK: "aten.sum.default"(%y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %m = fx.call "aten.mul_.Scalar"(%y, 2) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// It needs a value that the write makes; nothing moves.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"
// CHECK: "aten.add_.Scalar"
// CHECK: "aten.add.Tensor"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.add.Tensor"(%y, %a) effects<read 0, read 1> results<fresh> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return %s : memref<4xf32>
}
