// RUN: %opt %s -p 'rewrite-devices{target=xla}' | filecheck %s

// CHECK: rewrite_count = 1
// CHECK: ^bb0
// CHECK: device = @"device:xla:0"
func.func @main(%p: memref<i1> {alias.root = #alias.root<0, 1 bytes>}, %x: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>}) -> memref<4xf32> {
  %r = fx.cond %p captures(%x) effects<read 0, read 1> then {
  ^bb0(%a: memref<4xf32>):
    %0 = fx.call "aten.zeros_like.default"(%a, device = @"device:cuda") effects<> results<fresh> : (memref<4xf32>) -> memref<4xf32>
    fx.yield %0 : memref<4xf32>
  } else {
  ^bb0(%a: memref<4xf32>):
    fx.yield %a : memref<4xf32>
  } : (memref<i1>, memref<4xf32>) -> memref<4xf32>
  func.return %r : memref<4xf32>
}
