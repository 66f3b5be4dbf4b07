// RUN: %opt %s | filecheck %s

// Tables that are true of the program they name, each beside its smallest wrong twin in tables-untrue.mlir.

// CHECK-LABEL: func.func @last_value
// CHECK-SAME:  alias.program = @writes_twice
func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%0, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// Nobody writes: no entry.

func.func @reads(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> memref<4xf32> {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
func.func @no_entry(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @reads,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>, alias.table = #alias.table<>, alias.plan = #alias.plan<result 0 "f32" [4] strides [1]>} {
  %0 = fx.value_call "aten.neg.default"(%p) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// Two written arguments, two entries; in which order they stand says nothing.

func.func @writes_both(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"},
                       %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "y"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%y, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
func.func @each_its_own(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {alias.program = @writes_both,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written, "y" input in 1 "f32" [4] strides [1] written>,
    alias.table = #alias.table<1 = 1, 0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%q, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A carrier has the bytes of what it carries.

func.func @writes_bf16(%x: memref<2xbf16> {alias.root = #alias.root<0, 4 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<2xbf16>) -> memref<2xbf16>
  func.return
}
func.func @carried(%p: tensor<2xui16>) -> tensor<2xui16> attributes {alias.program = @writes_bf16,
    alias.bindings = #alias.bindings<"x" input in 0 "bf16" [2] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.reinterpret %p : tensor<2xui16> -> tensor<2xbf16>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<2xbf16>) -> tensor<2xbf16>
  %2 = fx.reinterpret %1 : tensor<2xbf16> -> tensor<2xui16>
  func.return %2 : tensor<2xui16>
}

// A branch writes; the other one leaves the old value.

func.func @writes_in_a_branch(%c: memref<i1> {alias.root = #alias.root<0, 1 bytes>, fx.name = "c"},
                              %x: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "x"}) {
  fx.cond %c captures(%x) effects<read 0, read 1, write 1> then {
  ^bb0(%v: memref<4xf32>):
    %0 = fx.call "aten.add_.Scalar"(%v, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
    fx.yield
  } else {
  ^bb0(%v: memref<4xf32>):
    fx.yield
  } : (memref<i1>, memref<4xf32>) -> ()
  func.return
}
func.func @chosen(%c: tensor<i1>, %p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_in_a_branch,
    alias.bindings = #alias.bindings<"c" input in 0 "i1" [] strides [], "x" input in 1 "f32" [4] strides [1] written>,
    alias.table = #alias.table<0 = 1>, alias.plan = #alias.plan<>} {
  %0 = fx.value_cond %c captures(%p) updates 1 then {
  ^bb0(%v: tensor<4xf32>):
    %1 = fx.value_call "aten.add.Scalar"(%v, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
    fx.yield %1 : tensor<4xf32>
  } else {
  ^bb0(%v: tensor<4xf32>):
    fx.yield %v : tensor<4xf32>
  } : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// A loop writes memory from outside.

func.func @writes_in_a_loop(%i: memref<i1> {alias.root = #alias.root<0, 1 bytes>, fx.name = "i"},
                            %x: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "x"}) {
  %r = fx.while (%i) captures(%x) effects<read 0, read 1, write 1> while {
  ^bb0(%j: memref<i1>, %v: memref<4xf32>):
    fx.yield %j : memref<i1>
  } do {
  ^bb0(%j: memref<i1>, %v: memref<4xf32>):
    %0 = fx.call "aten.add_.Scalar"(%v, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
    %1 = fx.call "aten.logical_not.default"(%j) effects<read 0> results<fresh> : (memref<i1>) -> memref<i1>
    fx.yield %1 : memref<i1>
  } : (memref<i1>), (memref<4xf32>) -> (memref<i1>)
  func.return
}
func.func @carried_along(%i: tensor<i1>, %p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_in_a_loop,
    alias.bindings = #alias.bindings<"i" input in 0 "i1" [] strides [], "x" input in 1 "f32" [4] strides [1] written>,
    alias.table = #alias.table<0 = 1>, alias.plan = #alias.plan<>} {
  %0, %1 = fx.value_while (%i, %p) captures() while {
  ^bb0(%j: tensor<i1>, %v: tensor<4xf32>):
    fx.yield %j : tensor<i1>
  } do {
  ^bb0(%j: tensor<i1>, %v: tensor<4xf32>):
    %2 = fx.value_call "aten.add.Scalar"(%v, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = fx.value_call "aten.logical_not.default"(%j) : (tensor<i1>) -> tensor<i1>
    fx.yield %3, %2 : tensor<i1>, tensor<4xf32>
  } : (tensor<i1>, tensor<4xf32>), () -> (tensor<i1>, tensor<4xf32>)
  func.return %1 : tensor<4xf32>
}

// Gigabytes are followed like bytes.

func.func @large(%x: memref<1048576x1024xf32> {alias.root = #alias.root<0, 4294967296 bytes>, fx.name = "x"}) -> memref<1048576xf32, strided<[1024], offset: 5>> {
  %0 = fx.call "aten.select.int"(%x, 0, 7) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %1 = fx.call "aten.add_.Scalar"(%0, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<1024xf32, strided<[1], offset: 7168>>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %2 = fx.call "aten.select.int"(%x, 1, 5) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1048576xf32, strided<[1024], offset: 5>>
  func.return %2 : memref<1048576xf32, strided<[1024], offset: 5>>
}
func.func @row(%p: tensor<1048576x1024xf32>) -> tensor<1048576x1024xf32> attributes {alias.program = @large,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [1048576, 1024] strides [1024, 1] written>,
    alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<argument_view 0 "f32" [1048576] strides [1024] offset 5>} {
  %0 = fx.extract %p <[1024] strides [1] offset 7168> : tensor<1048576x1024xf32> -> tensor<1024xf32>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<1024xf32>) -> tensor<1024xf32>
  %2 = fx.insert %1 into %p <[1024] strides [1] offset 7168> : tensor<1024xf32> into tensor<1048576x1024xf32> -> tensor<1048576x1024xf32>
  func.return %2 : tensor<1048576x1024xf32>
}
