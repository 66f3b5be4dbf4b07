// RUN: %opt %s > %t.pretty && %opt %s --print-op-generic > %t.generic
// RUN: %opt %t.generic > %t.again && diff %t.pretty %t.again
// RUN: %opt %t.pretty --print-op-generic > %t.again && diff %t.generic %t.again
// RUN: %opt %s --print-debuginfo > %t.located && %opt %t.located --print-debuginfo > %t.again && diff %t.located %t.again

// What is printed in one form is the same program in the other, locations included.
func.func @main(%kv: memref<8x4xf32, strided<[4, 1], offset: 4>> {alias.root = #alias.root<0, 160 bytes>, fx.name = "kv", fx.kind = "buffer", alias.donated},
                %pos: memref<1xi64> {alias.root = #alias.root<1, 8 bytes>}, %x: memref<1x4xf32> {alias.root = #alias.root<2, 16 bytes>}) -> (memref<1x4xf32, strided<[4, 1], offset: 4>>, memref<f64>) {
  %0 = fx.call "aten.index_copy_.default"(%kv, 0, %pos, %x) effects<read 0, write 0, read 1, read 2> results<same 0> value<"aten.index_copy.default" [write 0]> : (memref<8x4xf32, strided<[4, 1], offset: 4>>, memref<1xi64>, memref<1x4xf32>) -> memref<8x4xf32, strided<[4, 1], offset: 4>> loc("index_copy_"("model.py":12:0))
  %1 = fx.call "aten.slice.Tensor"(%0, 0, 0, 1) effects<> results<view 0> : (memref<8x4xf32, strided<[4, 1], offset: 4>>) -> memref<1x4xf32, strided<[4, 1], offset: 4>> loc("slice_1"("model.py":13:0))
  %2 = fx.constant dense<0x7ff0000000000000> : tensor<f64> : memref<f64>
  %3 = fx.call "mylib.many.default"(%x, [1, none, [%pos]], -1.0e-30, nan, key = complex(0.5, ninf), layout = @"layout:strided") effects<unknown> results<may> : (memref<1x4xf32>, memref<1xi64>) -> memref<1x4xf32>
  func.return %1, %2 : memref<1x4xf32, strided<[4, 1], offset: 4>>, memref<f64>
}
func.func @values(%x: tensor<8xf32>) -> tensor<8xf32> attributes {alias.bindings = #alias.bindings<"x\22y" buffer in 0 "f32" [2, 4] strides [1, 2] written, "w" input in 0 "f32" [2] strides [4] offset 1 written around, "u" input unused "i64" [] strides []>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<argument 1, argument_view 0 "f32" lazy "neg" [2] strides [4] offset 1, output 0>} {
  %0 = fx.extract %x <[2, 2] strides [1, 4] offset 2> : tensor<8xf32> -> tensor<2x2xf32>
  %1 = fx.insert %0 into %x <[2, 2] strides [1, 4]> : tensor<2x2xf32> into tensor<8xf32> -> tensor<8xf32>
  func.return %1 : tensor<8xf32>
}
