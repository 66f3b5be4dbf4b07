// RUN: %opt %s -p 'resolve-replica-groups{groups="four=0,1,2,3" rank=2}' --split-input-file --verify-diagnostics
// RUN: not %opt %s -p 'resolve-replica-groups{groups="four=0,1,2,3" permutations="four=1,0,3,2" rank=2}' 2>&1 | filecheck %s --check-prefix OTHER
// RUN: not %opt %s -p 'resolve-replica-groups{groups="four=0,1,2,3" permutations="four=2,3,0,1;3,2,1,0;2,1,0,3" rank=2}' 2>&1 | filecheck %s --check-prefix SEVERAL

// OTHER: which permutation of 4 ranks that is part of is not clear: none of those given
// SEVERAL: is not clear: [2, 1, 0, 3] and [2, 3, 0, 1]
func.func @two_pairs_or_one(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{rank 2 of group 'four' sends to 0 and hears from 0, which does not tell where the others send}}
  %0 = collective.value_all_to_all(%x) sent<4, 0, 0, 0> received<4, 0, 0, 0> groups<"four"> : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
