// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Clause 6: other strides are fine where nobody can see them.

// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "func.return{{[^"]*}}: the strides of a result"
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<2x2xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  func.return %c : memref<2x2xf32>
}

// -----

// Only summed up: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%t)
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Flattened: no strides express that on the transposed source.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.view.default{{[^"]*}}: its view needs the strides of the copy"
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %v = fx.call "aten.view.default"(%c, [4]) effects<> results<view 0> : (memref<2x2xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A row of it: that can be expressed, the window follows.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.select.int"(%t, 0, 1){{.*}} -> memref<2xf32, strided<[2], offset: 1>>
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %v = fx.call "aten.select.int"(%c, 0, 1) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// An element-wise result has the strides of its operand: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sin.default{{[^"]*}}: the strides of its result follow"
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<2x2xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %r = fx.call "aten.sin.default"(%c) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  func.return %r : memref<2x2xf32>
}

// -----

// Unless those do not show either.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sin.default"(%t)
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %r = fx.call "aten.sin.default"(%c) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %s = fx.call "aten.sum.default"(%r) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// An operator that is not from ATen may look at raw memory: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "own.norm.default{{[^"]*}}: it may look at raw memory"
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %s = fx.call "own.norm.default"(%c) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// as_strided counts from the start of the storage: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.as_strided.default{{[^"]*}}: it counts positions from the start of the storage"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %h = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<2xf32>
  %v = fx.call "aten.as_strided.default"(%c, [1], [1], 1) effects<> results<view 0> : (memref<2xf32>) -> memref<1xf32, strided<[1], offset: 1>>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<1xf32, strided<[1], offset: 1>>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The start is the same: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.as_strided.default"(%y
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %v = fx.call "aten.as_strided.default"(%c, [1], [1], 1) effects<> results<view 0> : (memref<4xf32>) -> memref<1xf32, strided<[1], offset: 1>>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<1xf32, strided<[1], offset: 1>>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A wider element needs aligned memory: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.view.dtype{{[^"]*}}: it needs memory aligned to 8 bytes"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<i64>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %h = fx.call "aten.slice.Tensor"(%y, 0, 1, 3) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 1>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 1>>) -> memref<2xf32>
  %v = fx.call "aten.view.dtype"(%c, i64) effects<> results<view 0> : (memref<2xf32>) -> memref<1xi64>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<1xi64>) -> memref<i64>
  func.return %s : memref<i64>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "it resolves the lazy neg bit of its source"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %n = fx.call "aten._neg_view.default"(%y) effects<> results<view 0> : (memref<4xf32>) -> memref<4xf32, "neg">
  %c = fx.call "aten.clone.default"(%n) effects<read 0> results<fresh> : (memref<4xf32, "neg">) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The bit stays on: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%n)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %n = fx.call "aten._neg_view.default"(%y) effects<> results<view 0> : (memref<4xf32>) -> memref<4xf32, "neg">
  %c = fx.call "aten.clone.default"(%n) effects<read 0> results<fresh> : (memref<4xf32, "neg">) -> memref<4xf32, "neg">
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32, "neg">) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// It says that it takes any strides: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "own.norm.default"(%t
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %s = fx.call "own.norm.default"(%c) effects<read 0> results<fresh> {fx.flexible_layout} : (memref<2x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Aligned as it has to be: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.view.dtype"(%h, i64){{.*}} -> memref<1xi64, strided<[1], offset: 1>>
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<i64>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %h = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<2xf32>
  %v = fx.call "aten.view.dtype"(%c, i64) effects<> results<view 0> : (memref<2xf32>) -> memref<1xi64>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<1xi64>) -> memref<i64>
  func.return %s : memref<i64>
}

// -----

// A functionalised call that names windows by strides and position looks at both: kept, as the copy starts elsewhere.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "auto_functionalized_v2{{[^"]*}}: it counts positions from the start of the storage"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<2xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %h = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<2xf32, strided<[1], offset: 2>>) -> memref<2xf32>
  %o = fx.call "auto_functionalized_v2"(%c) effects<read 0, write 0> results<may 0> : (memref<2xf32>) -> memref<2xf32>
  func.return %o : memref<2xf32>
}

// -----

// It is asked for its strides, which would be others: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sym_stride.int{{[^"]*}}: it asks for sizes or strides"
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<i64>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %s = fx.call "aten.sym_stride.int"(%c, 0) effects<> results<fresh> : (memref<2x2xf32>) -> memref<i64>
  func.return %s : memref<i64>
}

// -----

// They are the same: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sym_stride.int"(%y
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<i64>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %c = fx.call "aten.clone.default"(%y, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %s = fx.call "aten.sym_stride.int"(%c, 0) effects<> results<fresh> : (memref<2x2xf32>) -> memref<i64>
  func.return %s : memref<i64>
}

// -----

// It may return its operand, whose strides would be others: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.contiguous.default{{[^"]*}}: it may return its operand"
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %d = fx.call "aten.contiguous.default"(%c) effects<read 0> results<may 0> : (memref<2x2xf32>) -> memref<2x2xf32>
  %s = fx.call "aten.sum.default"(%d) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The rows of the copy are one row of its source; a write of one would change the others too: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.add_.Scalar{{[^"]*}}: it would write an element that others share"
func.func @main(%x: memref<6xf32> {alias.root = #alias.root<0, 24 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<6xf32>) -> memref<6xf32>
  %e = fx.call "aten.expand.default"(%y, [4, 6]) effects<> results<view 0> : (memref<6xf32>) -> memref<4x6xf32, strided<[0, 1]>>
  %c = fx.call "aten.clone.default"(%e, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<4x6xf32, strided<[0, 1]>>) -> memref<4x6xf32>
  %r = fx.call "aten.select.int"(%c, 0, 0) effects<> results<view 0> : (memref<4x6xf32>) -> memref<6xf32>
  %a = fx.call "aten.add_.Scalar"(%r, 1) effects<read 0, write 0> results<same 0> : (memref<6xf32>) -> memref<6xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4x6xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A write of no row at all: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%e)
func.func @main(%x: memref<6xf32> {alias.root = #alias.root<0, 24 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<6xf32>) -> memref<6xf32>
  %e = fx.call "aten.expand.default"(%y, [4, 6]) effects<> results<view 0> : (memref<6xf32>) -> memref<4x6xf32, strided<[0, 1]>>
  %c = fx.call "aten.clone.default"(%e, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<4x6xf32, strided<[0, 1]>>) -> memref<4x6xf32>
  %r = fx.call "aten.slice.Tensor"(%c, 0, 0, 0) effects<> results<view 0> : (memref<4x6xf32>) -> memref<0x6xf32, strided<[6, 1]>>
  %a = fx.call "aten.add_.Scalar"(%r, 1) effects<read 0, write 0> results<same 0> : (memref<0x6xf32, strided<[6, 1]>>) -> memref<0x6xf32, strided<[6, 1]>>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4x6xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The rows of the source overlap in part: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.add_.Scalar{{[^"]*}}: it would write an element that others share"
func.func @main(%x: memref<6xf32> {alias.root = #alias.root<0, 24 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<6xf32>) -> memref<6xf32>
  %e = fx.call "aten.unfold.default"(%y, 0, 3, 1) effects<> results<view 0> : (memref<6xf32>) -> memref<4x3xf32, strided<[1, 1]>>
  %c = fx.call "aten.clone.default"(%e, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<4x3xf32, strided<[1, 1]>>) -> memref<4x3xf32>
  %r = fx.call "aten.select.int"(%c, 0, 0) effects<> results<view 0> : (memref<4x3xf32>) -> memref<3xf32>
  %a = fx.call "aten.add_.Scalar"(%r, 1) effects<read 0, write 0> results<same 0> : (memref<3xf32>) -> memref<3xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4x3xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Here they lie side by side: the row is written in the source, and the copy is removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.select.int"(%e, 0, 0)
func.func @main(%x: memref<6xf32> {alias.root = #alias.root<0, 24 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<6xf32>) -> memref<6xf32>
  %e = fx.call "aten.unfold.default"(%y, 0, 2, 2) effects<> results<view 0> : (memref<6xf32>) -> memref<3x2xf32, strided<[2, 1]>>
  %c = fx.call "aten.clone.default"(%e, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<3x2xf32, strided<[2, 1]>>) -> memref<3x2xf32>
  %r = fx.call "aten.select.int"(%c, 0, 0) effects<> results<view 0> : (memref<3x2xf32>) -> memref<2xf32>
  %a = fx.call "aten.add_.Scalar"(%r, 1) effects<read 0, write 0> results<same 0> : (memref<2xf32>) -> memref<2xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<3x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Every element of the copy is one and the same of its source; a write through it would meet it twice: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.add_.Scalar{{[^"]*}}: it would write one element twice"
func.func @main(%x: memref<1xf32> {alias.root = #alias.root<0, 4 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<1xf32>) -> memref<1xf32>
  %e = fx.call "aten.expand.default"(%y, [4]) effects<> results<view 0> : (memref<1xf32>) -> memref<4xf32, strided<[0]>>
  %c = fx.call "aten.clone.default"(%e) effects<read 0> results<fresh> : (memref<4xf32, strided<[0]>>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// It is read only: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%e)
func.func @main(%x: memref<1xf32> {alias.root = #alias.root<0, 4 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<1xf32>) -> memref<1xf32>
  %e = fx.call "aten.expand.default"(%y, [4]) effects<> results<view 0> : (memref<1xf32>) -> memref<4xf32, strided<[0]>>
  %c = fx.call "aten.clone.default"(%e) effects<read 0> results<fresh> : (memref<4xf32, strided<[0]>>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}
