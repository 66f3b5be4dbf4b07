// RUN: %opt %s -p 'lower-implementations{priority=fused,plain}' | filecheck %s
// RUN: %opt %s -p 'lower-implementations{priority=native,fused}' | filecheck %s --check-prefix=NATIVE

// The list decides, not the order in the call.
// CHECK: [[C:%\S+]] = fx.call "aten.clone.default"(%r)
// CHECK-NEXT: [[O:%\S+]], [[N:%\S+]] = fx.call "own.mixed_.default"(%x, [[C]], %w) effects<read 0, write 1, read 2> results<same 1, fresh>
// CHECK-NEXT: func.return [[N]], [[C]]
// NATIVE: own.add_norm.default
// NATIVE-NOT: clone
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> implementations [
          #vllm_ir.implementation<"plain" "own.plain.default" effects<read 0, read 1, read 2> results<fresh, fresh> gives [result 1, result 0]>, #vllm_ir.implementation<"fused" "own.mixed_.default" effects<read 0, write 1, read 2> results<same 1, fresh> gives [result 1, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %s : memref<2x4xf32>, memref<2x4xf32>
}
