// RUN: %opt %s --split-input-file --verify-diagnostics

func.func @hidden_write(%p: memref<i1>, %x: memref<4xf32>) {
  // expected-error @below {{the effects do not cover what the regions do}}
  fx.cond %p captures(%x) effects<read 0, read 1> then {
  ^bb0(%a: memref<4xf32>):
    %v = fx.call "aten.slice.Tensor"(%a, 0, 0, 2) effects<> results<view 0> : (memref<4xf32>) -> memref<2xf32>
    %0 = fx.call "aten.neg_.default"(%v) effects<read 0, write 0> results<same 0> : (memref<2xf32>) -> memref<2xf32>
    fx.yield
  } else {
  ^bb1(%b: memref<4xf32>):
    fx.yield
  } : (memref<i1>, memref<4xf32>) -> ()
  func.return
}
// -----
func.func @predicate(%p: memref<2xi1>) {
  // expected-error @below {{the predicate is one bool, not memref<2xi1>}}
  fx.cond %p captures() effects<read 0> then {
    fx.yield
  } else {
    fx.yield
  } : (memref<2xi1>) -> ()
  func.return
}
// -----
func.func @outside(%p: memref<i1>, %x: memref<4xf32>) -> memref<4xf32> {
  %0 = fx.cond %p captures() effects<read 0> then {
    // expected-error @below {{operand 0 is not defined in this scope}}
    fx.yield %x : memref<4xf32>
  } else {
    fx.yield %x : memref<4xf32>
  } : (memref<i1>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
// -----
func.func @beyond(%p: memref<i1>, %x: memref<4xf32>) -> memref<f32> {
  // expected-error @below {{a view in a region reaches outside the captured handle}}
  %0 = fx.cond %p captures(%x) effects<read 0, read 1> then {
  ^bb0(%a: memref<4xf32>):
    %v = fx.call "aten.as_strided.default"(%a, [], [], 7) effects<> results<view 0> : (memref<4xf32>) -> memref<f32, strided<[], offset: 7>>
    fx.yield %v : memref<f32, strided<[], offset: 7>>
  } else {
  ^bb1(%b: memref<4xf32>):
    %w = fx.call "aten.select.int"(%b, 0, 0) effects<> results<view 0> : (memref<4xf32>) -> memref<f32>
    fx.yield %w : memref<f32>
  } : (memref<i1>, memref<4xf32>) -> memref<f32>
  func.return %0 : memref<f32>
}
// -----
func.func @carried_write(%p: memref<i1>, %x: memref<4xf32>) -> memref<4xf32> {
  // expected-error @below {{a carried value is written: its next value is what the body yields}}
  %0 = fx.while(%x) captures(%p) effects<read 0, read 1, write 0> while {
  ^bb0(%a: memref<4xf32>, %q: memref<i1>):
    fx.yield %q : memref<i1>
  } do {
  ^bb1(%b: memref<4xf32>, %r: memref<i1>):
    %1 = fx.call "aten.neg_.default"(%b) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
    fx.yield %1 : memref<4xf32>
  } : (memref<4xf32>), (memref<i1>) -> (memref<4xf32>)
  func.return %0 : memref<4xf32>
}
// -----
func.func @another_type(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{the body has types tensor<i1>, not tensor<4xf32>}}
  %0 = fx.value_while(%x) captures(%p) while {
  ^bb0(%a: tensor<4xf32>, %q: tensor<i1>):
    fx.yield %q : tensor<i1>
  } do {
  ^bb1(%b: tensor<4xf32>, %r: tensor<i1>):
    fx.yield %r : tensor<i1>
  } : (tensor<4xf32>), (tensor<i1>) -> (tensor<4xf32>)
  func.return %0 : tensor<4xf32>
}
// -----
func.func @update_of_another_type(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<i1> {
  // expected-error @below {{what is updated has types tensor<i1>, not tensor<4xf32>}}
  %0 = fx.value_cond %p captures(%x, %p) updates 1 then {
  ^bb0(%a: tensor<4xf32>, %q: tensor<i1>):
    fx.yield %q : tensor<i1>
  } else {
  ^bb1(%b: tensor<4xf32>, %r: tensor<i1>):
    fx.yield %r : tensor<i1>
  } : (tensor<i1>, tensor<4xf32>, tensor<i1>) -> tensor<i1>
  func.return %0 : tensor<i1>
}
// -----
// What is inside is checked before what the branch does is worked out from it.
func.func @without_aliases(%p: memref<i1>, %x: memref<4xf32>) {
  fx.cond %p captures(%x) effects<read 0, read 1> then {
  ^bb0(%a: memref<4xf32>):
    // expected-error @below {{property 'aliases' expected in operation 'fx.call'}}
    %0 = "fx.call"(%a) <{target = "aten.neg.default", arguments = [#fx.operand<0>], effects = #alias.effects<read 0>}> : (memref<4xf32>) -> memref<4xf32>
    fx.yield
  } else {
  ^bb1(%b: memref<4xf32>):
    fx.yield
  } : (memref<i1>, memref<4xf32>) -> ()
  func.return
}
