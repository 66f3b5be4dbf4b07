// RUN: %opt %s > %t.pretty && %opt %s --print-op-generic > %t.generic
// RUN: %opt %t.generic > %t.again && diff %t.pretty %t.again
// RUN: %opt %t.pretty --print-op-generic > %t.again && diff %t.generic %t.again
// RUN: filecheck %s < %t.pretty

// CHECK-LABEL: func.func @handles
// CHECK: %0, %1 = collective.all_reduce(%x, %y) "sum" groups<"tp"> effects<read 0, write 0, read 1, write 1> results<same 0, same 1>
// CHECK-SAME: value<"_c10d_functional.all_reduce_coalesced.default" [write 0, write 1]>
// CHECK: collective.all_gather(%x) size 2 groups<[0, 1], [2, 3]> channel 4 effects<read 0> results<fresh>
// CHECK: collective.reduce_scatter(%x) "max" size 2 groups<[0, 1], [2, 3]> effects<read 0> results<fresh>
// CHECK: collective.all_to_all(%x) sent<4, 4> received<4, 4> groups<[0, 1], [2, 3]> effects<read 0> results<fresh>
// CHECK: collective.broadcast(%x) from 1 groups<[0, 1], [2, 3]> effects<read 0> results<fresh>
// CHECK: collective.permute(%x) to<1, 0> groups<[0, 1], [2, 3]> effects<read 0> results<fresh>
// CHECK: collective.wait_tensor(%{{.*}}) effects<read 0> results<fresh>
func.func @handles(%x: memref<8x3xf32>, %y: memref<8x3xf32>) -> memref<8x3xf32> {
  %0, %1 = collective.all_reduce(%x, %y) "sum" groups<"tp"> effects<read 0, write 0, read 1, write 1> results<same 0, same 1>
             value<"_c10d_functional.all_reduce_coalesced.default" [write 0, write 1]>
             : (memref<8x3xf32>, memref<8x3xf32>) -> (memref<8x3xf32>, memref<8x3xf32>)
  %2 = collective.all_gather(%x) size 2 groups<[0, 1], [2, 3]> channel 4 effects<read 0> results<fresh> : (memref<8x3xf32>) -> memref<16x3xf32>
  %3 = collective.reduce_scatter(%x) "max" size 2 groups<[0, 1], [2, 3]> effects<read 0> results<fresh> : (memref<8x3xf32>) -> memref<4x3xf32>
  %4 = collective.all_to_all(%x) sent<4, 4> received<4, 4> groups<[0, 1], [2, 3]> effects<read 0> results<fresh> : (memref<8x3xf32>) -> memref<8x3xf32>
  %5 = collective.broadcast(%x) from 1 groups<[0, 1], [2, 3]> effects<read 0> results<fresh> : (memref<8x3xf32>) -> memref<8x3xf32>
  %6 = collective.permute(%x) to<1, 0> groups<[0, 1], [2, 3]> effects<read 0> results<fresh> : (memref<8x3xf32>) -> memref<8x3xf32>
  %7 = collective.wait_tensor(%6) effects<read 0> results<fresh> : (memref<8x3xf32>) -> memref<8x3xf32>
  func.return %7 : memref<8x3xf32>
}

// CHECK-LABEL: func.func @values
// CHECK: collective.value_all_reduce(%x) "avg" groups<[1, 0]> channel 1 : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: collective.value_all_gather(%x) size 2 groups<"tp"> {note = "kept"} : (tensor<4xf32>) -> tensor<8xf32>
// CHECK: collective.value_reduce_scatter(%x) "sum" size 2 groups<"tp"> : (tensor<4xf32>) -> tensor<2xf32>
// CHECK: collective.value_all_to_all(%x) sent<4, 0> received<0, 4> groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: collective.value_broadcast(%x) from 0 groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: collective.value_permute(%x) to<1, 0> groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: collective.value_wait_tensor(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
func.func @values(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = collective.value_all_reduce(%x) "avg" groups<[1, 0]> channel 1 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = collective.value_all_gather(%x) size 2 groups<"tp"> {note = "kept"} : (tensor<4xf32>) -> tensor<8xf32>
  %2 = collective.value_reduce_scatter(%x) "sum" size 2 groups<"tp"> : (tensor<4xf32>) -> tensor<2xf32>
  %3 = collective.value_all_to_all(%x) sent<4, 0> received<0, 4> groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
  %4 = collective.value_broadcast(%x) from 0 groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
  %5 = collective.value_permute(%x) to<1, 0> groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
  %6 = collective.value_wait_tensor(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %6 : tensor<4xf32>
}
