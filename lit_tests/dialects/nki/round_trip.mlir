// RUN: %opt %s > %t.pretty && %opt %s --print-op-generic > %t.generic
// RUN: %opt %t.generic > %t.again && diff %t.pretty %t.again
// RUN: %opt %t.pretty --print-op-generic > %t.again && diff %t.generic %t.again
// RUN: filecheck %s < %t.pretty

// CHECK-LABEL: func.func @handles
// CHECK: nki.call "higher_order.nki_kernel_wrapper"(2.0, %c, [%k, %v], @"object:Config", mode = "fast") kernel 3 grid<2, 1>
// CHECK-SAME: config "eyJrIjogMX0=" stored<1 = 0> names ["scale", "cache", "kv", "config"] constants -1 has_collectives
// CHECK-SAME: effects<read 0, write 0, read 1, read 2> results<same 0> value<"higher_order.nki_kernel_wrapper" [write 0]>
// CHECK: nki.call "higher_order.tile_call"(%c) kernel 0 grid<> config "" stored<> effects<unknown> results<may> {note = "kept"}
func.func @handles(%c: memref<8x4xf32>, %k: memref<2x4xf32>, %v: memref<2x4xf32>) -> (memref<8x4xf32>) {
  %0 = nki.call "higher_order.nki_kernel_wrapper"(2.0, %c, [%k, %v], @"object:Config", mode = "fast") kernel 3 grid<2, 1>
         config "eyJrIjogMX0=" stored<1 = 0> names ["scale", "cache", "kv", "config"] constants -1 has_collectives
         effects<read 0, write 0, read 1, read 2> results<same 0> value<"higher_order.nki_kernel_wrapper" [write 0]>
         : (memref<8x4xf32>, memref<2x4xf32>, memref<2x4xf32>) -> memref<8x4xf32>
  %1 = nki.call "higher_order.tile_call"(%c) kernel 0 grid<> config "" stored<> effects<unknown> results<may> {note = "kept"}
         : (memref<8x4xf32>) -> memref<f32>
  func.return %0 : memref<8x4xf32>
}

// CHECK-LABEL: func.func @values
// CHECK: nki.value_call "higher_order.nki_kernel_wrapper"(%a, %b) kernel 1 grid<1> config "e30=" stored<0 = 1, 1 = 0>
// CHECK-SAME: : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @values(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0, %1 = nki.value_call "higher_order.nki_kernel_wrapper"(%a, %b) kernel 1 grid<1> config "e30=" stored<0 = 1, 1 = 0>
         : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
