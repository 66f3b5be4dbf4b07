// RUN: %opt %s | filecheck %s
// RUN: %opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

// Every operation of the dialect, in pretty and in generic form.

// CHECK-LABEL: func.func @handles
// GENERIC-LABEL: sym_name = "handles"
func.func @handles(%x: memref<2x4xf32>, %p: memref<4xi64>, %c: memref<2xcomplex<f32>, "conj">) {
  // CHECK-NEXT: fx.call "aten.index_put_.default"(%x, [none, %p], %x, false) effects<read 0, write 0, read 1, read 2> results<same 0> value<"aten.index_put.default" [write 0]>
  // GENERIC: "fx.call"(%x, %p, %x) <{target = "aten.index_put_.default", arguments = [#fx.operand<0>, [none, #fx.operand<1>], #fx.operand<2>, false], effects = #alias.effects<read 0, write 0, read 1, read 2>, aliases = #alias.results<same 0>, value = #fx.value<"aten.index_put.default" [write 0]>}>
  %0 = fx.call "aten.index_put_.default"(%x, [none, %p], %x, false) effects<read 0, write 0, read 1, read 2> results<same 0> value<"aten.index_put.default" [write 0]> : (memref<2x4xf32>, memref<4xi64>, memref<2x4xf32>) -> memref<2x4xf32>

  // Keyword-only arguments, an operand among them, and a value form that drops one.
  // CHECK-NEXT: fx.call "aten.add.out"(%x, %x, alpha = 2, out = %x) {{.*}} value<"aten.add.Tensor" [write 2] drop [out]>
  // GENERIC: keywords = {alpha = 2 : i64, out = #fx.operand<2>}
  %1 = fx.call "aten.add.out"(%x, %x, alpha = 2, out = %x) effects<read 0, read 1, write 2> results<same 2> value<"aten.add.Tensor" [write 2] drop [out]> : (memref<2x4xf32>, memref<2x4xf32>, memref<2x4xf32>) -> memref<2x4xf32>

  // Every kind of argument.
  // CHECK-NEXT: fx.call "mylib.many.default"(%x, 1, -2, 1.5, -0.0, 1.0e-30, inf, ninf, nan, true, "text", none, [], [1, [2.0]], f32, i64, complex(1.0, -2.0), @"memory_format:channels_last") effects<unknown> results<may>
  // GENERIC: arguments = [#fx.operand<0>, 1 : i64, -2 : i64, 1.500000e+00 : f64
  // GENERIC-SAME: #fx.python<"memory_format:channels_last">
  %2 = fx.call "mylib.many.default"(%x, 1, -2, 1.5, -0.0, 1.0e-30, inf, ninf, nan, true, "text", none, [], [1, [2.0]], f32, i64, complex(1.0, -2.0), @"memory_format:channels_last") effects<unknown> results<may> : (memref<2x4xf32>) -> memref<2x4xf32>

  // A view, lazy bits, several results, `may` of one operand.
  // CHECK-NEXT: effects<> results<view 0, view 0> : (memref<2x4xf32>) -> (memref<2x2xf32, strided<[4, 1]>>, memref<2x2xf32, strided<[4, 1], offset: 2>>)
  %3, %4 = fx.call "aten.split.Tensor"(%x, 2, 1) effects<> results<view 0, view 0> : (memref<2x4xf32>) -> (memref<2x2xf32, strided<[4, 1]>>, memref<2x2xf32, strided<[4, 1], offset: 2>>)
  // CHECK-NEXT: effects<read 0> results<fresh> : (memref<2xcomplex<f32>, "conj">) -> memref<2xcomplex<f32>>
  %5 = fx.call "aten.resolve_conj.default"(%c) effects<read 0> results<fresh> : (memref<2xcomplex<f32>, "conj">) -> memref<2xcomplex<f32>>
  // CHECK-NEXT: effects<read 0> results<may 0>
  %6 = fx.call "mylib.maybe.default"(%x) effects<read 0> results<may 0> : (memref<2x4xf32>) -> memref<2x4xf32>

  // A dynamic size, and the number it stands for.
  // CHECK-NEXT: fx.symbol "s0" : index
  // GENERIC: "fx.symbol"() <{expression = "s0"}> : () -> index
  %s = fx.symbol "s0" : index
  // CHECK-NEXT: fx.call "aten.empty.memory_format"([%s, 4], dtype = f32)
  %7 = fx.call "aten.empty.memory_format"([%s, 4], dtype = f32) effects<> results<fresh> : (index) -> memref<?x4xf32>

  // CHECK-NEXT: fx.constant dense<[1, 2]> : tensor<2xi64> : memref<2xi64>
  // GENERIC: "fx.constant"() <{data = dense<[1, 2]> : tensor<2xi64>}> : () -> memref<2xi64>
  %8 = fx.constant dense<[1, 2]> : tensor<2xi64> : memref<2xi64>
  func.return
}

// CHECK-LABEL: func.func @values
// GENERIC-LABEL: sym_name = "values"
func.func @values(%x: tensor<2x4xf32>, %v: tensor<2xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: fx.value_call "aten.add.Tensor"(%x, %x, alpha = 2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // GENERIC: "fx.value_call"(%x, %x) <{target = "aten.add.Tensor", arguments = [#fx.operand<0>, #fx.operand<1>], keywords = {alpha = 2 : i64}}>
  %0 = fx.value_call "aten.add.Tensor"(%x, %x, alpha = 2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: fx.value_call "mylib.bump_.default"(%0) writes<write 0>
  // GENERIC: writes = #alias.effects<write 0>
  %1, %2 = fx.value_call "mylib.bump_.default"(%0) writes<write 0> : (tensor<2x4xf32>) -> (tensor<1xi64>, tensor<2x4xf32>)
  // CHECK-NEXT: fx.extract %2 <[2] strides [4] offset 1> : tensor<2x4xf32> -> tensor<2xf32>
  // GENERIC: "fx.extract"(%2) <{window = #alias.window<[2] strides [4] offset 1>}>
  %3 = fx.extract %2 <[2] strides [4] offset 1> : tensor<2x4xf32> -> tensor<2xf32>
  // CHECK-NEXT: fx.insert %3 into %2 <[2] strides [4]> : tensor<2xf32> into tensor<2x4xf32> -> tensor<2x4xf32>
  // GENERIC: "fx.insert"(%3, %2)
  %4 = fx.insert %3 into %2 <[2] strides [4]> : tensor<2xf32> into tensor<2x4xf32> -> tensor<2x4xf32>
  // CHECK-NEXT: fx.insert %4 <[2, 4] strides [1, 2]> : tensor<2x4xf32> -> tensor<8xf32>
  %5 = fx.insert %4 <[2, 4] strides [1, 2]> : tensor<2x4xf32> -> tensor<8xf32>
  // CHECK-NEXT: fx.reinterpret %5 : tensor<8xf32> -> tensor<16xui16>
  // GENERIC: "fx.reinterpret"(%5)
  %6 = fx.reinterpret %5 : tensor<8xf32> -> tensor<16xui16>
  // CHECK-NEXT: fx.empty : tensor<2x4xf32>
  // GENERIC: "fx.empty"() : () -> tensor<2x4xf32>
  %7 = fx.empty : tensor<2x4xf32>
  // CHECK-NEXT: fx.constant dense<0x7f800000> : tensor<f32> : tensor<f32>
  %8 = fx.constant dense<0x7f800000> : tensor<f32> : tensor<f32>
  func.return %4 : tensor<2x4xf32>
}
