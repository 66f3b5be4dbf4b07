// RUN: %opt %s -p in-place-to-out-of-place --split-input-file | filecheck %s

// A write through a view of a view is one window on the base; the base read afterwards is the newest value.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = fx.extract %[[X:.*]] <[3] strides [4] offset 2> : tensor<3x4xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[V:.*]] = fx.value_call "aten.mul.Tensor"(%[[W]], -3)
// CHECK-NEXT:    %[[N:.*]] = fx.insert %[[V]] into %[[X]] <[3] strides [4] offset 2>
// CHECK-NEXT:    %[[S:.*]] = fx.value_call "aten.sum.dim_IntList"(%[[N]], [0])
// CHECK-NEXT:    func.return %[[S]], %[[N]]
func.func @main(%x: memref<3x4xf32> {alias.root = #alias.root<0, 48 bytes>}) -> memref<4xf32> {
  %t = fx.call "aten.transpose.int"(%x, 0, 1) effects<> results<view 0>
         : (memref<3x4xf32>) -> memref<4x3xf32, strided<[1, 4]>>
  %c = fx.call "aten.select.int"(%t, 0, 2) effects<> results<view 0>
         : (memref<4x3xf32, strided<[1, 4]>>) -> memref<3xf32, strided<[4], offset: 2>>
  %m = fx.call "aten.mul_.Tensor"(%c, -3) effects<read 0, write 0> results<same 0> value<"aten.mul.Tensor" [write 0]>
         : (memref<3xf32, strided<[4], offset: 2>>) -> memref<3xf32, strided<[4], offset: 2>>
  %s = fx.call "aten.sum.dim_IntList"(%x, [0]) effects<read 0> results<fresh> : (memref<3x4xf32>) -> memref<4xf32>
  func.return %s : memref<4xf32>
}

// -----

// Two writes to one window are combined: the first never reaches the base.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = fx.value_call "aten.mul.Tensor"
// CHECK-NEXT:    %[[B:.*]] = fx.value_call "aten.add.Tensor"(%[[A]], 1)
// CHECK-NEXT:    %[[N:.*]] = fx.insert %[[B]] into %{{.*}} <[4] strides [1] offset 4>
// CHECK-NEXT:    func.return %[[N]]
func.func @main(%x: memref<3x4xf32> {alias.root = #alias.root<0, 48 bytes>}) {
  %r = fx.call "aten.select.int"(%x, 0, 1) effects<> results<view 0>
         : (memref<3x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %m = fx.call "aten.mul_.Tensor"(%r, 2) effects<read 0, write 0> results<same 0> value<"aten.mul.Tensor" [write 0]>
         : (memref<4xf32, strided<[1], offset: 4>>) -> memref<4xf32, strided<[1], offset: 4>>
  %a = fx.call "aten.add_.Tensor"(%m, 1) effects<read 0, write 0> results<same 0> value<"aten.add.Tensor" [write 0]>
         : (memref<4xf32, strided<[1], offset: 4>>) -> memref<4xf32, strided<[1], offset: 4>>
  func.return
}

// -----

// A view of another element type is the same bytes, reinterpreted on the way in and out.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[I:.*]] = fx.reinterpret %[[X]] : tensor<4xf32> -> tensor<4xi32>
// CHECK-NEXT:    %[[N:.*]] = fx.value_call "aten.neg.default"(%[[I]])
// CHECK-NEXT:    %[[F:.*]] = fx.reinterpret %[[N]] : tensor<4xi32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %[[F]]
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) {
  %v = fx.call "aten.view.dtype"(%x, i32) effects<> results<view 0> : (memref<4xf32>) -> memref<4xi32>
  %n = fx.call "aten.neg_.default"(%v) effects<read 0, write 0> results<same 0> value<"aten.neg.default" [write 0]>
         : (memref<4xi32>) -> memref<4xi32>
  func.return
}

// -----

// A lazy conjugate is applied when the window is read, and undone when it is written.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.*]]: tensor<2xcomplex<f32>>)
// CHECK-NEXT:    %[[C:.*]] = fx.value_call "aten.conj_physical.default"(%[[X]])
// CHECK-NEXT:    %[[M:.*]] = fx.value_call "aten.mul.Tensor"(%[[C]], 2)
// CHECK-NEXT:    %[[B:.*]] = fx.value_call "aten.conj_physical.default"(%[[M]])
// CHECK-NEXT:    func.return %[[B]]
func.func @main(%x: memref<2xcomplex<f32>> {alias.root = #alias.root<0, 16 bytes>}) {
  %v = fx.call "aten._conj.default"(%x) effects<> results<view 0>
         : (memref<2xcomplex<f32>>) -> memref<2xcomplex<f32>, "conj">
  %m = fx.call "aten.mul_.Tensor"(%v, 2) effects<read 0, write 0> results<same 0> value<"aten.mul.Tensor" [write 0]>
         : (memref<2xcomplex<f32>, "conj">) -> memref<2xcomplex<f32>, "conj">
  func.return
}
