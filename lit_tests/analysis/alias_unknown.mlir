// RUN: %opt %s -p print-alias | filecheck %s

// What is not known is assumed to be the worst: no root, `may` results, dynamic sizes, ops without aliases.
// CHECK-LABEL: func.func @main
// CHECK-SAME: alias.location = "root 0 [0, 16)"
// CHECK-SAME: alias.location = "unknown 0 or root 0 or root 3 [?]"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}, %y: memref<4xf32>,
                %n: memref<?xf32> {alias.root = #alias.root<3, 16 bytes>}) -> memref<4xf32> {
  // CHECK: "own.opaque"{{.*}}alias.location = ["fresh 0 or root 0 [?]", "fresh 1 [0, 16)"]
  %a, %b = fx.call "own.opaque"(%x) effects<unknown> results<may 0, fresh> : (memref<4xf32>) -> (memref<4xf32>, memref<4xf32>)
  // CHECK: "own.pick"{{.*}}alias.location = "fresh 2 or fresh 0 or root 0 or fresh 1 [?]"
  %p = fx.call "own.pick"(%a, %b) effects<> results<may> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  // CHECK: "aten.slice.Tensor"{{.*}}alias.location = "fresh 0 or root 0 [?]"
  %v = fx.call "aten.slice.Tensor"(%a, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
  // CHECK: "aten.slice.Tensor"(%n{{.*}}alias.location = "root 3 [0, 8)"
  %s = fx.call "aten.slice.Tensor"(%n, 0, 0, 2) effects<> results<view 0> : (memref<?xf32>) -> memref<2xf32>
  // CHECK: builtin.unrealized_conversion_cast{{.*}}alias.location = "fresh 3 or root 0 [?]"
  %o = builtin.unrealized_conversion_cast %x : memref<4xf32> to memref<4xf32>
  func.return %a : memref<4xf32>
}
