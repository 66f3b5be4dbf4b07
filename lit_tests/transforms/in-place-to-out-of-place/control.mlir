// RUN: %opt %s -p in-place-to-out-of-place --split-input-file | filecheck %s

// What one branch writes through a view is a result of both; the branch that does not write gives the old value.
// CHECK-LABEL: func.func @main(%{{.*}}: tensor<8xf32>, %{{.*}}: tensor<i1>) -> tensor<8xf32>
// CHECK-SAME:    alias.table = #alias.table<0 = 0>
// CHECK:         %[[NEW:.*]] = fx.value_cond %{{.*}} captures(%{{.*}}) updates 1 then {
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: tensor<8xf32>):
// CHECK-NEXT:      %[[V:.*]] = fx.extract %[[A]] <[4] strides [1] offset 2>
// CHECK-NEXT:      %[[N:.*]] = fx.value_call "aten.neg.default"(%[[V]])
// CHECK-NEXT:      %[[I:.*]] = fx.insert %[[N]] into %[[A]] <[4] strides [1] offset 2>
// CHECK-NEXT:      fx.yield %[[I]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:    ^{{.*}}(%[[B:.*]]: tensor<8xf32>):
// CHECK-NEXT:      fx.yield %[[B]]
// CHECK:         func.return %[[NEW]]
func.func @main(%x: memref<8xf32> {alias.root = #alias.root<0, 32 bytes>, fx.name = "x"}, %p: memref<i1> {alias.root = #alias.root<1, 1 bytes>}) {
  %v = fx.call "aten.slice.Tensor"(%x, 0, 2, 6) effects<> results<view 0> : (memref<8xf32>) -> memref<4xf32, strided<[1], offset: 2>>
  fx.cond %p captures(%v) effects<read 0, read 1, write 1> then {
  ^bb0(%a: memref<4xf32, strided<[1], offset: 2>>):
    %0 = fx.call "aten.neg_.default"(%a) effects<read 0, write 0> results<same 0> value<"aten.neg.default" [write 0]>
           : (memref<4xf32, strided<[1], offset: 2>>) -> memref<4xf32, strided<[1], offset: 2>>
    fx.yield
  } else {
  ^bb1(%b: memref<4xf32, strided<[1], offset: 2>>):
    fx.yield
  } : (memref<i1>, memref<4xf32, strided<[1], offset: 2>>) -> ()
  func.return
}
// -----
// A loop carries the memory that its body writes beside its own values, and captures what it only reads.
// CHECK-LABEL: func.func @main
// CHECK:         %[[LAST:.*]], %[[ACC:.*]] = fx.value_while(%{{.*}}, %[[OLD:.*]]) captures(%[[Y:.*]]) while {
// CHECK-NEXT:    ^{{.*}}(%[[I:.*]]: tensor<i64>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>):
// CHECK-NEXT:      %[[P:.*]] = fx.value_call "aten.lt.Scalar"(%[[I]], 3)
// CHECK-NEXT:      fx.yield %[[P]]
// CHECK-NEXT:    } do {
// CHECK-NEXT:    ^{{.*}}(%[[J:.*]]: tensor<i64>, %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>):
// CHECK-NEXT:      %[[S:.*]] = fx.value_call "aten.add.Tensor"(%[[A]], %[[B]])
// CHECK-NEXT:      %[[N:.*]] = fx.value_call "aten.add.Tensor"(%[[J]], 1)
// CHECK-NEXT:      fx.yield %[[N]], %[[S]]
// CHECK:         func.return %[[LAST]], %[[ACC]]
func.func @main(%acc: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "acc"},
                %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>}, %i: memref<i64> {alias.root = #alias.root<2, 8 bytes>}) -> memref<i64> {
  %0 = fx.while(%i) captures(%acc, %y) effects<read 0, read 1, write 1, read 2> while {
  ^bb0(%j: memref<i64>, %a: memref<4xf32>, %b: memref<4xf32>):
    %p = fx.call "aten.lt.Scalar"(%j, 3) effects<read 0> results<fresh> : (memref<i64>) -> memref<i1>
    fx.yield %p : memref<i1>
  } do {
  ^bb1(%j: memref<i64>, %a: memref<4xf32>, %b: memref<4xf32>):
    %s = fx.call "aten.add_.Tensor"(%a, %b) effects<read 0, write 0, read 1> results<same 0> value<"aten.add.Tensor" [write 0]> pointwise
           : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
    %n = fx.call "aten.add.Tensor"(%j, 1) effects<read 0> results<fresh> : (memref<i64>) -> memref<i64>
    fx.yield %n : memref<i64>
  } : (memref<i64>), (memref<4xf32>, memref<4xf32>) -> (memref<i64>)
  func.return %0 : memref<i64>
}
