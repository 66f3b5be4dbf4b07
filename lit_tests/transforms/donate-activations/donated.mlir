// RUN: %opt %s --split-input-file -p donate-activations | filecheck %s

// Arguments given away whole are donated; calls become functional, also a call on the results of another.
// CHECK-LABEL: func.func @main
// CHECK-SAME: fx.name = "x", alias.donated}
// CHECK-SAME: fx.name = "r", alias.donated}
// CHECK-SAME: fx.name = "w"}
// CHECK-NOT: maybe_inplace
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  %m, %q = vllm_ir.call "own.add_norm.default"(%n, %s, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %m, %q : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// Read before, and a value of the program itself: no argument is donated for it.
// CHECK-LABEL: func.func @main
// CHECK-SAME: fx.name = "x"}
// CHECK-SAME: fx.name = "r", alias.donated}
// CHECK-NOT: maybe_inplace
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %z = fx.call "aten.sin.default"(%y) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %n, %s = vllm_ir.call "own.add_norm.default"(%y, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %z : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// A part of an argument is no reason to give away all of it, and other parts may be read.
// CHECK-LABEL: func.func @main
// CHECK-SAME: fx.name = "p"}
// CHECK-NOT: maybe_inplace
func.func @main(%p: memref<4x4xf32> {alias.root = #alias.root<0, 64 bytes>, fx.name = "p"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %a = fx.call "aten.slice.Tensor"(%p, 0, 0, 2) effects<> results<view 0> : (memref<4x4xf32>) -> memref<2x4xf32>
  %b = fx.call "aten.slice.Tensor"(%p, 0, 2, 4) effects<> results<view 0> : (memref<4x4xf32>) -> memref<2x4xf32, strided<[4, 1], offset: 8>>
  %n, %s = vllm_ir.call "own.add_norm.default"(%a, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  %t = fx.call "aten.sin.default"(%b) effects<read 0> results<fresh> : (memref<2x4xf32, strided<[4, 1], offset: 8>>) -> memref<2x4xf32>
  func.return %n, %t : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// State belongs to its module: it is not given away.
// CHECK-LABEL: func.func @main
// CHECK-SAME: fx.kind = "buffer"}
// CHECK-SAME: fx.name = "r", alias.donated}
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x", fx.kind = "buffer"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n : memref<2x4xf32>
}

// -----

// Overwritten in full, the memory is alive again.
// CHECK-LABEL: func.func @main
// CHECK-NOT: maybe_inplace
// CHECK: aten.zero_
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  %z = fx.call "aten.zero_.default"(%x) effects<write 0> results<same 0> : (memref<2x4xf32>) -> memref<2x4xf32>
  %t = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  func.return %n, %t : memref<2x4xf32>, memref<2x4xf32>
}
