// RUN: %opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

// What holds for every program, whatever its dialect.

// expected-error @+2 {{operand 0 is defined after its use}}
func.func @after(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.value_call "aten.neg.default"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----
func.func @itself() {
  // expected-error @below {{operand 0 is defined after its use}}
  %0 = "test.op"(%0) : (i32) -> i32
  func.return
}
// -----
func.func @isolated(%x: tensor<4xf32>) {
  builtin.module {
    func.func @inner() {
      // expected-error @below {{operand 0 is not defined in this scope}}
      "test.use"(%x) : (tensor<4xf32>) -> ()
      func.return
    }
  }
  func.return
}
// -----
func.func @twice() { func.return }
// expected-error @below {{a second definition of @twice}}
func.func @twice() { func.return }
// -----
func.func @caller() {
  // expected-error-re @below {{nowhere}}
  func.call @nowhere() : () -> ()
  func.return
}
// -----
func.func @early_return() {
  // expected-error @below {{a terminator is the last operation of its block}}
  func.return
  func.return
}
// -----
func.func @no_terminator() {
  // expected-error @below {{the last operation of the block is no terminator}}
  %0 = fx.empty : tensor<2xf32>
}
// -----
// expected-error @below {{a region has one block}}
func.func @blocks() {
  func.return
^second:
  func.return
}
// -----
// expected-error-re @+2 {{arguments.* to have the same types as the function output types|output types}}
func.func @return_type(%x: tensor<4xf32>) -> tensor<2xf32> {
  func.return %x : tensor<4xf32>
}
// -----
// Nested regions see the values around them.
func.func @nested(%x: tensor<4xf32>) {
  "test.region"() ({
    "test.use"(%x) : (tensor<4xf32>) -> ()
  }) : () -> ()
  func.return
}
