// RUN: %opt %s --split-input-file --verify-diagnostics

func.func @range(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{activation 2, but there are 2 operands}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<2> implementations [] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @twice(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{an activation is listed twice}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0, 0> implementations [] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @native(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{the implementations must have names of their own}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"native" "own.norm_.default" effects<read 0, write 0, read 1> results<> gives [write 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @same_name(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{the implementations must have names of their own}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<> gives [write 0]>, #vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<> gives [write 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @writes_weight(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{writes operands [1], of which only activations may be written}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 1> results<> gives [write 1]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @unknown(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{its effects must be known}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<unknown> results<> gives [write 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @no_operand(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{an effect on an operand that the call does not have}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 2, write 0> results<> gives [write 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @count(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{gives 2 results, the call has 1}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<> gives [write 0, write 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @unwritten(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{gives operand 1, which it does not write}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<> gives [write 1]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @no_result(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{gives result 0, which is not fresh memory of its own}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<> gives [result 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @same_result(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{gives result 0, which is not fresh memory of its own}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<same 0> gives [result 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @unused(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{result 0 is neither given nor an operand}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<fresh> gives [write 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @bad_same(%x: memref<4xf32>, %w: memref<4xf32>) {
  // expected-error @below {{result 0 is an operand that the call does not have}}
  %n = vllm_ir.call "own.norm.default"(%x, %w) activations<0> implementations [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<same 3> gives [write 0]>] : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return
}
