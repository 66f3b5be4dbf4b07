// RUN: %opt %s > %t.pretty && %opt %s --print-op-generic > %t.generic
// RUN: %opt %t.generic > %t.again && diff %t.pretty %t.again
// RUN: %opt %t.pretty --print-op-generic > %t.again && diff %t.generic %t.again

// Conditionals and loops on handles and on values, without results and nested.
func.func @main(%kv: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}, %i: memref<i64> {alias.root = #alias.root<1, 8 bytes>},
                %p: memref<i1> {alias.root = #alias.root<2, 1 bytes>}) -> memref<i64> {
  fx.cond %p captures(%kv) effects<read 0, read 1, write 1> then {
  ^bb0(%a: memref<4xf32>):
    %0 = fx.call "aten.neg_.default"(%a) effects<read 0, write 0> results<same 0> value<"aten.neg.default" [write 0]> : (memref<4xf32>) -> memref<4xf32>
    fx.yield
  } else {
  ^bb1(%b: memref<4xf32>):
    fx.yield
  } : (memref<i1>, memref<4xf32>) -> ()
  %n = fx.while(%i) captures(%p, %kv) effects<read 0, read 1, read 2, write 2> while {
  ^bb2(%c: memref<i64>, %q: memref<i1>, %m: memref<4xf32>):
    fx.yield %q : memref<i1>
  } do {
  ^bb3(%d: memref<i64>, %r: memref<i1>, %s: memref<4xf32>):
    fx.cond %r captures(%s) effects<read 0, read 1, write 1> then {
    ^bb4(%e: memref<4xf32>):
      %1 = fx.call "aten.zero_.default"(%e) effects<write 0> results<same 0> value<"aten.zero.default" [write 0]> : (memref<4xf32>) -> memref<4xf32>
      fx.yield
    } else {
    ^bb5(%f: memref<4xf32>):
      fx.yield
    } : (memref<i1>, memref<4xf32>) -> ()
    fx.yield %d : memref<i64>
  } : (memref<i64>), (memref<i1>, memref<4xf32>) -> (memref<i64>)
  func.return %n : memref<i64>
}
func.func @values(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.value_cond %p captures(%x) then {
  ^bb0(%a: tensor<4xf32>):
    %y = fx.value_call "aten.neg.default"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.yield %y : tensor<4xf32>
  } else {
  ^bb1(%b: tensor<4xf32>):
    fx.yield %b : tensor<4xf32>
  } : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_while(%0) captures(%p) while {
  ^bb2(%c: tensor<4xf32>, %q: tensor<i1>):
    fx.yield %q : tensor<i1>
  } do {
  ^bb3(%d: tensor<4xf32>, %r: tensor<i1>):
    fx.yield %d : tensor<4xf32>
  } : (tensor<4xf32>), (tensor<i1>) -> (tensor<4xf32>)
  func.return %1 : tensor<4xf32>
}
