// RUN: %opt %s -p in-place-to-out-of-place --split-input-file --verify-diagnostics

// A row and the next row shifted by one element: what is read depends on what was already written.
func.func @main(%x: memref<8xf32> {alias.root = #alias.root<0, 32 bytes>}) {
  %a = fx.call "aten.slice.Tensor"(%x, 0, 0, 7) effects<> results<view 0> : (memref<8xf32>) -> memref<7xf32>
  %b = fx.call "aten.slice.Tensor"(%x, 0, 1, 8) effects<> results<view 0>
         : (memref<8xf32>) -> memref<7xf32, strided<[1], offset: 1>>
  // expected-error @below {{aten.add_.Tensor writes memory that operand 1 of the same call partly overlaps}}
  %c = fx.call "aten.add_.Tensor"(%a, %b) effects<read 0, write 0, read 1> results<same 0>
         value<"aten.add.Tensor" [write 0]> pointwise
         : (memref<7xf32>, memref<7xf32, strided<[1], offset: 1>>) -> memref<7xf32>
  func.return
}

// -----

// Each element of the base is met three times.
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) {
  %a = fx.call "aten.expand.default"(%x, [3, 4]) effects<> results<view 0>
         : (memref<4xf32>) -> memref<3x4xf32, strided<[0, 1]>>
  // expected-error @below {{writes a window that meets one element more than once}}
  %c = fx.call "aten.add_.Tensor"(%a, 1) effects<read 0, write 0> results<same 0> value<"aten.add.Tensor" [write 0]>
         : (memref<3x4xf32, strided<[0, 1]>>) -> memref<3x4xf32, strided<[0, 1]>>
  func.return
}

// -----

func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) {
  // expected-error @below {{mine.mystery does not say what it reads and writes}}
  fx.call "mine.mystery"(%x) effects<unknown> results<> : (memref<4xf32>) -> ()
  func.return
}

// -----

func.func @main(%x: memref<?xf32> {alias.root = #alias.root<0, 16 bytes>}) {
  // expected-error @unknown {{is known only at run time, and HLO needs static shapes}}
  func.return
}

// -----

// One memory as what is read and what is written, by an operator that is not known to be element-wise.
func.func @main(%x: memref<8xf32> {alias.root = #alias.root<0, 32 bytes>}) {
  // expected-error @below {{own.reverse_into.default writes the memory that it reads as operand 0}}
  fx.call "own.reverse_into.default"(%x, %x) effects<read 0, read 1, write 1> results<> : (memref<8xf32>, memref<8xf32>) -> ()
  func.return
}
