// RUN: %opt %s -p lower-implementations --verify-diagnostics

func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  // expected-error @below {{may consume its activations}}
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %s : memref<2x4xf32>, memref<2x4xf32>
}
