// RUN: %opt %s  -p 'eliminate-clones{objective=count}' | filecheck %s

// One large copy against two small ones: fewer copies are left without the small ones.

// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"(%y)
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<8xf32> {alias.root = #alias.root<0, 32 bytes>}) -> (memref<f32>, memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<8xf32>) -> memref<8xf32>
  %a = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<8xf32>) -> memref<8xf32>
  %h = fx.call "aten.slice.Tensor"(%y, 0, 0, 2) effects<> results<view 0> : (memref<8xf32>) -> memref<2xf32>
  %b = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<2xf32>
  %k = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<8xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c = fx.call "aten.clone.default"(%k) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<2xf32>
  %b1 = fx.call "aten.add_.Scalar"(%b, 1) effects<read 0, write 0> results<same 0> : (memref<2xf32>) -> memref<2xf32>
  %c1 = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<2xf32>) -> memref<2xf32>
  %s = fx.call "aten.sum.default"(%a) effects<read 0> results<fresh> : (memref<8xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%b) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<f32>
  %u = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<f32>
  func.return %s, %t, %u : memref<f32>, memref<f32>, memref<f32>
}
