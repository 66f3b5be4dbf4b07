// RUN: %opt %s > %t.pretty
// RUN: %opt %t.pretty --print-op-generic > %t.generic
// RUN: %opt %t.generic > %t.again
// RUN: cmp %t.pretty %t.again

func.func @empty() attributes {alias.bindings = #alias.bindings<>, alias.table = #alias.table<>, alias.plan = #alias.plan<>} {
  func.return
}
func.func @root(%x: memref<4xi8, strided<[2], offset: 3>> {alias.root = #alias.root<7, 16 bytes>}) -> memref<4xi8, strided<[2], offset: 3>> {
  func.return %x : memref<4xi8, strided<[2], offset: 3>>
}
func.func @full(%p: tensor<8xui16>, %q: tensor<3xi64>) -> (tensor<3xi64>, tensor<8xui16>) attributes {alias.bindings = #alias.bindings<"p" buffer in 0 "bf16" [2, 4] strides [1, 2] written, "q" parameter in 1 "i64" [3] strides [1] written>, alias.table = #alias.table<1 = 0, 0 = 1>, alias.plan = #alias.plan<argument_view 0 "bf16" lazy "neg" [2] strides [4]>} {
  func.return %q, %p : tensor<3xi64>, tensor<8xui16>
}
