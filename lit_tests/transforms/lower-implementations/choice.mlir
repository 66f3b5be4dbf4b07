// RUN: %opt %s --split-input-file -p lower-implementations | filecheck %s
// RUN: %opt %s --split-input-file -p 'lower-implementations{priority=plain}' | filecheck %s --check-prefix=NATIVE
// RUN: %opt %s --split-input-file -p 'lower-implementations,eliminate-clones' | filecheck %s --check-prefix=FREE

// What runs in place runs on copies; copies that nothing can tell go. No name of the list applies: native.
// CHECK-LABEL: func.func @main
// CHECK: [[A:%\S+]] = fx.call "aten.clone.default"([[X:%\S+]]) effects<read 0> results<fresh>
// CHECK-NEXT: [[B:%\S+]] = fx.call "aten.clone.default"([[R:%\S+]]) effects<read 0> results<fresh>
// CHECK-NEXT: fx.call "own.add_norm_.default"([[A]], [[B]], %w) effects<read 0, write 0, read 1, write 1, read 2> results<>
// CHECK-NEXT: func.return [[A]], [[B]]
// NATIVE-LABEL: func.func @main
// NATIVE-NOT: aten.clone
// NATIVE: fx.call "own.add_norm.default"(%y, %z, %w) effects<read 0, read 1, read 2> results<fresh, fresh>
// FREE-LABEL: func.func @main
// FREE-NOT: aten.clone
// FREE: fx.call "own.add_norm_.default"(%y, %z, %w)
// FREE-NEXT: func.return %y, %z
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %z = fx.call "aten.sin.default"(%r) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %n, %s = vllm_ir.call "own.add_norm.default"(%y, %z, %w) activations<0, 1> implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %s : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// An activation that is read later stays copied, and so does an argument that is not donated.
// CHECK-LABEL: func.func @main
// NATIVE-LABEL: func.func @main
// FREE-LABEL: func.func @main
// FREE: aten.clone.default"(%y)
// FREE-SAME: alias.kept = "aten.sin.default
// FREE-NEXT: {{.*}}aten.clone.default"(%r)
// FREE-SAME: alias.kept = "argument r would end up with what own.add_norm_.default
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>, memref<2x4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %n, %s = vllm_ir.call "own.add_norm.default"(%y, %r, %w) activations<0, 1> implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  %t = fx.call "aten.sin.default"(%y) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  func.return %n, %s, %t : memref<2x4xf32>, memref<2x4xf32>, memref<2x4xf32>
}

// -----

// One value as both activations: two copies, of which one takes over the value.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"(%y)
// CHECK: "aten.clone.default"(%y)
// FREE-LABEL: func.func @main
// FREE: aten.clone.default
// FREE-NOT: aten.clone.default
// FREE: own.add_norm_
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %n, %s = vllm_ir.call "own.add_norm.default"(%y, %y, %w) activations<0, 1> implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %s : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// A copy of a window with gaps is asked for in row-major order, as the result has it.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"(%x, memory_format = @"memory_format:contiguous_format")
// CHECK-SAME: (memref<2x4xf32, strided<[8, 1]>>) -> memref<2x4xf32>
func.func @main(%x: memref<2x4xf32, strided<[8, 1]>> {alias.root = #alias.root<0, 48 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32, strided<[8, 1]>>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %s : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// A result in an order that no copy has: the native form.
// CHECK-LABEL: func.func @main
// CHECK: own.add_norm.default
// CHECK-NOT: clone
func.func @main(%x: memref<2x4xf32, strided<[1, 2]>> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32, strided<[1, 2]>>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32, strided<[1, 2]>>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32, strided<[1, 2]>>)
  func.return %n, %s : memref<2x4xf32>, memref<2x4xf32, strided<[1, 2]>>
}

// -----

// The first that fits is taken, results in the order that it gives; an operator may return what it wrote.
// CHECK-LABEL: func.func @main
// CHECK: [[A:%\S+]], [[B:%\S+]] = fx.call "own.plain.default"
// CHECK-NEXT: func.return [[B]], [[A]]
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> implementations [
          #vllm_ir.implementation<"plain" "own.plain.default" effects<read 0, read 1, read 2> results<fresh, fresh> gives [result 1, result 0]>, #vllm_ir.implementation<"fused" "own.mixed_.default" effects<read 0, write 1, read 2> results<same 1, fresh> gives [result 1, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %s : memref<2x4xf32>, memref<2x4xf32>
}
