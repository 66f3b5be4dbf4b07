// RUN: %opt %s -p 'resolve-replica-groups{groups="tp=4,5,6,7;0,1,2,3"}' | filecheck %s

// The partition is full, and sorted by first rank; the order inside a group is kept. Numbers follow the program's order, one
// for each operand; waiting joins no ranks.
// CHECK: builtin.module attributes {resolved_count = 3 : i64}
// CHECK-LABEL: func.func @values
// CHECK:         collective.value_all_reduce(%x, %x) "sum" groups<[0, 1, 2, 3], [4, 5, 6, 7]> channel 1
// CHECK:         collective.value_wait_tensor(%0) :
// CHECK:         collective.value_all_gather(%x) size 8 groups<[0, 1, 2, 3, 4, 5, 6, 7]> channel 3
// CHECK:         collective.value_all_gather(%x) size 4 groups<[0, 1, 2, 3], [4, 5, 6, 7]> channel 4
func.func @values(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0, %1 = collective.value_all_reduce(%x, %x) "sum" groups<"tp"> : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %2 = collective.value_wait_tensor(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = collective.value_all_gather(%x) size 8 groups<[0, 1, 2, 3, 4, 5, 6, 7]> : (tensor<4xf32>) -> tensor<32xf32>
  %4 = collective.value_all_gather(%x) size 4 groups<"tp"> : (tensor<4xf32>) -> tensor<16xf32>
  func.return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @handles
// CHECK:         collective.broadcast(%x) from 1 groups<[0, 1, 2, 3], [4, 5, 6, 7]> channel 5 effects<read 0>
func.func @handles(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> memref<4xf32> {
  %0 = collective.broadcast(%x) from 1 groups<"tp"> effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
