// RUN: %opt %s -p 'resolve-replica-groups{groups="tp=4,5,6,7;0,1,2,3"}' | filecheck %s

// The partition is full, and sorted by first rank; the order inside a group is kept.
// CHECK-LABEL: func.func @values
// CHECK:         "_c10d_functional.all_reduce.default"(%x, "sum", {{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]])
// CHECK:         "_c10d_functional.wait_tensor.default"(%0)
func.func @values(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.value_call "_c10d_functional.all_reduce.default"(%x, "sum", "tp") : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "_c10d_functional.wait_tensor.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @handles
// CHECK:         "_c10d_functional.broadcast.default"(%x, 1, {{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]])
func.func @handles(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> memref<4xf32> {
  %0 = fx.call "_c10d_functional.broadcast.default"(%x, 1, "tp") effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
