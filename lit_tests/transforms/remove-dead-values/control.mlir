// RUN: %opt %s -p remove-dead-values | filecheck %s

// A conditional that writes nothing and whose results nobody uses goes; what is dead inside one that stays goes too.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     aten.exp.default
// CHECK:         fx.cond
// CHECK:           aten.zero_.default
// CHECK-NOT:     aten.sin.default
// CHECK:         func.return
func.func @main(%p: memref<i1>, %x: memref<4xf32>) {
  %0 = fx.cond %p captures(%x) effects<read 0, read 1> then {
  ^bb0(%a: memref<4xf32>):
    %1 = fx.call "aten.exp.default"(%a) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
    fx.yield %1 : memref<4xf32>
  } else {
  ^bb1(%b: memref<4xf32>):
    fx.yield %b : memref<4xf32>
  } : (memref<i1>, memref<4xf32>) -> memref<4xf32>
  fx.cond %p captures(%x) effects<read 0, read 1, write 1> then {
  ^bb2(%c: memref<4xf32>):
    %2 = fx.call "aten.zero_.default"(%c) effects<write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
    %3 = fx.call "aten.sin.default"(%c) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
    fx.yield
  } else {
  ^bb3(%d: memref<4xf32>):
    fx.yield
  } : (memref<i1>, memref<4xf32>) -> ()
  func.return
}
