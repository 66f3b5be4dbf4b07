// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Clause 5: the caller must find in its arguments what it would have found.

// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "argument x would end up with what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<f32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Donated: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.add_.Scalar"(%x
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, alias.donated, fx.name = "x"}) -> (memref<f32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The value is stored back: both copies go.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK-NOT: aten.copy_
// CHECK: func.return
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<f32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %b = fx.call "aten.copy_.default"(%x, %c) effects<write 0, read 1> results<same 0> pointwise : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Stored back, but the old value is read in between: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
// CHECK: aten.copy_
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<f32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  %b = fx.call "aten.copy_.default"(%x, %c) effects<write 0, read 1> results<same 0> pointwise : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return %s : memref<f32>
}

// -----

// An update of a donated argument must arrive: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "argument x would end up with what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, alias.donated, fx.name = "x"}) -> (memref<f32>) {
  %z = fx.call "aten.fill_.Scalar"(%x, 3) effects<write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Another argument in the same memory is not donated: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "argument x would end up with what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, alias.donated, fx.name = "x"}, %v: memref<2xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "v"}) -> (memref<f32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A constant is as good as an argument.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "a constant would end up with what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %k = fx.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : memref<4xf32>
  %c = fx.call "aten.clone.default"(%k) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%k)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %k = fx.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : memref<4xf32>
  %c = fx.call "aten.clone.default"(%k) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A donated argument gets back what it holds: that is no update, and the copy may live there.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK-NOT: aten.copy_
// CHECK: "aten.add_.Scalar"(%x, 1)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, alias.donated, fx.name = "x"}) -> (memref<4xf32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %b = fx.call "aten.copy_.default"(%x, %c) effects<write 0, read 1> results<same 0> pointwise : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  func.return %c : memref<4xf32>
}

// -----

// Only a half of it is stored back, the rest would be another value: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "argument x would end up with what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<f32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %p = fx.call "aten.slice.Tensor"(%x, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  %q = fx.call "aten.slice.Tensor"(%c, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  %b = fx.call "aten.copy_.default"(%p, %q) effects<write 0, read 1> results<same 0> pointwise : (memref<2xf32>, memref<2xf32>) -> memref<2xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// It is stored into another place of the argument: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "{{.*}}aten.copy_.default{{[^"]*}} would write memory that is another operand of it"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<f32>) {
  %h = fx.call "aten.slice.Tensor"(%x, 0, 0, 3) effects<> results<view 0> : (memref<4xf32>) -> memref<3xf32>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<3xf32>) -> memref<3xf32>
  %g = fx.call "aten.slice.Tensor"(%x, 0, 1, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<3xf32, strided<[1], offset: 1>>
  %b = fx.call "aten.copy_.default"(%g, %c) effects<write 0, read 1> results<same 0> pointwise : (memref<3xf32, strided<[1], offset: 1>>, memref<3xf32>) -> memref<3xf32, strided<[1], offset: 1>>
  %s = fx.call "aten.sum.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}
