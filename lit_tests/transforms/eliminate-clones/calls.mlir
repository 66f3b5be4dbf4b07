// RUN: %opt %s --split-input-file -p 'eliminate-clones' | filecheck %s

// A kernel writes the copy, and nobody reads the source later: the kernel works in the source's memory.
// CHECK-LABEL: func.func @main
// CHECK-NOT: aten.clone
// CHECK: nki.call "higher_order.k"(%y, %x)
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<f32>) {
  %y = fx.call "aten.add.Tensor"(%x, 1) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %k = nki.call "higher_order.k"(%c, %x) kernel 0 grid<1> config "e30=" stored<0 = 0> effects<read 0, write 0, read 1> results<same 0>
         value<"higher_order.k" [write 0]> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.sum.default"(%k) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %s : memref<f32>
}

// -----

// A collective reads the source after it: the copy stays.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept = {{.*}}_c10d_functional.all_reduce.default
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<4xf32>) {
  %y = fx.call "aten.add.Tensor"(%x, 1) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %k = nki.call "higher_order.k"(%c, %x) kernel 0 grid<1> config "e30=" stored<0 = 0> effects<read 0, write 0, read 1> results<same 0>
         value<"higher_order.k" [write 0]> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %r = collective.all_reduce(%y) "sum" groups<"tp"> effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.add.Tensor"(%k, %r) effects<read 0, read 1> results<fresh> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return %s : memref<4xf32>
}

// -----

// A kernel that was not compiled may write whatever it is given.
// CHECK-LABEL: func.func @main
// CHECK: "aten.clone.default"{{.*}}alias.kept
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> (memref<f32>) {
  %y = fx.call "aten.add.Tensor"(%x, 1) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %k = nki.call "higher_order.k"(%c) kernel 0 grid<1> config "" stored<> effects<unknown> results<may> : (memref<4xf32>) -> memref<4xf32>
  %s = fx.call "aten.add.Tensor"(%k, %y) effects<read 0, read 1> results<fresh> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %t = fx.call "aten.sum.default"(%s) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32>
  func.return %t : memref<f32>
}
