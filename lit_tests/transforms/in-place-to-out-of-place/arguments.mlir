// RUN: %opt %s -p in-place-to-out-of-place --split-input-file | filecheck %s

// A root that is written and shared by two arguments is one parameter over the union of their extents.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%{{.*}}: tensor<8xf32>) -> tensor<8xf32>
// CHECK-SAME:    alias.bindings = #alias.bindings<"a" input in 0 "f32" [5] strides [1] written, "b" input in 0 "f32" [5] strides [1] offset 3 written>
// CHECK-SAME:    alias.table = #alias.table<0 = 0>
func.func @main(
    %a: memref<5xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "a"},
    %b: memref<5xf32, strided<[1], offset: 3>> {alias.root = #alias.root<0, 32 bytes>, fx.name = "b"}) {
  %0 = fx.call "aten.zero_.default"(%a) effects<write 0> results<same 0> value<"aten.zero.default" [write 0]>
         : (memref<5xf32>) -> memref<5xf32>
  func.return
}

// -----

// Shared but only read: a parameter each, and the unused one has none.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%{{.*}}: tensor<5xf32>) -> tensor<5xf32>
// CHECK-SAME:    "a" input in 0 "f32" [5] strides [1], "b" input unused
// CHECK-SAME:    alias.plan = #alias.plan<result 0 "f32" [5] strides [1], argument 1>
func.func @main(
    %a: memref<5xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "a"},
    %b: memref<5xf32, strided<[1], offset: 3>> {alias.root = #alias.root<0, 32 bytes>, fx.name = "b"})
    -> (memref<5xf32>, memref<5xf32, strided<[1], offset: 3>>) {
  %0 = fx.call "aten.neg.default"(%a) effects<read 0> results<fresh> : (memref<5xf32>) -> memref<5xf32>
  func.return %0, %b : memref<5xf32>, memref<5xf32, strided<[1], offset: 3>>
}

// -----

// A written bf16 state travels as ui16: moves keep every bit. The old row is not read, so nothing waits for it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.*]]: tensor<2x4xui16>, %[[Y:.*]]: tensor<4xbf16>)
// CHECK-NEXT:    %[[E:.*]] = fx.empty : tensor<4xbf16>
// CHECK-NEXT:    %[[V:.*]] = fx.value_call "mine.put"(%[[E]], %[[Y]])
// CHECK-NEXT:    %[[B:.*]] = fx.reinterpret %[[V]] : tensor<4xbf16> -> tensor<4xui16>
// CHECK-NEXT:    %[[N:.*]] = fx.insert %[[B]] into %[[X]] <[4] strides [1] offset 4>
// CHECK-NEXT:    func.return %[[N]]
func.func @main(
    %x: memref<2x4xbf16> {alias.root = #alias.root<0, 16 bytes>},
    %y: memref<4xbf16> {alias.root = #alias.root<1, 8 bytes>}) {
  %r = fx.call "aten.select.int"(%x, 0, 1) effects<> results<view 0>
         : (memref<2x4xbf16>) -> memref<4xbf16, strided<[1], offset: 4>>
  %c = fx.call "mine.put_"(%r, %y) effects<write 0, read 1> results<same 0> value<"mine.put" [write 0]>
         : (memref<4xbf16, strided<[1], offset: 4>>, memref<4xbf16>) -> memref<4xbf16, strided<[1], offset: 4>>
  func.return
}

// -----

// Outputs: the argument itself, a view of it, one object twice, and two views of one fresh memory.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    alias.plan = #alias.plan<argument 0, argument_view 0 "f32" [3] strides [1] offset 3, result 0 "f32" [2, 3] strides [3, 1], output 2, result 0 "f32" [3, 2] strides [1, 3]>
func.func @main(%x: memref<2x3xf32> {alias.root = #alias.root<0, 24 bytes>})
    -> (memref<2x3xf32>, memref<3xf32, strided<[1], offset: 3>>, memref<2x3xf32>, memref<2x3xf32>,
        memref<3x2xf32, strided<[1, 3]>>) {
  %r = fx.call "aten.select.int"(%x, 0, 1) effects<> results<view 0>
         : (memref<2x3xf32>) -> memref<3xf32, strided<[1], offset: 3>>
  %n = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<2x3xf32>) -> memref<2x3xf32>
  %t = fx.call "aten.t.default"(%n) effects<> results<view 0> : (memref<2x3xf32>) -> memref<3x2xf32, strided<[1, 3]>>
  func.return %x, %r, %n, %n, %t : memref<2x3xf32>, memref<3xf32, strided<[1], offset: 3>>, memref<2x3xf32>,
      memref<2x3xf32>, memref<3x2xf32, strided<[1, 3]>>
}

// -----

// One tensor given twice and only read: one parameter, as the program may name either for the other.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%{{.*}}: tensor<5xf32>) -> tensor<5xf32>
// CHECK-SAME:    "a" input in 0 "f32" [5] strides [1], "b" input in 0 "f32" [5] strides [1]
func.func @main(
    %a: memref<5xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "a", alias.tensor = 0},
    %b: memref<5xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "b", alias.tensor = 0}) -> memref<5xf32> {
  %0 = fx.call "aten.neg.default"(%b) effects<read 0> results<fresh> : (memref<5xf32>) -> memref<5xf32>
  func.return %0 : memref<5xf32>
}

// -----

// Nobody reads it: a parameter all the same, which holds a call to one tensor.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%{{.*}}: tensor<5xf32>) attributes
// CHECK-SAME:    "a" input in 0 "f32" [5] strides [1], "b" input in 0 "f32" [5] strides [1]
// CHECK-SAME:    alias.plan = #alias.plan<argument 1>
func.func @main(
    %a: memref<5xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "a", alias.tensor = 0},
    %b: memref<5xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "b", alias.tensor = 0}) -> memref<5xf32> {
  func.return %b : memref<5xf32>
}
