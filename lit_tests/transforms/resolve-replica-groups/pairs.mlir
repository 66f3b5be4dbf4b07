// RUN: %opt %s -p 'resolve-replica-groups{groups="two=0,1;2,3;4,5 three=1,2,3;4,5,0" rank=3}' | filecheck %s

// Of two ranks, what one does says what the other does, and of three in a ring.
// CHECK: collective.value_permute(%x) to<1, 0> groups<[0, 1], [2, 3], [4, 5]> channel 1
// CHECK: collective.value_permute(%x) to<1, 2, 0> groups<[1, 2, 3], [4, 5, 0]> channel 2
func.func @values(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = collective.value_all_to_all(%x) sent<4, 0> received<4, 0> groups<"two"> : (tensor<4xf32>) -> tensor<4xf32>
  %1 = collective.value_all_to_all(%x) sent<4, 0, 0> received<0, 4, 0> groups<"three"> : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
