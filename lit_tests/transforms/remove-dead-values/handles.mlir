// RUN: %opt %s -p remove-dead-values | filecheck %s

// Views and fresh results that nobody looks at go; a write through a view keeps the view.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %0 = fx.call "aten.select.int"
// CHECK-NEXT:    %1 = fx.call "aten.neg_.default"(%0)
// CHECK-NEXT:    func.return
func.func @views(%x: memref<2x4xf32> {alias.root = #alias.root<0, 32 bytes>}) {
  %0 = fx.call "aten.select.int"(%x, 0, 1) effects<> results<view 0> : (memref<2x4xf32>) -> memref<4xf32, strided<[1], offset: 4>>
  %1 = fx.call "aten.neg_.default"(%0) effects<read 0, write 0> results<same 0> value<"aten.neg.default" [write 0]> : (memref<4xf32, strided<[1], offset: 4>>) -> memref<4xf32, strided<[1], offset: 4>>
  %2 = fx.call "aten.select.int"(%x, 0, 0) effects<> results<view 0> : (memref<2x4xf32>) -> memref<4xf32, strided<[1]>>
  %3 = fx.call "aten.add.Tensor"(%2, %2) effects<read 0, read 1> results<fresh> : (memref<4xf32, strided<[1]>>, memref<4xf32, strided<[1]>>) -> memref<4xf32>
  func.return
}

// Unknown effects, and calls without a result, stay.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    fx.call "mylib.mystery.default"
// CHECK-NEXT:    fx.call "aten._assert_async.default"
func.func @kept(%x: memref<1xi1> {alias.root = #alias.root<0, 1 bytes>}) {
  %0 = fx.call "mylib.mystery.default"(%x) effects<unknown> results<may> : (memref<1xi1>) -> memref<1xi1>
  fx.call "aten._assert_async.default"(%x) effects<read 0> results<> : (memref<1xi1>) -> ()
  func.return
}
