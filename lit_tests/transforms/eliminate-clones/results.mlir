// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// Clause 4: results share memory with arguments and with each other as before; a donated argument may back one result.

// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "a result would share memory with argument x"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<4xf32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %c : memref<4xf32>
}

// -----

// Donated: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: func.return %x
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, alias.donated, fx.name = "x"}) -> (memref<4xf32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %c : memref<4xf32>
}

// -----

// A donated argument for two results: one copy stays.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "two results would {{share memory|live in argument x}}"
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, alias.donated, fx.name = "x"}) -> (memref<4xf32>, memref<4xf32>) {
  %a = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %b = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %a, %b : memref<4xf32>, memref<4xf32>
}

// -----

// Two results of one value: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "two results would share memory"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<4xf32>, memref<4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %y, %c : memref<4xf32>, memref<4xf32>
}

// -----

// The source is no result: removed.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: func.return %y
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<4xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %c : memref<4xf32>
}

// -----

// Two results that shared memory before may go on.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: func.return %y, %l
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<4xf32>, memref<2xf32>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %l = fx.call "aten.slice.Tensor"(%c, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  func.return %c, %l : memref<4xf32>, memref<2xf32>
}

// -----

// Donated, but a result as it is: kept.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "a result would share memory with argument x"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, alias.donated, fx.name = "x"}) -> (memref<4xf32>, memref<4xf32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %c, %x : memref<4xf32>, memref<4xf32>
}

// -----

// A constant as a result: kept, for the caller may write it before the next call.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = "a result would share memory with a constant"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<4xf32>) {
  %k = fx.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : memref<4xf32>
  %c = fx.call "aten.clone.default"(%k) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %c : memref<4xf32>
}

// -----

// Different halves of one value: removed, for no byte is shared.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> (memref<2xf32>, memref<2xf32, strided<[1], offset: 2>>) {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %p = fx.call "aten.slice.Tensor"(%y, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  %q = fx.call "aten.slice.Tensor"(%y, 0, 2, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32, strided<[1], offset: 2>>
  %c = fx.call "aten.clone.default"(%p) effects<read 0> results<fresh> : (memref<2xf32>) -> memref<2xf32>
  func.return %c, %q : memref<2xf32>, memref<2xf32, strided<[1], offset: 2>>
}

// -----

// A copy of nothing: no byte is shared, but it stays an object of its own.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: [[C:%\S+]] = fx.call "aten.alias.default"(%x) effects<> results<view 0>
// CHECK: func.return [[C]], %x
func.func @main(%x: memref<0x2xf32> {alias.root = #alias.root<0, 0 bytes>}) -> (memref<0x2xf32>, memref<0x2xf32>) {
  %c = fx.call "aten.clone.default"(%x) effects<read 0> results<fresh> : (memref<0x2xf32>) -> memref<0x2xf32>
  func.return %c, %x : memref<0x2xf32>, memref<0x2xf32>
}
