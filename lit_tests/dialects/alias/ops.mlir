// RUN: %opt %s | filecheck %s
// RUN: %opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

// Every attribute of the dialect.

// CHECK-LABEL: func.func @roots
// CHECK-SAME:  {alias.root = #alias.root<0, 48 bytes>, alias.donated}
// CHECK-SAME:  {alias.root = #alias.root<0, 48 bytes>}
// GENERIC:     arg_attrs = [{alias.root = #alias.root<0, 48 bytes>, alias.donated}, {alias.root = #alias.root<0, 48 bytes>}]
func.func @roots(%x: memref<2x4xf32> {alias.root = #alias.root<0, 48 bytes>, alias.donated},
                 %y: memref<2x4xf32, strided<[4, 1], offset: 4>> {alias.root = #alias.root<0, 48 bytes>}) {
  // CHECK: effects<> results<view 0>
  // GENERIC: effects = #alias.effects<>, aliases = #alias.results<view 0>
  %0 = fx.call "aten.alias.default"(%x) effects<> results<view 0> : (memref<2x4xf32>) -> memref<2x4xf32>
  // CHECK: effects<read 0, write 0, read 1> results<same 0>
  // GENERIC: effects = #alias.effects<read 0, write 0, read 1>, aliases = #alias.results<same 0>
  %1 = fx.call "aten.add_.Tensor"(%x, %y) effects<read 0, write 0, read 1> results<same 0> value<"aten.add.Tensor" [write 0]> : (memref<2x4xf32>, memref<2x4xf32, strided<[4, 1], offset: 4>>) -> memref<2x4xf32>
  // CHECK: effects<unknown> results<may, fresh, may 1>
  %2, %3, %4 = fx.call "mylib.what.default"(%x, %y) effects<unknown> results<may, fresh, may 1> : (memref<2x4xf32>, memref<2x4xf32, strided<[4, 1], offset: 4>>) -> (memref<1xf32>, memref<1xf32>, memref<1xf32>)
  func.return
}

// CHECK-LABEL: func.func @signature
// CHECK-SAME:  alias.bindings = #alias.bindings<"a \22name\22" parameter in 0 "f32" [2, 4] strides [4, 1] written, "b" buffer in 0 "f16" lazy "neg" [2] strides [1] offset 3, "c" input unused "i64" [] strides [], "d" constant in 1 "i1" [1] strides [1]>
// CHECK-SAME:  alias.table = #alias.table<0 = 0>
// CHECK-SAME:  alias.plan = #alias.plan<argument 2, argument_view 0 "f32" [4] strides [1] offset 4, result 1 "complex<f32>" lazy "conj" [2] strides [1], output 0>
func.func @signature(%p: tensor<8xf32>, %q: tensor<1xi1>) -> (tensor<8xf32>, tensor<2xcomplex<f32>>) attributes {
    alias.bindings = #alias.bindings<"a \"name\"" parameter in 0 "f32" [2, 4] strides [4, 1] written,
                                     "b" buffer in 0 "f16" lazy "neg" [2] strides [1] offset 3,
                                     "c" input unused "i64" [] strides [],
                                     "d" constant in 1 "i1" [1] strides [1]>,
    alias.table = #alias.table<0 = 0>,
    alias.plan = #alias.plan<argument 2, argument_view 0 "f32" [4] strides [1] offset 4,
                             result 1 "complex<f32>" lazy "conj" [2] strides [1], output 0>} {
  // CHECK: fx.extract %p <[4] strides [2] offset 1>
  // GENERIC: window = #alias.window<[4] strides [2] offset 1>
  %0 = fx.extract %p <[4] strides [2] offset 1> : tensor<8xf32> -> tensor<4xf32>
  %1 = fx.reinterpret %0 : tensor<4xf32> -> tensor<2xcomplex<f32>>
  func.return %p, %1 : tensor<8xf32>, tensor<2xcomplex<f32>>
}
