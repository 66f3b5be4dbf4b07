// RUN: %opt %s --split-input-file -p donate-activations --verify-diagnostics

// An activation is read afterwards.
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  // expected-error @below {{own.add_norm.default at }}
  %t = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  func.return %n, %t : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// A view of it is.
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %v = fx.call "aten.select.int"(%y, 0, 1) effects<> results<view 0> : (memref<2x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %n, %s = vllm_ir.call "own.add_norm.default"(%y, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  // expected-error @below {{may overwrite its activation the result of aten.sin.default}}
  %t = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<4xf32, strided<[1], offset: 4>>) -> memref<f32>
  func.return %n, %t : memref<2x4xf32>, memref<f32>
}

// -----

// A view made afterwards is.
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %n, %s = vllm_ir.call "own.add_norm.default"(%y, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  %v = fx.call "aten.select.int"(%y, 0, 1) effects<> results<view 0> : (memref<2x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  // expected-error @below {{reads its memory through the result of aten.select.int}}
  %t = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<4xf32, strided<[1], offset: 4>>) -> memref<f32>
  func.return %n, %t : memref<2x4xf32>, memref<f32>
}

// -----

// It is handed back.
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  // expected-error @below {{may overwrite its activation argument r, but the program returns it afterwards}}
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %n, %r : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// A second call consumes it again.
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  // expected-error @below {{may overwrite its activation argument x, but own.add_norm.default}}
  %m, %q = vllm_ir.call "own.add_norm.default"(%x, %s, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  func.return %m, %q : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// Nobody knows what reads it.
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>) {
  %n, %s = vllm_ir.call "own.add_norm.default"(%x, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  // expected-error @below {{own.opaque.default}}
  fx.call "own.opaque.default"(%x) effects<unknown> results<> : (memref<2x4xf32>) -> ()
  func.return %n : memref<2x4xf32>
}

// -----

// Overwritten in part only.
func.func @main(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"},
                %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>, memref<2x4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  %n, %s = vllm_ir.call "own.add_norm.default"(%y, %r, %w) activations<0, 1> maybe_inplace implementations [
          #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
          : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
  %v = fx.call "aten.select.int"(%y, 0, 1) effects<> results<view 0> : (memref<2x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %z = fx.call "aten.zero_.default"(%v) effects<write 0> results<same 0> : (memref<4xf32, strided<[1], offset: 4>>) -> memref<4xf32, strided<[1], offset: 4>>
  // expected-error @below {{aten.sin.default}}
  %t = fx.call "aten.sin.default"(%y) effects<read 0> results<fresh> : (memref<2x4xf32>) -> memref<2x4xf32>
  func.return %n, %t : memref<2x4xf32>, memref<2x4xf32>
}

// -----

// Inside a branch or a loop it would take a look at all that may run afterwards, the next round included.
func.func @main(%p: memref<i1> {alias.root = #alias.root<3, 1 bytes>}, %x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"},
                %r: memref<2x4xf32> {alias.root = #alias.root<1, 32 bytes>, fx.name = "r"}, %w: memref<4xf32> {alias.root = #alias.root<2, 16 bytes>, fx.name = "w"}) -> (memref<2x4xf32>) {
  %t = fx.cond %p captures(%x, %r, %w) effects<read 0, read 1, write 1, read 2, write 2, read 3> then {
  ^bb0(%a: memref<2x4xf32>, %b: memref<2x4xf32>, %c: memref<4xf32>):
    // expected-error @below {{may consume its activations inside control flow}}
    %n, %s = vllm_ir.call "own.add_norm.default"(%a, %b, %c) activations<0, 1> maybe_inplace implementations [
            #vllm_ir.implementation<"fused" "own.add_norm_.default" effects<read 0, write 0, read 1, write 1, read 2> results<> gives [write 0, write 1]>]
            : (memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>, memref<2x4xf32>)
    fx.yield %n : memref<2x4xf32>
  } else {
  ^bb1(%d: memref<2x4xf32>, %e: memref<2x4xf32>, %f: memref<4xf32>):
    fx.yield %d : memref<2x4xf32>
  } : (memref<i1>, memref<2x4xf32>, memref<2x4xf32>, memref<4xf32>) -> (memref<2x4xf32>)
  func.return %t : memref<2x4xf32>
}
