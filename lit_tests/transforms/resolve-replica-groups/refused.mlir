// RUN: %opt %s -p 'resolve-replica-groups{groups="dp=0,1"}' --split-input-file --verify-diagnostics

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{the ranks of process group 'tp' are not known}}
  %0 = fx.value_call "_c10d_functional.all_reduce.default"(%x, "sum", "tp") : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
