// RUN: %opt %s --split-input-file --verify-diagnostics

func.func @effect_out_of_range(%x: memref<4xf32>) {
  // expected-error @+1 {{effect on operand 1, but there are 1}}
  fx.call "aten.neg_.default"(%x) effects<write 1> results<> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @effect_on_a_number() {
  %s = fx.symbol "s0" : index
  // expected-error @below {{read effect on operand 0, a value of type index: only memory can be read or written}}
  fx.call "aten.fill_.Scalar"(%s) effects<read 0> results<> : (index) -> ()
  func.return
}
// -----
func.func @effect_twice(%x: memref<4xf32>) {
  // expected-error @below {{an effect is listed twice}}
  fx.call "aten.neg_.default"(%x) effects<write 0, write 0> results<> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @call_on_a_value(%x: tensor<4xf32>) {
  // expected-error @below {{a call takes and gives memory, not a value of type tensor<4xf32>}}
  fx.call "aten.neg_.default"(%x) effects<read 0> results<> : (tensor<4xf32>) -> ()
  func.return
}
// -----
func.func @call_gives_a_value(%x: memref<4xf32>) {
  // expected-error @below {{a call takes and gives memory, not a value of type tensor<4xf32>}}
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
func.func @alias_count(%x: memref<4xf32>) {
  // expected-error @below {{0 result aliases for 1 results}}
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @alias_out_of_range(%x: memref<4xf32>) {
  // expected-error @below {{result 0 aliases operand 3, but there are 1}}
  %0 = fx.call "aten.alias.default"(%x) effects<> results<view 3> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @alias_of_a_number() {
  %s = fx.symbol "s0" : index
  // expected-error @below {{result 0: only memory can alias memory}}
  %0 = fx.call "aten.alias.default"(%s) effects<> results<view 0> : (index) -> memref<4xf32>
  func.return
}
// -----
func.func @must_alias_of_another_type(%x: memref<4xf32>) {
  // expected-error @below {{result 0 must alias operand 0, but their types differ: memref<4xi32> and memref<4xf32>}}
  %0 = fx.call "mylib.cast_.default"(%x) effects<write 0> results<same 0> : (memref<4xf32>) -> memref<4xi32>
  func.return
}
// -----
func.func @must_alias_of_another_count(%x: memref<4xf32>) {
  // expected-error @below {{another geometry needs `view`}}
  %0 = fx.call "mylib.grow_.default"(%x) effects<write 0> results<same 0> : (memref<4xf32>) -> memref<8xf32>
  func.return
}
// -----
func.func @view_without_operand(%x: memref<4xf32>) {
  // expected-error @below {{result 0: `view` needs an operand number}}
  %0 = fx.call "aten.alias.default"(%x) effects<> results<view> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @fresh_of_an_operand(%x: memref<4xf32>) {
  // expected-error @below {{result 0: `fresh` memory is no operand's}}
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<fresh 0> : (memref<4xf32>) -> memref<4xf32>
  func.return
}
// -----
func.func @value_of_an_unwritten_operand(%x: memref<4xf32>) {
  // expected-error @below {{value form gives operand 0, which is not written}}
  fx.call "aten.neg_.default"(%x) effects<read 0> results<> value<"aten.neg.default" [write 0]> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @value_form_forgets_a_write(%x: memref<4xf32>, %y: memref<4xf32>) {
  // expected-error @below {{value form does not give the new value of operand 1, which is written}}
  fx.call "mylib.both_.default"(%x, %y) effects<write 0, write 1> results<> value<"mylib.both.default" [write 0]> : (memref<4xf32>, memref<4xf32>) -> ()
  func.return
}
// -----
func.func @value_form_twice(%x: memref<4xf32>) {
  // expected-error @below {{value form gives the same thing twice}}
  fx.call "aten.neg_.default"(%x) effects<write 0> results<> value<"aten.neg.default" [write 0, write 0]> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @value_form_of_no_result(%x: memref<4xf32>) {
  // expected-error @below {{value form gives result 2, but there are 0}}
  fx.call "aten.neg_.default"(%x) effects<write 0> results<> value<"aten.neg.default" [write 0, result 2]> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @operand_named_twice(%x: memref<4xf32>) {
  // expected-error @below {{arguments name operands [0, 0], expected each of 0..0 once}}
  "fx.call"(%x) <{target = "aten.neg.default", arguments = [#fx.operand<0>, #fx.operand<0>], effects = #alias.effects<>, aliases = #alias.results<>}> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @operand_not_named(%x: memref<4xf32>) {
  // expected-error @below {{arguments name operands []}}
  "fx.call"(%x) <{target = "aten.neg.default", arguments = [1 : i64], effects = #alias.effects<>, aliases = #alias.results<>}> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @no_target(%x: memref<4xf32>) {
  // expected-error @below {{property 'target' expected}}
  "fx.call"(%x) <{arguments = [#fx.operand<0>], effects = #alias.effects<>, aliases = #alias.results<>}> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @value_call_on_memory(%x: memref<4xf32>) {
  // expected-error @below {{a value call takes and gives values, not memory of type memref<4xf32>}}
  %0 = fx.value_call "aten.neg.default"(%x) : (memref<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
func.func @value_call_operands(%x: tensor<4xf32>) {
  // expected-error @below {{arguments name operands []}}
  "fx.value_call"(%x) <{target = "aten.neg.default", arguments = []}> : (tensor<4xf32>) -> ()
  func.return
}
// -----
func.func @value_call_writes_what(%x: tensor<4xf32>) {
  // expected-error @below {{`writes` names the written operands}}
  %0 = fx.value_call "aten.neg_.default"(%x) writes<read 0> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
func.func @value_call_too_few(%x: tensor<4xf32>) {
  // expected-error @below {{1 operands are written, but there are 0 results}}
  fx.value_call "aten.neg_.default"(%x) writes<write 0> : (tensor<4xf32>) -> ()
  func.return
}
// -----
func.func @value_call_write_range(%x: tensor<4xf32>) {
  // expected-error @below {{a write of operand 2, but there are 1}}
  %0 = fx.value_call "aten.neg_.default"(%x) writes<write 2> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
func.func @value_call_write_type(%x: tensor<4xf32>) {
  // expected-error @below {{the new value of operand 0 has type tensor<4xf16>, the operand tensor<4xf32>}}
  %0 = fx.value_call "aten.neg_.default"(%x) writes<write 0> : (tensor<4xf32>) -> tensor<4xf16>
  func.return
}
// -----
func.func @window_outside(%x: tensor<2x4xf32>) {
  // expected-error @below {{the window reaches element 8 of a value with 8}}
  %0 = fx.extract %x <[2] strides [4] offset 4> : tensor<2x4xf32> -> tensor<2xf32>
  func.return
}
// -----
func.func @window_before(%x: tensor<2x4xf32>) {
  // expected-error @below {{the window reaches element}}
  %0 = fx.extract %x <[2] strides [1] offset -1> : tensor<2x4xf32> -> tensor<2xf32>
  func.return
}
// -----
func.func @window_sizes(%x: tensor<2x4xf32>) {
  // expected-error @below {{the window has sizes [2], the value [3]}}
  %0 = fx.extract %x <[2] strides [4]> : tensor<2x4xf32> -> tensor<3xf32>
  func.return
}
// -----
func.func @window_element(%x: tensor<2x4xf32>) {
  // expected-error @below {{a window does not change the element type}}
  %0 = fx.extract %x <[2] strides [4]> : tensor<2x4xf32> -> tensor<2xi32>
  func.return
}
// -----
func.func @insert_base(%x: tensor<2xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{the result has type tensor<2x4xf32>, the base tensor<8xf32>}}
  %0 = fx.insert %x into %b <[2] strides [4]> : tensor<2xf32> into tensor<8xf32> -> tensor<2x4xf32>
  func.return
}
// -----
func.func @insert_on_memory(%x: memref<2xf32>) {
  // expected-error @below {{memref<2xf32> should be of base attribute tensor}}
  %0 = fx.insert %x <[2] strides [1]> : memref<2xf32> -> tensor<2xf32>
  func.return
}
// -----
func.func @reinterpret_size(%x: tensor<4xf32>) {
  // expected-error @below {{tensor<4xf32> and tensor<4xf16> do not hold the same bytes}}
  %0 = fx.reinterpret %x : tensor<4xf32> -> tensor<4xf16>
  func.return
}
// -----
func.func @constant_type() {
  // expected-error @below {{a constant is a memref or a tensor, not f32}}
  %0 = fx.constant dense<1.0> : tensor<f32> : f32
  func.return
}
// -----
func.func @constant_data() {
  // expected-error @below {{the data has type tensor<2xf32>, the constant memref<3xf32>}}
  %0 = fx.constant dense<1.0> : tensor<2xf32> : memref<3xf32>
  func.return
}
// -----
func.func @empty_is_a_value() {
  // expected-error @below {{memref<2xf32> should be of base attribute tensor}}
  %0 = fx.empty : memref<2xf32>
  func.return
}
// -----
func.func @positional_after_keyword(%x: memref<4xf32>) {
  // expected-error @below {{Positional argument after a keyword argument}}
  fx.call "aten.neg.default"(alpha = 1, %x) effects<> results<> : (memref<4xf32>) -> ()
  func.return
}
// -----
func.func @not_an_argument(%x: memref<4xf32>) {
  // expected-error @below {{Expected an argument}}
  fx.call "aten.neg.default"(%x, ?) effects<> results<> : (memref<4xf32>) -> ()
  func.return
}
// -----
// expected-error @below {{a handle with 2 sizes has 1 strides}}
func.func @strides_of_another_rank(%x: memref<2x2xf32, strided<[1]>>) {
  func.return
}
// -----
// expected-error @below {{a stride or an offset of a handle is negative}}
func.func @negative_stride(%x: memref<2xf32, strided<[-1]>>) {
  func.return
}
// -----
// expected-error @below {{a stride or an offset of a handle is negative}}
func.func @negative_offset(%x: memref<2xf32, strided<[1], offset: -4>>) {
  func.return
}
