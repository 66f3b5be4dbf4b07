// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Clause 3: no op may write memory that is another operand of it, unless it goes element by element over the same window.

// Not known to go element by element: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "own.reverse_into.default{{[^"]*}} would write memory that is another operand of it"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  fx.call "own.reverse_into.default"(%y, %c) effects<read 0, read 1, write 1> results<> : (memref<4xf32>, memref<4xf32>) -> ()
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Element by element: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.add_.Tensor"(%y, %y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Tensor"(%c, %y) effects<read 0, write 0, read 1> results<same 0> pointwise : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%a) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Element by element, but over another window of the same bytes: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.add_.Tensor{{[^"]*}} would write memory that is another operand of it"
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %a = fx.call "aten.add_.Tensor"(%c, %t) effects<read 0, write 0, read 1> results<same 0> pointwise : (memref<2x2xf32>, memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %s = fx.call "aten.sum.default"(%a) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Two written operands: one of the two copies stays.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "own.two_writes.default{{[^"]*}} would write memory that is another operand of it"
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %b = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  fx.call "own.two_writes.default"(%a, %b) effects<read 0, write 0, read 1, write 1> results<> : (memref<4xf32>, memref<4xf32>) -> ()
  %s = fx.call "aten.sum.default"(%a) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%b) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// They write different halves: both go.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "own.two_writes.default"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %b = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %p = fx.call "aten.slice.Tensor"(%a, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  %q = fx.call "aten.slice.Tensor"(%b, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  fx.call "own.two_writes.default"(%p, %q) effects<read 0, write 0, read 1, write 1> results<> : (memref<2xf32>, memref<2xf32, strided<[1], offset: 2>>) -> ()
  %s = fx.call "aten.sum.default"(%p) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%q) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}
