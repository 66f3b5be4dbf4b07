// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Clause 1: the source must not be read after a write into the copy.

// The write comes first: kept. Both lines are named.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default (sum_1) at model.py:5 would read what aten.add_.Scalar (add_) at model.py:4 wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32> loc("clone"("model.py":3:0))
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32> loc("add_"("model.py":4:0))
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32> loc("sum_1"("model.py":5:0))
  %t = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// The read comes first: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.add_.Scalar"(%y
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %t = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}
