// RUN: %opt %s -p remove-dead-values | filecheck %s

// A chain goes at once, from its end; what is returned stays.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %0 = fx.value_call "aten.neg.default"(%x)
// CHECK-NEXT:    func.return %0
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.value_call "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.empty : tensor<8xf32>
  %2 = fx.insert %0 into %1 <[4] strides [2]> : tensor<4xf32> into tensor<8xf32> -> tensor<8xf32>
  %3 = fx.extract %2 <[4] strides [1] offset 4> : tensor<8xf32> -> tensor<4xf32>
  %4 = fx.reinterpret %3 : tensor<4xf32> -> tensor<4xi32>
  func.return %0 : tensor<4xf32>
}

// One used result keeps the call.
// CHECK-LABEL: func.func @partly
// CHECK-NEXT:    fx.value_call "aten.max.dim"
func.func @partly(%x: tensor<2x4xf32>) -> tensor<2xi64> {
  %0, %1 = fx.value_call "aten.max.dim"(%x, 1) : (tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  func.return %1 : tensor<2xi64>
}

// CHECK-LABEL: func.func @constants
// CHECK-NEXT:    func.return
func.func @constants() {
  %0 = fx.constant dense<1.5> : tensor<2xf32> : tensor<2xf32>
  %1 = fx.symbol "s0" : index
  func.return
}
