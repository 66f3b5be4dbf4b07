// RUN: %opt %s > %t.pretty && %opt %s --print-op-generic > %t.generic
// RUN: %opt %t.generic > %t.again && diff %t.pretty %t.again
// RUN: %opt %t.pretty --print-op-generic > %t.again && diff %t.generic %t.again
// RUN: filecheck %s < %t.pretty

// CHECK: vllm_ir.call "own.norm.default"(%x, %w, 1.0e-06, out = none) activations<0> maybe_inplace implementations
// CHECK-SAME: [#vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<same 0> gives [write 0]>,
// CHECK-SAME:  #vllm_ir.implementation<"plain" "own.norm_plain.default" effects<read 0, read 1> results<fresh> gives [result 0]>]
// CHECK: vllm_ir.call "own.norm.default"(%n, %w) activations<> implementations [] {note = "kept"}
func.func @main(%x: memref<2x4xf32>, %w: memref<4xf32>) -> (memref<2x4xf32>) {
  %n = vllm_ir.call "own.norm.default"(%x, %w, 1.0e-6, out = none) activations<0> maybe_inplace implementations [
         #vllm_ir.implementation<"fused" "own.norm_.default" effects<read 0, write 0, read 1> results<same 0> gives [write 0]>,
         #vllm_ir.implementation<"plain" "own.norm_plain.default" effects<read 0, read 1> results<fresh> gives [result 0]>]
         : (memref<2x4xf32>, memref<4xf32>) -> memref<2x4xf32>
  %m = vllm_ir.call "own.norm.default"(%n, %w) activations<> implementations [] {note = "kept"}
         : (memref<2x4xf32>, memref<4xf32>) -> memref<2x4xf32>
  func.return %m : memref<2x4xf32>
}
