// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Memory is compared by bytes: a write beside what is read does not matter. A full overwrite ends what a write did.

// Written in the half that is read: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %l = fx.call "aten.slice.Tensor"(%c, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  %a = fx.call "aten.add_.Scalar"(%l, 1) effects<read 0, write 0> results<same 0> : (memref<2xf32>) -> memref<2xf32>
  %m = fx.call "aten.slice.Tensor"(%y, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  %s = fx.call "aten.sum.default"(%m) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// Written in the other half: removed, and the view of the copy is one of the source.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.slice.Tensor"(%y, 0, 0, 2)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %l = fx.call "aten.slice.Tensor"(%c, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  %a = fx.call "aten.add_.Scalar"(%l, 1) effects<read 0, write 0> results<same 0> : (memref<2xf32>) -> memref<2xf32>
  %m = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %s = fx.call "aten.sum.default"(%m) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// The copy is of a part: its windows move to where the part is.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.select.int"(%h, 0, 1){{.*}} : (memref<2xf32, strided<[1], offset: 2>>) -> memref<f32, strided<[], offset: 3>>
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %h = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<2xf32>
  %e = fx.call "aten.select.int"(%c, 0, 1) effects<> results<view 0> : (memref<2xf32>) -> memref<f32, strided<[], offset: 1>>
  %f = fx.call "aten.add_.Scalar"(%e, 1) effects<read 0, write 0> results<same 0> : (memref<f32, strided<[], offset: 1>>) -> memref<f32, strided<[], offset: 1>>
  %s = fx.call "aten.sum.default"(%f) effects<read 0> results<fresh> : (memref<f32, strided<[], offset: 1>>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// All of what was written is overwritten before the read: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %z = fx.call "aten.fill_.Scalar"(%y, 3) effects<write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}
