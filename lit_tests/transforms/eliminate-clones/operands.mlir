// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Lists and keyword operands count; an operand that is neither read nor written does not.

// A list operand is written.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what own.shift_all_.default{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  fx.call "own.shift_all_.default"([%x, %c], 1.0) effects<read 0, read 1, write 1> results<> : (memref<4xf32>, memref<4xf32>) -> ()
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// It is read only.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "own.sum_all.default"([%x, %y])
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %r = fx.call "own.sum_all.default"([%x, %c]) effects<read 0, read 1> results<fresh> : (memref<4xf32>, memref<4xf32>) -> memref<f32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %r, %s : memref<f32>, memref<f32>
}

// -----

// out= is written.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "aten.sum.default{{[^"]*}} would read what aten.mul.out{{[^"]*}} wrote"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %r = fx.call "aten.mul.out"(%x, %x, out = %c) effects<read 0, read 1, write 2> results<same 2> : (memref<4xf32>, memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "aten.mul.out"(%x, %x, out = %y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %r = fx.call "aten.mul.out"(%x, %x, out = %c) effects<read 0, read 1, write 2> results<same 2> : (memref<4xf32>, memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%r) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// Asking the source for its size after the write is no read.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: "own.size.default"(%y)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<i64>, memref<f32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  %r = fx.call "own.size.default"(%y) effects<> results<fresh> : (memref<4xf32>) -> memref<i64>
  %s = fx.call "aten.sum.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %r, %s : memref<i64>, memref<f32>
}
