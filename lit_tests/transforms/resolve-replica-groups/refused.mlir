// RUN: %opt %s -p 'resolve-replica-groups{groups="dp=0,1"}' --split-input-file --verify-diagnostics
// RUN: not %opt %s -p 'resolve-replica-groups{groups="tp=0,1;3,4"}' 2>&1 | filecheck %s --check-prefix HOLES
// RUN: not %opt %s -p 'resolve-replica-groups{groups="tp=0,x"}' 2>&1 | filecheck %s --check-prefix FORM

// RUN: not %opt %s -p 'resolve-replica-groups{groups="tp=0,1;2,3 dp=0,1"}' 2>&1 | filecheck %s --check-prefix WORLDS

// WORLDS: error: process group 'tp' is part of a world of 4 ranks, 'dp' of one of 2
// HOLES: error: process group 'tp': the groups {{\[\[}}0, 1], [3, 4]] do not cover every rank once
// FORM: error: groups: 'tp=0,x' is not of the form name=0,1;2,3
func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{the ranks of process group 'tp' are not known}}
  %0 = collective.value_all_reduce(%x) "sum" groups<"tp"> : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
