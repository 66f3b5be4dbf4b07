// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Copies under other names: conversions that change nothing, lifted constants, and fills of fresh memory.

// CHECK-LABEL: func.func @main
// CHECK: "aten._to_copy.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten._to_copy.default"(%y, dtype = f32) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-NOT: _to_copy
// CHECK: "aten.sum.default"(%y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten._to_copy.default"(%y, dtype = f32) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A real conversion, or a move to a device, is no copy of this kind.
// CHECK-LABEL: func.func @main
// CHECK: _to_copy
// CHECK: _to_copy
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f64>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten._to_copy.default"(%y, dtype = f64) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf64>
  %d = fx.call "aten._to_copy.default"(%y, device = @"device:cpu") effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf64>) -> memref<f64>
  %t = fx.call "aten.sum.default"(%d) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f64>, memref<f32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-NOT: lift_fresh_copy
// CHECK: func.return
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.lift_fresh_copy.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A fill of fresh memory: kept.
// CHECK-LABEL: func.func @main
// CHECK: aten.empty.memory_format
// CHECK: "aten.copy_.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.add_.Scalar{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %e = fx.call "aten.empty.memory_format"([4]) effects<> results<fresh> : () -> memref<4xf32>
  %b = fx.call "aten.copy_.default"(%e, %y) effects<write 0, read 1> results<same 0> pointwise : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%e, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Removed, with the memory.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.empty
// CHECK-NOT: aten.copy_
// CHECK: "aten.add_.Scalar"(%y
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %e = fx.call "aten.empty.memory_format"([4]) effects<> results<fresh> : () -> memref<4xf32>
  %b = fx.call "aten.copy_.default"(%e, %y) effects<write 0, read 1> results<same 0> pointwise : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%e, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%b) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Memory that was in use before the `copy_` is no fill: that copy is the program's own.
// CHECK-LABEL: func.func @main
// CHECK: aten.empty.memory_format
// CHECK: "aten.copy_.default"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %e = fx.call "aten.empty.memory_format"([4]) effects<> results<fresh> : () -> memref<4xf32>
  %z = fx.call "aten.fill_.Scalar"(%e, 3) effects<write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %t = fx.call "aten.sum.default"(%e) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  %b = fx.call "aten.copy_.default"(%e, %y) effects<write 0, read 1> results<same 0> pointwise : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%e) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s, %t : memref<f32>, memref<f32>
}

// -----

// A copy in more pieces than are counted: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "its source lies in more than 16384 pieces of memory"
func.func @main(%x: memref<40000xf32> {alias.root = #alias.root<0, 160000 bytes>}) -> (memref<f32>) {
  %v = fx.call "aten.slice.Tensor"(%x, 0, 0, 40000, 2) effects<> results<view 0> : (memref<40000xf32>) -> memref<20000xf32, strided<[2]>>
  %c = fx.call "aten.clone.default"(%v) effects<read 0> results<fresh> : (memref<20000xf32, strided<[2]>>) -> memref<20000xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<20000xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// In fewer: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%v)
func.func @main(%x: memref<40000xf32> {alias.root = #alias.root<0, 160000 bytes>}) -> (memref<f32>) {
  %v = fx.call "aten.slice.Tensor"(%x, 0, 0, 2000, 2) effects<> results<view 0> : (memref<40000xf32>) -> memref<1000xf32, strided<[2]>>
  %c = fx.call "aten.clone.default"(%v) effects<read 0> results<fresh> : (memref<1000xf32, strided<[2]>>) -> memref<1000xf32>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<1000xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// The copy of a flattened copy: the first has to stay for the view, the second goes.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"(%t{{.*}}alias.kept = "aten.view.default{{[^"]*}}: its view needs the strides of the copy"
// CHECK-NOT: aten.clone
// CHECK: "aten.sum.default"(%f)
func.func @main(%x: memref<2x2xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<2x2xf32>) -> memref<2x2xf32>
  %t = fx.call "aten.t.default"(%y) effects<> results<view 0> : (memref<2x2xf32>) -> memref<2x2xf32, strided<[1, 2]>>
  %c = fx.call "aten.clone.default"(%t, memory_format = @"memory_format:contiguous_format") effects<read 0> results<fresh> : (memref<2x2xf32, strided<[1, 2]>>) -> memref<2x2xf32>
  %f = fx.call "aten.view.default"(%c, [4]) effects<> results<view 0> : (memref<2x2xf32>) -> memref<4xf32>
  %d = fx.call "aten.clone.default"(%f) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%d) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}
