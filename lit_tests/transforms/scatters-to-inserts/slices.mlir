// RUN: %opt %s -p scatters-to-inserts,remove-dead-values | filecheck %s

// Through reshapes: what was read from the window of the pool goes back into the same window.
// CHECK-LABEL: func.func @plane
// CHECK-NEXT:    %[[PLANE:.*]] = fx.extract %[[POOL:.*]] <[16, 8] strides [8, 1] offset 128>
// CHECK-NEXT:    %[[NEW:.*]] = fx.value_call "aten.neg.default"(%[[PLANE]])
// CHECK-NEXT:    %[[OUT:.*]] = fx.insert %[[NEW]] into %[[POOL]] <[16, 8] strides [8, 1] offset 128>
// CHECK-NEXT:    func.return %[[OUT]]
func.func @plane(%pool: tensor<4x16x8xf32>) -> tensor<4x16x8xf32> {
  %0 = fx.extract %pool <[16, 8] strides [8, 1] offset 128> : tensor<4x16x8xf32> -> tensor<16x8xf32>
  %1 = fx.value_call "aten.neg.default"(%0) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %2 = fx.extract %1 <[1, 16, 8] strides [128, 8, 1]> : tensor<16x8xf32> -> tensor<1x16x8xf32>
  %3 = fx.value_call "aten.slice_scatter.default"(%pool, %2, 0, 1, 2) : (tensor<4x16x8xf32>, tensor<1x16x8xf32>) -> tensor<4x16x8xf32>
  func.return %3 : tensor<4x16x8xf32>
}

// Two axes, one scatter in the other: one insert.
// CHECK-LABEL: func.func @box
// CHECK-NEXT:    %[[OUT:.*]] = fx.insert %{{.*}} into %{{.*}} <[2, 3] strides [8, 2] offset 17>
// CHECK-NEXT:    func.return %[[OUT]]
func.func @box(%pool: tensor<6x8xf32>, %value: tensor<2x3xf32>) -> tensor<6x8xf32> {
  %0 = fx.extract %pool <[2, 8] strides [8, 1] offset 16> : tensor<6x8xf32> -> tensor<2x8xf32>
  %1 = fx.value_call "aten.slice_scatter.default"(%0, %value, 1, 1, 7, 2) : (tensor<2x8xf32>, tensor<2x3xf32>) -> tensor<2x8xf32>
  %2 = fx.value_call "aten.slice_scatter.default"(%pool, %1, 0, 2, 4) : (tensor<6x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  func.return %2 : tensor<6x8xf32>
}

// Another window than it was read from: the inner scatter stays what it is. Negative and open bounds are those of Python.
// CHECK-LABEL: func.func @elsewhere
// CHECK:         fx.insert %{{.*}} into %{{.*}} <[2, 2] strides [8, 1] offset 6>
// CHECK:         fx.insert %{{.*}} into %{{.*}} <[2, 8] strides [8, 1] offset 32>
func.func @elsewhere(%pool: tensor<6x8xf32>, %value: tensor<2x2xf32>) -> tensor<6x8xf32> {
  %0 = fx.extract %pool <[2, 8] strides [8, 1] offset 16> : tensor<6x8xf32> -> tensor<2x8xf32>
  %1 = fx.value_call "aten.slice_scatter.default"(%0, %value, 1, -2) : (tensor<2x8xf32>, tensor<2x2xf32>) -> tensor<2x8xf32>
  %2 = fx.value_call "aten.slice_scatter.default"(%pool, %1, 0, -2, none) : (tensor<6x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  func.return %2 : tensor<6x8xf32>
}

// Another element type is a conversion, not an insert.
// CHECK-LABEL: func.func @converted
// CHECK-NEXT:    fx.value_call "aten.slice_scatter.default"
func.func @converted(%pool: tensor<6x8xf32>, %value: tensor<2x8xf16>) -> tensor<6x8xf32> {
  %0 = fx.value_call "aten.slice_scatter.default"(%pool, %value, 0, 0, 2) : (tensor<6x8xf32>, tensor<2x8xf16>) -> tensor<6x8xf32>
  func.return %0 : tensor<6x8xf32>
}
