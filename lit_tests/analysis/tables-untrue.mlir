// RUN: %opt %s --split-input-file --verify-diagnostics

// Tables that are not true of the program they name. Nothing is run.

// The value before the last one.

func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{parameter 0 ('x') ends as result 0, which is not the last value written at byte 0}}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%0, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----

// The first value.

func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{parameter 0 ('x') ends as result 0, which is not the last value written at byte 0}}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%0, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %p : tensor<4xf32>
}
// -----

// The writes in another order.

func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{parameter 0 ('x') ends as result 0, which is not the last value written at byte 0}}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.mul.Scalar"(%p, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// -----

// No entry for what is written.

func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{parameter 0 ('x') ends as its first value, which is not the last value written at byte 0}}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>, alias.table = #alias.table<>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%0, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// -----

// An entry, and the argument is not called written.

func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{argument 'x' is called not written, and the alias table says otherwise}}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%0, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// -----

// Another window than the argument is.

func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{argument 'x' is bound as another window than it is}}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [0] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%0, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// -----

// Another name.

func.func @writes_twice(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%x, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{argument 'y': argument 0 is called 'x'}}
func.func @last_value(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_twice,
    alias.bindings = #alias.bindings<"y" input in 0 "f32" [4] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%0, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// -----

// An entry for what nobody writes.

func.func @reads(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> memref<4xf32> {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
// expected-error @below {{alias table entry 0 = 0: nobody writes the memory of that parameter}}
func.func @no_entry(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @reads,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<result 0 "f32" [4] strides [1]>} {
  %0 = fx.value_call "aten.neg.default"(%p) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----

// Called written, and nobody writes it.

func.func @reads(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> memref<4xf32> {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
// expected-error @below {{argument 'x' is called written, and the alias table says otherwise}}
func.func @no_entry(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @reads,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written>, alias.table = #alias.table<>, alias.plan = #alias.plan<result 0 "f32" [4] strides [1]>} {
  %0 = fx.value_call "aten.neg.default"(%p) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----

// An output that is called an argument.

func.func @reads(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> memref<4xf32> {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
// expected-error @below {{output plan entry 0 is argument 0, which is another object than the program returns}}
func.func @no_entry(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @reads,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>, alias.table = #alias.table<>, alias.plan = #alias.plan<argument 0>} {
  %0 = fx.value_call "aten.neg.default"(%p) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----

// An output that is called a view of an argument.

func.func @reads(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> memref<4xf32> {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
// expected-error @below {{output plan entry 0 is a view of argument 'x', and the program returns other memory}}
func.func @no_entry(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @reads,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>, alias.table = #alias.table<>, alias.plan = #alias.plan<argument_view 0 "f32" [4] strides [1]>} {
  %0 = fx.value_call "aten.neg.default"(%p) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----

// An output that is left out.

func.func @reads(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"}) -> memref<4xf32> {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
// expected-error @below {{there are 1 outputs and 0 entries in the output plan}}
func.func @no_entry(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @reads,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>, alias.table = #alias.table<>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.neg.default"(%p) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----

// Outputs of one type exchanged.

func.func @writes_both(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"},
                       %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "y"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%y, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{parameter 0 ('x') ends as result 1, which is not the last value written at byte 0}}
func.func @each_its_own(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {alias.program = @writes_both,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written, "y" input in 1 "f32" [4] strides [1] written>,
    alias.table = #alias.table<1 = 0, 0 = 1>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%q, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// -----

// Parameters of one type exchanged.

func.func @writes_both(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"},
                       %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "y"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%y, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{parameter 0 ('y') ends as result 0, which is not the last value written at byte 0}}
func.func @each_its_own(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {alias.program = @writes_both,
    alias.bindings = #alias.bindings<"x" input in 1 "f32" [4] strides [1] written, "y" input in 0 "f32" [4] strides [1] written>,
    alias.table = #alias.table<1 = 1, 0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%q, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// -----

// Both arguments in one parameter.

func.func @writes_both(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"},
                       %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "y"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%y, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{argument 'y' is bound to parameter 0, which holds other memory}}
func.func @each_its_own(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {alias.program = @writes_both,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written, "y" input in 0 "f32" [4] strides [1] written>,
    alias.table = #alias.table<1 = 1, 0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%q, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// -----

// One of two entries.

func.func @writes_both(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"},
                       %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "y"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%y, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{parameter 1 ('y') ends as its first value, which is not the last value written at byte 0}}
func.func @each_its_own(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {alias.program = @writes_both,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written, "y" input in 1 "f32" [4] strides [1]>,
    alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%q, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// -----

// Two outputs of one parameter.

func.func @writes_both(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "x"},
                       %y: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "y"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.mul_.Scalar"(%y, 2.0) effects<read 0, write 0> results<same 0> value<"aten.mul.Scalar" [write 0]> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// expected-error @below {{alias table entry 1 = 0: an output and a parameter stand in one entry at most}}
func.func @each_its_own(%p: tensor<4xf32>, %q: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {alias.program = @writes_both,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] written, "y" input in 1 "f32" [4] strides [1] written>,
    alias.table = #alias.table<0 = 0, 1 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.value_call "aten.add.Scalar"(%p, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.mul.Scalar"(%q, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// -----

// Another type of the same bytes.

func.func @writes_bf16(%x: memref<2xbf16> {alias.root = #alias.root<0, 4 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<2xbf16>) -> memref<2xbf16>
  func.return
}
// expected-error @below {{argument 'x' is bound as another window than it is}}
func.func @carried(%p: tensor<2xui16>) -> tensor<2xui16> attributes {alias.program = @writes_bf16,
    alias.bindings = #alias.bindings<"x" input in 0 "f16" [2] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.reinterpret %p : tensor<2xui16> -> tensor<2xbf16>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<2xbf16>) -> tensor<2xbf16>
  %2 = fx.reinterpret %1 : tensor<2xbf16> -> tensor<2xui16>
  func.return %2 : tensor<2xui16>
}
// -----

// An output of another type with the same bytes.

func.func @writes_bf16(%x: memref<2xbf16> {alias.root = #alias.root<0, 4 bytes>, fx.name = "x"}) {
  %0 = fx.call "aten.add_.Scalar"(%x, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<2xbf16>) -> memref<2xbf16>
  func.return
}
// expected-error @below {{the output has type tensor<2xbf16>, the parameter tensor<2xui16>}}
func.func @carried(%p: tensor<2xui16>) -> tensor<2xbf16> attributes {alias.program = @writes_bf16,
    alias.bindings = #alias.bindings<"x" input in 0 "bf16" [2] strides [1] written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<>} {
  %0 = fx.reinterpret %p : tensor<2xui16> -> tensor<2xbf16>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<2xbf16>) -> tensor<2xbf16>
  %2 = fx.reinterpret %1 : tensor<2xbf16> -> tensor<2xui16>
  func.return %1 : tensor<2xbf16>
}
// -----

// The branches exchanged.

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
// expected-error @below {{parameter 1 ('x') ends as result 0, which is not the last value written at byte 0}}
func.func @chosen(%c: tensor<i1>, %p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.program = @writes_in_a_branch,
    alias.bindings = #alias.bindings<"c" input in 0 "i1" [] strides [], "x" input in 1 "f32" [4] strides [1] written>,
    alias.table = #alias.table<0 = 1>, alias.plan = #alias.plan<>} {
  %0 = fx.value_cond %c captures(%p) updates 1 then {
  ^bb0(%v: tensor<4xf32>):
    fx.yield %v : tensor<4xf32>
  } else {
  ^bb0(%v: tensor<4xf32>):
    %1 = fx.value_call "aten.add.Scalar"(%v, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
    fx.yield %1 : tensor<4xf32>
  } : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// -----

// A turn that writes nothing.

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
// expected-error @below {{parameter 1 ('x') ends as result 0, which is not the last value written at byte 0}}
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
    fx.yield %3, %v : tensor<i1>, tensor<4xf32>
  } : (tensor<i1>, tensor<4xf32>), () -> (tensor<i1>, tensor<4xf32>)
  func.return %1 : tensor<4xf32>
}
// -----

// The value before the loop.

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
// expected-error @below {{parameter 1 ('x') ends as result 0, which is not the last value written at byte 0}}
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
  func.return %p : tensor<4xf32>
}
// -----

// The loop goes on under another condition.

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
// expected-error @below {{parameter 1 ('x') ends as result 0, which is not the last value written at byte 0}}
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
    fx.yield %j, %2 : tensor<i1>, tensor<4xf32>
  } : (tensor<i1>, tensor<4xf32>), () -> (tensor<i1>, tensor<4xf32>)
  func.return %1 : tensor<4xf32>
}
// -----

// A write to another place.

func.func @large(%x: memref<1048576x1024xf32> {alias.root = #alias.root<0, 4294967296 bytes>, fx.name = "x"}) -> memref<1048576xf32, strided<[1024], offset: 5>> {
  %0 = fx.call "aten.select.int"(%x, 0, 7) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %1 = fx.call "aten.add_.Scalar"(%0, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<1024xf32, strided<[1], offset: 7168>>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %2 = fx.call "aten.select.int"(%x, 1, 5) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1048576xf32, strided<[1024], offset: 5>>
  func.return %2 : memref<1048576xf32, strided<[1024], offset: 5>>
}
// expected-error @below {{parameter 0 ('x') ends as result 0, which is not the last value written at byte 28672}}
func.func @row(%p: tensor<1048576x1024xf32>) -> tensor<1048576x1024xf32> attributes {alias.program = @large,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [1048576, 1024] strides [1024, 1] written>,
    alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<argument_view 0 "f32" [1048576] strides [1024] offset 5>} {
  %0 = fx.extract %p <[1024] strides [1] offset 7168> : tensor<1048576x1024xf32> -> tensor<1024xf32>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<1024xf32>) -> tensor<1024xf32>
  %2 = fx.insert %1 into %p <[1024] strides [1] offset 7169> : tensor<1024xf32> into tensor<1048576x1024xf32> -> tensor<1048576x1024xf32>
  func.return %2 : tensor<1048576x1024xf32>
}
// -----

// An output at another place.

func.func @large(%x: memref<1048576x1024xf32> {alias.root = #alias.root<0, 4294967296 bytes>, fx.name = "x"}) -> memref<1048576xf32, strided<[1024], offset: 5>> {
  %0 = fx.call "aten.select.int"(%x, 0, 7) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %1 = fx.call "aten.add_.Scalar"(%0, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<1024xf32, strided<[1], offset: 7168>>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %2 = fx.call "aten.select.int"(%x, 1, 5) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1048576xf32, strided<[1024], offset: 5>>
  func.return %2 : memref<1048576xf32, strided<[1024], offset: 5>>
}
// expected-error @below {{output plan entry 0 starts at another byte of argument 'x' than the program's view}}
func.func @row(%p: tensor<1048576x1024xf32>) -> tensor<1048576x1024xf32> attributes {alias.program = @large,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [1048576, 1024] strides [1024, 1] written>,
    alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<argument_view 0 "f32" [1048576] strides [1024] offset 4>} {
  %0 = fx.extract %p <[1024] strides [1] offset 7168> : tensor<1048576x1024xf32> -> tensor<1024xf32>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<1024xf32>) -> tensor<1024xf32>
  %2 = fx.insert %1 into %p <[1024] strides [1] offset 7168> : tensor<1024xf32> into tensor<1048576x1024xf32> -> tensor<1048576x1024xf32>
  func.return %2 : tensor<1048576x1024xf32>
}
// -----

// An output with other strides.

func.func @large(%x: memref<1048576x1024xf32> {alias.root = #alias.root<0, 4294967296 bytes>, fx.name = "x"}) -> memref<1048576xf32, strided<[1024], offset: 5>> {
  %0 = fx.call "aten.select.int"(%x, 0, 7) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %1 = fx.call "aten.add_.Scalar"(%0, 1.0) effects<read 0, write 0> results<same 0> value<"aten.add.Scalar" [write 0]> : (memref<1024xf32, strided<[1], offset: 7168>>) -> memref<1024xf32, strided<[1], offset: 7168>>
  %2 = fx.call "aten.select.int"(%x, 1, 5) effects<> results<view 0> : (memref<1048576x1024xf32>) -> memref<1048576xf32, strided<[1024], offset: 5>>
  func.return %2 : memref<1048576xf32, strided<[1024], offset: 5>>
}
// expected-error @below {{output plan entry 0 is another window than the program returns}}
func.func @row(%p: tensor<1048576x1024xf32>) -> tensor<1048576x1024xf32> attributes {alias.program = @large,
    alias.bindings = #alias.bindings<"x" input in 0 "f32" [1048576, 1024] strides [1024, 1] written>,
    alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<argument_view 0 "f32" [1048576] strides [1023] offset 5>} {
  %0 = fx.extract %p <[1024] strides [1] offset 7168> : tensor<1048576x1024xf32> -> tensor<1024xf32>
  %1 = fx.value_call "aten.add.Scalar"(%0, 1.0) : (tensor<1024xf32>) -> tensor<1024xf32>
  %2 = fx.insert %1 into %p <[1024] strides [1] offset 7168> : tensor<1024xf32> into tensor<1048576x1024xf32> -> tensor<1048576x1024xf32>
  func.return %2 : tensor<1048576x1024xf32>
}
// -----

// Names of programs.

// expected-error @below {{`alias.program` names @nowhere, which is no function over handles}}
func.func @values(%p: tensor<4xf32>) attributes {alias.program = @nowhere} {
  func.return
}
// -----
// expected-error @below {{`alias.program` is the name of a function: @program}}
func.func @values(%p: tensor<4xf32>) attributes {alias.program = "reads"} {
  func.return
}
