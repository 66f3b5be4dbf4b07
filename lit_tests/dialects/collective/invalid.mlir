// RUN: %opt %s --split-input-file --verify-diagnostics

func.func @holes(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{the groups [[0, 1], [3, 4]] do not cover every rank once}}
  %0 = collective.value_all_reduce(%x) "sum" groups<[0, 1], [3, 4]> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @widths(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{the groups [[0, 1, 2], [3]] differ in width}}
  %0 = collective.value_all_reduce(%x) "sum" groups<[0, 1, 2], [3]> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @sizes(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{every rank gets what it gives, [8], and not [4]}}
  %0 = collective.value_all_reduce(%x) "sum" groups<"g"> : (tensor<8xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @element(%x: tensor<8xf32>) -> tensor<8xbf16> {
  // expected-error@+1 {{a collective does not change the element type}}
  %0 = collective.value_all_reduce(%x) "sum" groups<"g"> : (tensor<8xf32>) -> tensor<8xbf16>
  func.return %0 : tensor<8xbf16>
}

// -----

func.func @results(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{1 results for 2 operands}}
  %0 = collective.value_all_reduce(%x, %x) "sum" groups<"g"> : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @gathered(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{2 parts of sizes [8] do not make [8]}}
  %0 = collective.value_all_gather(%x) size 2 groups<"g"> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @ranks(%x: tensor<8xf32>) -> tensor<16xf32> {
  // expected-error@+1 {{the call speaks of 2 ranks, its groups have 4}}
  %0 = collective.value_all_gather(%x) size 2 groups<[0, 1, 2, 3]> : (tensor<8xf32>) -> tensor<16xf32>
  func.return %0 : tensor<16xf32>
}

// -----

func.func @uneven(%x: tensor<8xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{[8] rows cannot be scattered evenly over 3 ranks; pad them}}
  %0 = collective.value_reduce_scatter(%x) "sum" size 3 groups<"g"> : (tensor<8xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}

// -----

func.func @part(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{one of 2 parts of [8] does not have sizes [8]}}
  %0 = collective.value_reduce_scatter(%x) "sum" size 2 groups<"g"> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @parts(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{the parts [4, 3] are not those of a tensor of sizes [8]}}
  %0 = collective.value_all_to_all(%x) sent<4, 3> received<4, 4> groups<"g"> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @source(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{rank 2 is not in a group of 2}}
  %0 = collective.value_broadcast(%x) from 2 groups<[0, 1]> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @twice(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{the destinations [1, 1] are no permutation}}
  %0 = collective.value_permute(%x) to<1, 1> groups<[0, 1]> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @too_few(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{the call speaks of 2 ranks, its groups have 3}}
  %0 = collective.value_permute(%x) to<1, 0> groups<[0, 1, 2]> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}

// -----

func.func @waits(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{one waits for one tensor, and gets it as it is}}
  %0 = collective.value_wait_tensor(%x) : (tensor<8xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @values_on_handles(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{a call takes and gives memory, not a value of type}}
  %0 = collective.all_reduce(%x) "sum" groups<"g"> effects<> results<fresh> : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}
