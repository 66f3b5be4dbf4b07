// RUN: %opt %s -p print-alias | filecheck %s

// Arguments in one storage, windows on them, fresh results and constants.
// CHECK-LABEL: func.func @main
// CHECK-SAME: alias.location = "root 0 [0, 64)"
// CHECK-SAME: alias.location = "root 0 [16, 32)"
// CHECK-SAME: alias.location = "root 1 [0, 8)"
func.func @main(%x: memref<4x4xf32> {alias.root = #alias.root<0, 64 bytes>},
                %row: memref<4xf32, strided<[1], offset: 4>> {alias.root = #alias.root<0, 64 bytes>},
                %i: memref<1xi64> {alias.root = #alias.root<1, 8 bytes>}) -> memref<4xf32> {
  // CHECK: "aten.select.int"{{.*}}alias.location = "root 0 [4, 56) sizes [4] strides [16]"
  %column = fx.call "aten.select.int"(%x, 1, 1) effects<> results<view 0>
    : (memref<4x4xf32>) -> memref<4xf32, strided<[4], offset: 1>>
  // CHECK: "aten.t.default"{{.*}}alias.location = "root 0 [0, 64)"
  %t = fx.call "aten.t.default"(%x) effects<> results<view 0> : (memref<4x4xf32>) -> memref<4x4xf32, strided<[1, 4]>>
  // CHECK: "aten.add_.Tensor"{{.*}}alias.location = "root 0 [4, 56) sizes [4] strides [16]"
  %w = fx.call "aten.add_.Tensor"(%column, %row) effects<read 0, write 0, read 1> results<same 0>
    : (memref<4xf32, strided<[4], offset: 1>>, memref<4xf32, strided<[1], offset: 4>>) -> memref<4xf32, strided<[4], offset: 1>>
  // CHECK: "aten.clone.default"{{.*}}alias.location = "fresh 0 [0, 16)"
  %c = fx.call "aten.clone.default"(%w) effects<read 0> results<fresh>
    : (memref<4xf32, strided<[4], offset: 1>>) -> memref<4xf32>
  // CHECK: fx.constant{{.*}}alias.location = "constant 1 [0, 8)"
  %k = fx.constant dense<[1.0, 2.0]> : tensor<2xf32> {} : memref<2xf32>
  func.return %c : memref<4xf32>
}
