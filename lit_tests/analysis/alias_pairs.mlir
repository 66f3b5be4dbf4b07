// RUN: %opt %s -p 'print-alias{pairs=true}' | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK: alias.pairs = ["x, y: no: different storages"
// CHECK-SAME: "x, row: partial: the first contains the second"
// CHECK-SAME: "x, column: partial: the first contains the second"
// CHECK-SAME: "x, flat: partial: the same bytes with other sizes: [4, 4] and [16]"
// CHECK-SAME: "x, bits: partial: the same bytes with other element types: f32 and i32"
// CHECK-SAME: "x, minus: partial: the same bytes with other lazy bits: none and neg"
// CHECK-SAME: "x, t: partial: the same bytes with other strides: [4, 1] and [1, 4]"
// CHECK-SAME: "x, same: must: the same window"
// CHECK-SAME: "row, column: partial: overlapping bytes"
// CHECK-SAME: "row, other: no: disjoint bytes of root 0"
// CHECK-SAME: "row, maybe: may: the storage is not known"
// CHECK-SAME: "column, maybe: may: the storage is not known"
func.func @main(%x: memref<4x4xf32> {alias.root = #alias.root<0, 64 bytes>},
                %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>}) {
  %row = fx.call "aten.select.int"(%x, 0, 1) effects<> results<view 0>
    : (memref<4x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %column = fx.call "aten.select.int"(%x, 1, 1) effects<> results<view 0>
    : (memref<4x4xf32>) -> memref<4xf32, strided<[4], offset: 1>>
  %other = fx.call "aten.select.int"(%x, 0, 2) effects<> results<view 0>
    : (memref<4x4xf32>) -> memref<4xf32, strided<[1], offset: 8>>
  %flat = fx.call "aten.view.default"(%x, [16]) effects<> results<view 0> : (memref<4x4xf32>) -> memref<16xf32>
  %bits = fx.call "aten.view.dtype"(%x, i32) effects<> results<view 0> : (memref<4x4xf32>) -> memref<4x4xi32>
  %minus = fx.call "aten._neg_view.default"(%x) effects<> results<view 0> : (memref<4x4xf32>) -> memref<4x4xf32, "neg">
  %t = fx.call "aten.t.default"(%x) effects<> results<view 0> : (memref<4x4xf32>) -> memref<4x4xf32, strided<[1, 4]>>
  %same = fx.call "aten.view.default"(%x, [4, 4]) effects<> results<view 0> : (memref<4x4xf32>) -> memref<4x4xf32>
  %maybe = fx.call "own.pick"(%x) effects<> results<may 0> : (memref<4x4xf32>) -> memref<4x4xf32>
  func.return
}
