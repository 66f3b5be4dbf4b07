// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Control flow counts by what its regions read and write.

// A branch writes the copy, and its source is read later: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what fx.cond{{[^"]*}} wrote"
func.func @main(%p: memref<i1> {alias.root = #alias.root<0, 1 bytes>}, %x: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  fx.cond %p captures(%c) effects<read 0, read 1, write 1> then {
  ^bb0(%a: memref<4xf32>):
    %0 = fx.call "aten.neg_.default"(%a) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
    fx.yield
  } else {
  ^bb1(%b: memref<4xf32>):
    fx.yield
  } : (memref<i1>, memref<4xf32>) -> ()
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Its source is not read later: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: fx.cond %p captures(%y)
func.func @main(%p: memref<i1> {alias.root = #alias.root<0, 1 bytes>}, %x: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  fx.cond %p captures(%c) effects<read 0, read 1, write 1> then {
  ^bb0(%a: memref<4xf32>):
    %0 = fx.call "aten.neg_.default"(%a) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
    fx.yield
  } else {
  ^bb1(%b: memref<4xf32>):
    fx.yield
  } : (memref<i1>, memref<4xf32>) -> ()
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The branches only read: removed, also where the source is read later.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: fx.cond %p captures(%y)
func.func @main(%p: memref<i1> {alias.root = #alias.root<0, 1 bytes>}, %x: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %r = fx.cond %p captures(%c) effects<read 0, read 1> then {
  ^bb0(%a: memref<4xf32>):
    %0 = fx.call "aten.sum.default"(%a) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
    fx.yield %0 : memref<f32>
  } else {
  ^bb1(%b: memref<4xf32>):
    %1 = fx.call "aten.mean.default"(%b) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
    fx.yield %1 : memref<f32>
  } : (memref<i1>, memref<4xf32>) -> (memref<f32>)
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %r, %s : memref<f32>, memref<f32>
}

// -----

// The source lies elsewhere in its memory than the copy in its own, and the regions are typed for that place: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "fx.cond{{[^"]*}}: a region is made for the copy's place and strides"
func.func @main(%p: memref<i1> {alias.root = #alias.root<0, 1 bytes>}, %x: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %h = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<2xf32>
  %r = fx.cond %p captures(%c) effects<read 0, read 1> then {
  ^bb0(%a: memref<2xf32>):
    %0 = fx.call "aten.sum.default"(%a) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<f32>
    fx.yield %0 : memref<f32>
  } else {
  ^bb1(%b: memref<2xf32>):
    %1 = fx.call "aten.mean.default"(%b) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<f32>
    fx.yield %1 : memref<f32>
  } : (memref<i1>, memref<2xf32>) -> (memref<f32>)
  func.return %r : memref<f32>
}
