// RUN: %opt %s --split-input-file --verify-diagnostics

// What cannot be read.

// expected-error @below {{`unknown` stands alone}}
fx.call "a.b.c"() effects<unknown, unknown> results<> : () -> ()
// -----
// expected-error @below {{2 sizes but 1 strides}}
func.func @f() attributes {w = #alias.window<[2, 3] strides [1]>} { func.return }
// -----
// expected-error-re @below {{[Ee]xpected}}
func.func @f() attributes {w = #alias.root<0, 12>} { func.return }
// -----
// expected-error-re @below {{[Ee]xpected}}
func.func @f() attributes {w = #alias.plan<elsewhere 0>} { func.return }
// -----
// expected-error-re @below {{[Ee]xpected}}
func.func @f() attributes {w = #alias.bindings<"x" weight in 0 "f32" [] strides []>} { func.return }
// -----
// expected-error-re @below {{[Ee]xpected}}
fx.call "a.b.c"() effects<touch 0> results<> : () -> ()
// -----
// expected-error-re @below {{[Ee]xpected}}
fx.call "a.b.c"() effects<> results<other> : () -> ()
// -----

// Roots.

// expected-error @below {{argument 0 reaches byte 32 of a storage of 16 bytes}}
func.func @window_outside_root(%x: memref<2x4xf32> {alias.root = #alias.root<0, 16 bytes>}) { func.return }
// -----
// expected-error @below {{argument 0 reaches byte 36 of a storage of 32 bytes}}
func.func @offset_outside_root(%x: memref<2x4xf32, strided<[4, 1], offset: 1>> {alias.root = #alias.root<0, 32 bytes>}) { func.return }
// -----
// expected-error @below {{argument 1: root 0 has 16 bytes here and 32 before}}
func.func @two_sizes(%x: memref<4xf32> {alias.root = #alias.root<0, 32 bytes>}, %y: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) { func.return }
// -----
// expected-error @below {{argument 0: a value of type tensor<4xf32> has no root storage}}
func.func @root_of_a_value(%x: tensor<4xf32> {alias.root = #alias.root<0, 16 bytes>}) { func.return }
// -----
// expected-error @below {{argument 0: `alias.root` is not an #alias.root<...>}}
func.func @no_root(%x: memref<4xf32> {alias.root = 0 : i64}) { func.return }
// -----
func.func @view_outside(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) {
  // expected-error @below {{result 0 reaches byte 32 of a storage of 16 bytes}}
  %0 = fx.call "aten.as_strided.default"(%x, [8], [1]) effects<> results<view 0> : (memref<4xf32>) -> memref<8xf32>
  func.return
}
// -----
func.func @view_of_fresh_outside(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %1 = fx.call "aten.slice.Tensor"(%0, 0, 1, 4) effects<> results<view 0> : (memref<4xf32>) -> memref<3xf32, strided<[1], offset: 1>>
  // expected-error @below {{result 0 reaches byte 20 of a storage of 16 bytes}}
  %2 = fx.call "aten.as_strided.default"(%1, [4], [1], 1) effects<> results<view 0> : (memref<3xf32, strided<[1], offset: 1>>) -> memref<4xf32, strided<[1], offset: 1>>
  func.return
}
// -----

// expected-error @below {{function @declared has no body, and nothing else says what it does}}
func.func private @declared(memref<2xf32>)
// -----
// The alias table.

// expected-error @below {{alias table entry 1 = 0: there are 1 outputs}}
func.func @no_output(%x: tensor<4xf32>) -> tensor<4xf32> attributes {alias.table = #alias.table<1 = 0>} { func.return %x : tensor<4xf32> }
// -----
// expected-error @below {{alias table entry 0 = 1: there are 1 parameters}}
func.func @no_parameter(%x: tensor<4xf32>) -> tensor<4xf32> attributes {alias.table = #alias.table<0 = 1>} { func.return %x : tensor<4xf32> }
// -----
// expected-error @below {{an output and a parameter stand in one entry at most}}
func.func @two_owners(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {alias.table = #alias.table<0 = 0, 1 = 0>} { func.return %x, %x : tensor<4xf32>, tensor<4xf32> }
// -----
// expected-error @below {{an output and a parameter stand in one entry at most}}
func.func @two_parameters(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {alias.table = #alias.table<0 = 0, 0 = 1>} { func.return %x : tensor<4xf32> }
// -----
// expected-error @below {{the output has type tensor<4xf32>, the parameter tensor<2x2xf32>}}
func.func @other_type(%x: tensor<4xf32>, %y: tensor<2x2xf32>) -> tensor<4xf32> attributes {alias.table = #alias.table<0 = 1>} { func.return %x : tensor<4xf32> }
// -----
// expected-error @below {{the table speaks of values, not of memref<4xf32> and memref<4xf32>}}
func.func @table_of_memory(%x: memref<4xf32>) -> memref<4xf32> attributes {alias.table = #alias.table<0 = 0>} { func.return %x : memref<4xf32> }
// -----
// expected-error @below {{`alias.table` is not an #alias.table<...>}}
func.func @no_table() attributes {alias.table = [0]} { func.return }
// -----

// Bindings.

// expected-error @below {{a window has no negative numbers}}
func.func @bound_before(%x: tensor<4xf32>) attributes {alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] offset -2>} { func.return }
// -----

// expected-error @below {{binding 0 ('x'): parameter 1, but there are 1}}
func.func @bound_to_nothing(%x: tensor<4xf32>) attributes {alias.bindings = #alias.bindings<"x" input in 1 "f32" [4] strides [1]>} { func.return }
// -----
// expected-error @below {{binding 0 ('x'): no element type is called 'float'}}
func.func @bound_element(%x: tensor<4xf32>) attributes {alias.bindings = #alias.bindings<"x" input in 0 "float" [4] strides [1]>} { func.return }
// -----
// expected-error @below {{binding 0 ('x'): the window reaches byte 20 of tensor<4xf32>, which has 16}}
func.func @bound_window(%x: tensor<4xf32>) attributes {alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1] offset 1>} { func.return }
// -----
// expected-error @below {{binding 0 ('x'): a written argument has a parameter}}
func.func @written_nowhere() attributes {alias.bindings = #alias.bindings<"x" input unused "f32" [4] strides [1] written>} { func.return }
// -----
// expected-error @below {{binding 0 ('x'): memref<4xf32> is no value}}
func.func @bound_to_memory(%x: memref<4xf32>) attributes {alias.bindings = #alias.bindings<"x" input in 0 "f32" [4] strides [1]>} { func.return }
// -----
// expected-error @below {{`alias.bindings` is not an #alias.bindings<...>}}
func.func @no_bindings() attributes {alias.bindings} { func.return }
// -----

// The output plan.

// expected-error @below {{`alias.plan` needs `alias.bindings`: it speaks of arguments}}
func.func @plan_alone() attributes {alias.plan = #alias.plan<>} { func.return }
// -----
// expected-error @below {{`alias.plan` is not an #alias.plan<...>}}
func.func @no_plan() attributes {alias.plan = 1 : i64} { func.return }
// -----
// expected-error @below {{output plan entry 0: argument 0, but there are 0 ones}}
func.func @plan_argument() attributes {alias.bindings = #alias.bindings<>, alias.plan = #alias.plan<argument 0>} { func.return }
// -----
// expected-error @below {{output plan entry 0: result 0, but there are 0 ones}}
func.func @plan_result() attributes {alias.bindings = #alias.bindings<>, alias.plan = #alias.plan<result 0 "f32" [] strides []>} { func.return }
// -----
// expected-error @below {{output plan entry 0: output 0, but there are 0 earlier ones}}
func.func @plan_itself() attributes {alias.bindings = #alias.bindings<>, alias.plan = #alias.plan<output 0>} { func.return }
// -----
// expected-error @below {{output plan entry 0: the window reaches byte 16 of tensor<2xf32>, which has 8}}
func.func @plan_window(%x: tensor<2xf32>) -> tensor<2xf32> attributes {alias.bindings = #alias.bindings<"x" input in 0 "f32" [2] strides [1]>, alias.plan = #alias.plan<result 0 "f32" [4] strides [1]>} { func.return %x : tensor<2xf32> }
// -----
// expected-error @below {{output plan entry 0: the window reaches byte 12 of tensor<2xf32>, which has 8}}
func.func @plan_view(%x: tensor<2xf32>) attributes {alias.bindings = #alias.bindings<"x" input in 0 "f32" [2] strides [1]>, alias.plan = #alias.plan<argument_view 0 "f32" [2] strides [2]>} { func.return }
