// RUN: %opt %s -p 'rewrite-devices{target=xla}' | filecheck %s
// RUN: %opt %s -p 'rewrite-devices{target="neuron:1"}' | filecheck %s --check-prefix OTHER

// Keyword and positional devices, in lists and in kernel arguments; what names no device stays.
// CHECK: builtin.module attributes {rewrite_count = 6 : i64}
// CHECK-LABEL: func.func @main
// CHECK: "aten.zeros.default"([4], dtype = f32, device = @"device:xla:0")
// CHECK: "aten._to_copy.default"(%x, dtype = bf16)
// CHECK: "aten.to.device"(%x, @"device:xla:0", f32)
// CHECK: "own.op.default"(%x, [@"device:xla:0", 2, [@"device:xla:0"]], memory_format = @"memory_format:channels_last")
// CHECK: nki.call "higher_order.k"(%x, @"device:xla:0")
// CHECK: "aten.zeros.default"([4], device = @"device:xla:0")
// CHECK-NOT: cuda
// OTHER: rewrite_count = 6
// OTHER: device = @"device:neuron:0"
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> memref<4xf32> {
  %0 = fx.call "aten.zeros.default"([4], dtype = f32, device = @"device:cuda:1") effects<> results<fresh> : () -> memref<4xf32>
  %1 = fx.call "aten._to_copy.default"(%x, dtype = bf16) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xbf16>
  %2 = fx.call "aten.to.device"(%x, @"device:cpu", f32) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %3 = fx.call "own.op.default"(%x, [@"device:cuda", 2, [@"device:cuda:3"]], memory_format = @"memory_format:channels_last") effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %4 = nki.call "higher_order.k"(%x, @"device:cuda") kernel 0 grid<1> config "e30=" stored<> effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  // A device that is the target already counts.
  %5 = fx.call "aten.zeros.default"([4], device = @"device:xla:0") effects<> results<fresh> : () -> memref<4xf32>
  func.return %4 : memref<4xf32>
}
