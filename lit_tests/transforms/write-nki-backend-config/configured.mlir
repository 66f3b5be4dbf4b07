// RUN: %opt %s -p 'write-nki-backend-config{compiler="kernel_compiler:stand_in"}' | filecheck %s
// RUN: %opt %s -p 'write-nki-backend-config{compiler="kernel_compiler:stand_in"},in-place-to-out-of-place' | filecheck %s --check-prefix VALUES

// Positions count all arguments, the kernel compiler's operands only tensors. What is written is known afterwards.
// CHECK: builtin.module attributes {kernel_call_count = 3 : i64}
// CHECK: %0 = nki.call "higher_order.k"(2.0, %c, [%v]) kernel 3 grid<2> config "eyJrZXJuZWwiOiAzLCAiZ3JpZCI6IFsyXSwgImZvciI6ICJmMzJbNF0iLCAiaGFzX2NvbGxlY3RpdmVzIjogdHJ1ZX0="
// CHECK-SAME: stored<1 = 0> has_collectives effects<read 0, write 0, read 1> results<same 0> value<"higher_order.k" [write 0]>
// CHECK: %1, %2 = nki.call "higher_order.k"(%0, %v) kernel 4 grid<1>
// CHECK-SAME: stored<> has_collectives effects<read 0, read 1> results<fresh, fresh>
// CHECK: %3 = nki.call "higher_order.k"(3.0, %c, [%v]) kernel 3 grid<2>
// CHECK-SAME: effects<read 0, write 0, read 1>

// VALUES: %2 = nki.value_call "higher_order.k"(2.0, %0, [%1])
// VALUES: %3, %4 = nki.value_call "higher_order.k"(%2, %1)
// VALUES: %5 = nki.value_call "higher_order.k"(3.0, %2, [%1])
// VALUES: func.return %3, %5
func.func @main(%c: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>, fx.name = "c"}, %v: memref<4xf32> {alias.root = #alias.root<1, 16 bytes>, fx.name = "v"}) -> memref<4xf32> {
  %0 = nki.call "higher_order.k"(2.0, %c, [%v]) kernel 3 grid<2> config "" stored<> effects<unknown> results<may> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  %1, %2 = nki.call "higher_order.k"(%0, %v) kernel 4 grid<1> config "" stored<> effects<unknown> results<may, may> : (memref<4xf32>, memref<4xf32>) -> (memref<4xf32>, memref<f32>)
  %3 = nki.call "higher_order.k"(3.0, %c, [%v]) kernel 3 grid<2> config "" stored<> effects<unknown> results<may> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return %1 : memref<4xf32>
}
