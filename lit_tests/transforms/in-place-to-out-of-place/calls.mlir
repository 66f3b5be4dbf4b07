// RUN: %opt %s -p 'in-place-to-out-of-place' | filecheck %s

// Kernels and collectives are calls like any other: what they declare decides.
// CHECK-LABEL: func.func @kernels
// CHECK: %2 = fx.extract %0 <[4] strides [1] offset 4>
// CHECK: %3 = nki.value_call "higher_order.k"(%2, %1) kernel 0 grid<1> config "e30=" stored<0 = 0> :
// CHECK: %4 = fx.value_call "aten.mul.Tensor"(%3, 3)
// CHECK: %5 = fx.insert %4 into %0
// CHECK: %6 = nki.value_call "higher_order.k"(%5)
// CHECK: func.return %6, %5
func.func @kernels(%c: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "c"}, %v: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "v"}) -> memref<f32> {
  %0 = fx.call "aten.select.int"(%c, 0, 1) effects<> results<view 0> : (memref<2x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %1 = nki.call "higher_order.k"(%0, %v) kernel 0 grid<1> config "e30=" stored<0 = 0> effects<read 0, write 0, read 1> results<same 0>
         value<"higher_order.k" [write 0]> : (memref<4xf32, strided<[1], offset: 4>>, memref<4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %2 = fx.call "aten.mul_.Tensor"(%1, 3) effects<read 0, write 0> results<same 0> value<"aten.mul.Tensor" [write 0]>
         : (memref<4xf32, strided<[1], offset: 4>>) -> memref<4xf32, strided<[1], offset: 4>>
  %3 = nki.call "higher_order.k"(%c) kernel 1 grid<1> config "e30=" stored<> effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<f32>
  func.return %3 : memref<f32>
}

// CHECK-LABEL: func.func @collectives
// CHECK: %2, %3 = collective.value_all_reduce(%0, %1) "sum" groups<"tp"> : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: %4 = collective.value_permute(%2) to<1, 0> groups<[0, 1]>
// CHECK: %5 = collective.value_wait_tensor(%4)
// CHECK: func.return %5, %2, %3
func.func @collectives(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}, %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "y"}) -> memref<4xf32> {
  %0, %1 = collective.all_reduce(%x, %y) "sum" groups<"tp"> effects<read 0, write 0, read 1, write 1> results<same 0, same 1>
             value<"_c10d_functional.all_reduce_coalesced.default" [write 0, write 1]> : (memref<4xf32>, memref<4xf32>) -> (memref<4xf32>, memref<4xf32>)
  %2 = collective.permute(%x) to<1, 0> groups<[0, 1]> effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %3 = collective.wait_tensor(%2) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %3 : memref<4xf32>
}
