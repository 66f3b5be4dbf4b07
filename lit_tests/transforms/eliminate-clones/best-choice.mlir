// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Where copies compete for one source, the choice is the best one, not the first that fits.

// Removing the first copy would keep both others.
// CHECK-LABEL: func.func @main
// CHECK: %a = fx.call "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.{{add|mul}}_.Scalar{{[^"]*}} wrote"
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %a = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %b = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %b0 = fx.call "aten.select.int"(%b, 0, 0) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2xf32>
  %b1 = fx.call "aten.add_.Scalar"(%b0, 1) effects<read 0, write 0> results<same 0> : (memref<2xf32>) -> memref<2xf32>
  %c0 = fx.call "aten.select.int"(%c, 0, 1) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c1 = fx.call "aten.add_.Scalar"(%c0, 1) effects<read 0, write 0> results<same 0> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<2xf32, strided<[1], offset: 2>>
  %p = fx.call "aten.sum.default"(%b0) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<f32>
  %q = fx.call "aten.sum.default"(%c0) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<f32>
  %r = fx.call "aten.sum.default"(%a) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<f32>
  func.return %p, %q, %r : memref<f32>, memref<f32>, memref<f32>
}

// -----

// Copies go in the world that the others leave: a chain collapses.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %b = fx.call "aten.add_.Scalar"(%a, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%a) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %d = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}
