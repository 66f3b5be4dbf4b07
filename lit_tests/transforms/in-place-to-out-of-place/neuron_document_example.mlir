// RUN: %opt %s -p in-place-to-out-of-place | filecheck %s
// The example of the Neuron aliasing document: x, kv_cache, `kv_cache.add_(x)`, one fresh result.
// The cache is parameter 1; its final value is appended as output 1.

// CHECK:      func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[KV:.*]]: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-SAME: alias.bindings = #alias.bindings<"x" input in 0 "f32" [4, 8] strides [8, 1], "kv_cache" input in 1 "f32" [4, 8] strides [8, 1] written>
// CHECK-SAME: alias.table = #alias.table<1 = 1>
// CHECK-SAME: alias.plan = #alias.plan<result 0 "f32" [4, 8] strides [8, 1]>
// CHECK-NEXT:   %[[NEW:.*]] = fx.value_call "aten.add.Tensor"(%[[KV]], %[[X]])
// CHECK-NEXT:   %[[OUT:.*]] = fx.value_call "aten.mul.Tensor"(%[[NEW]], %[[X]])
// CHECK-NEXT:   func.return %[[OUT]], %[[NEW]]
func.func @main(
    %x: memref<4x8xf32> {alias.root = #alias.root<0, 128 bytes>, fx.name = "x", fx.kind = "input"},
    %kv: memref<4x8xf32> {alias.root = #alias.root<1, 128 bytes>, fx.name = "kv_cache", fx.kind = "input"})
    -> memref<4x8xf32> {
  %0 = fx.call "aten.add_.Tensor"(%kv, %x) effects<read 0, write 0, read 1> results<same 0>
         value<"aten.add.Tensor" [write 0]> : (memref<4x8xf32>, memref<4x8xf32>) -> memref<4x8xf32>
  %1 = fx.call "aten.mul.Tensor"(%0, %x) effects<read 0, read 1> results<fresh>
         : (memref<4x8xf32>, memref<4x8xf32>) -> memref<4x8xf32>
  func.return %1 : memref<4x8xf32>
}
