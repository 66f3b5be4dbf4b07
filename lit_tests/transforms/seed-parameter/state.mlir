// RUN: %opt %s -p in-place-to-out-of-place,seed-parameter,remove-dead-values | filecheck %s

// The state is made of the seed, which is the last parameter; the written state is no result any more, other states stay.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<2xi64>, %rng_seed: tensor<i64>) -> (tensor<2xi64>, tensor<2xi64>)
// CHECK-SAME:    <"rng.seed" generator in 1 "i64" [] strides [], "x" input in 0 "i64" [2] strides [1] written>
// CHECK-SAME:    alias.table = #alias.table<1 = 0>
// CHECK-NEXT:    %[[ZERO:.*]] = fx.constant dense<0> : tensor<2xi64>
// CHECK-NEXT:    %[[STATE:.*]] = fx.insert %rng_seed into %[[ZERO]] <[] strides []>
// CHECK-NEXT:    fx.value_call "fx2hlo.random_bits.default"(%[[STATE]], [2])
func.func @main(%rng_state: memref<2xi64> {alias.root = #alias.root<0, 16 bytes>, fx.name = "rng.state", fx.kind = "generator"},
                %x: memref<2xi64> {alias.root = #alias.root<1, 16 bytes>, fx.name = "x"}) -> memref<2xi64> {
  %0 = fx.call "fx2hlo.random_bits.default"(%rng_state, [2]) effects<read 0, write 0> results<fresh> : (memref<2xi64>) -> memref<2xi64>
  %1 = fx.call "aten.add_.Tensor"(%x, %0) effects<read 0, write 0, read 1> results<same 0> value<"aten.add.Tensor" [write 0]> pointwise
         : (memref<2xi64>, memref<2xi64>) -> memref<2xi64>
  func.return %0 : memref<2xi64>
}

// A function that draws nothing is left alone.
// CHECK-LABEL: func.func @other(%{{.*}}: tensor<4xf32>)
func.func @other(%y: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "y"}) -> memref<4xf32> {
  %0 = fx.call "aten.neg.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
