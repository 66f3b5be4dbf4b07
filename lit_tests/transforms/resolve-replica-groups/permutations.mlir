// RUN: %opt %s -p 'resolve-replica-groups{groups="tp=0,1,2,3;4,5,6,7" permutations="tp=1,2,3,0;3,0,1,2" rank=6}' | filecheck %s
// RUN: not %opt %s -p 'resolve-replica-groups{groups="tp=0,1,2,3;4,5,6,7" permutations="tp=1,2,3,0;3,0,1,2"}' 2>&1 | filecheck %s --check-prefix RANK

// RANK: is not clear: [1, 2, 3, 0] and [3, 0, 1, 2]
// What rank 2 of its group sends and hears is part of one of the two rings; all ranks get the same program.
// CHECK-LABEL: func.func @values
// CHECK: %0 = collective.value_permute(%x) to<1, 2, 3, 0> groups<[0, 1, 2, 3], [4, 5, 6, 7]> channel 1
// CHECK: %1 = collective.value_permute(%0) to<3, 0, 1, 2> groups<[0, 1, 2, 3], [4, 5, 6, 7]> channel 2
// CHECK: collective.value_all_to_all(%1) sent<1, 1, 1, 1> received<1, 1, 1, 1>
func.func @values(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = collective.value_all_to_all(%x) sent<0, 0, 0, 4> received<0, 4, 0, 0> groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
  %1 = collective.value_all_to_all(%0) sent<0, 4, 0, 0> received<0, 0, 0, 4> groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
  %2 = collective.value_all_to_all(%1) sent<1, 1, 1, 1> received<1, 1, 1, 1> groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @handles
// CHECK: collective.permute(%x) to<1, 2, 3, 0> groups<[0, 1, 2, 3], [4, 5, 6, 7]> channel 4 effects<read 0> results<fresh>
func.func @handles(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> memref<4xf32> {
  %0 = collective.all_to_all(%x) sent<0, 0, 0, 4> received<0, 4, 0, 0> groups<"tp"> effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
