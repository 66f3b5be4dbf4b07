// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// A copy of a size known only at run time: strides decide whether it is laid out as its source, and any write to their
// memory meets any read of it.

// Read after the write: kept. The bytes are those that move at least.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<?x4xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<?x4xf32>) -> memref<?x4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Read before: removed, and a view of the copy is one of its source.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.add_.Scalar"(%y
// CHECK: "aten.slice.Tensor"(%y
func.func @main(%x: memref<?x4xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<f32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<?x4xf32>) -> memref<?x4xf32>
  %v = fx.call "aten.slice.Tensor"(%c, 0, 1) effects<> results<view 0> : (memref<?x4xf32>) -> memref<?x4xf32, strided<[4, 1], offset: 4>>
  %t = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<?x4xf32, strided<[4, 1], offset: 4>>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// Rows beside each other may be one row as far as anybody knows: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<?x4xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %v = fx.call "aten.select.int"(%c, 0, 1) effects<> results<view 0> : (memref<?x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %a = fx.call "aten.add_.Scalar"(%v, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32, strided<[1], offset: 4>>) -> memref<4xf32, strided<[1], offset: 4>>
  %w = fx.call "aten.select.int"(%y, 0, 0) effects<> results<view 0> : (memref<?x4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%w) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<4xf32, strided<[1], offset: 4>>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// A fill that is not known to cover all of the memory does not end what a write did: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.fill_.Scalar{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<?x4xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<?x4xf32>) -> memref<?x4xf32>
  %v = fx.call "aten.slice.Tensor"(%y, 0, 1) effects<> results<view 0> : (memref<?x4xf32>) -> memref<?x4xf32, strided<[4, 1], offset: 4>>
  %z = fx.call "aten.fill_.Scalar"(%v, 3) effects<write 0> results<same 0> : (memref<?x4xf32, strided<[4, 1], offset: 4>>) -> memref<?x4xf32, strided<[4, 1], offset: 4>>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The copy has no gaps, its source has: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "its size is not known, and its source has other strides"
func.func @main(%x: memref<?x4xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>) {
  %v = fx.call "aten.slice.Tensor"(%x, 1, 0, 2) effects<> results<view 0> : (memref<?x4xf32>) -> memref<?x2xf32, strided<[4, 1]>>
  %c = fx.call "aten.clone.default"(%v) effects<read 0> results<fresh> : (memref<?x2xf32, strided<[4, 1]>>) -> memref<?x2xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<?x2xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Strides that depend on the size: kept, for `memref<?x?xf32>` says of the rows' distance only that it is not known.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "neither its size nor the strides of its source are known"
func.func @main(%x: memref<?x?xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<?x?xf32>) -> memref<?x?xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<?x?xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// It starts where nobody knows; a position counted from the start of the storage would be another one: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.as_strided.default{{[^"]*}}: it counts positions from the start of the storage"
func.func @main(%x: memref<?xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>) {
  %h = fx.call "aten.slice.Tensor"(%x, 0, -2) effects<> results<view 0> : (memref<?xf32>) -> memref<?xf32, strided<[1], offset: ?>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<?xf32, strided<[1], offset: ?>>) -> memref<?xf32>
  %v = fx.call "aten.as_strided.default"(%c, [1], [1], 1) effects<> results<view 0> : (memref<?xf32>) -> memref<1xf32, strided<[1], offset: 1>>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<1xf32, strided<[1], offset: 1>>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Nothing counts from there: removed, at a place known at run time.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.select.int"(%h, 0, 1){{.*}} -> memref<f32, strided<[], offset: ?>>
func.func @main(%x: memref<?xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>) {
  %h = fx.call "aten.slice.Tensor"(%x, 0, -2) effects<> results<view 0> : (memref<?xf32>) -> memref<?xf32, strided<[1], offset: ?>>
  %c = fx.call "aten.clone.default"(%h) effects<read 0> results<fresh> : (memref<?xf32, strided<[1], offset: ?>>) -> memref<?xf32>
  %v = fx.call "aten.select.int"(%c, 0, 1) effects<> results<view 0> : (memref<?xf32>) -> memref<f32, strided<[], offset: 1>>
  %s = fx.call "aten.sum.default"(%v) effects<read 0> results<fresh> : (memref<f32, strided<[], offset: 1>>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Copies of known size in the same memory come first.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"(%y){{.*}}alias.kept = "its size is not known, and its memory is shared by copies whose size is"
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<?x4xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<?x4xf32>
  %v = fx.call "aten.select.int"(%y, 0, 0) effects<> results<view 0> : (memref<?x4xf32>) -> memref<4xf32>
  %d = fx.call "aten.clone.default"(%v) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<?x4xf32>) -> memref<f32>
  %t = fx.call "aten.sum.default"(%d) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}
