// RUN: not %opt %s 2>&1 | filecheck %s

// One line, with the position and without the module. The user's source line wins over the text's.

// CHECK: model.py:7:4: error: `fx.call`: 0 result aliases for 1 results (node neg_1)
// CHECK-NOT: {{.}}
func.func @f(%x: memref<4xf32>) {
  %0 = fx.call "aten.neg.default"(%x) effects<read 0> results<> : (memref<4xf32>) -> memref<4xf32> loc("neg_1"("model.py":7:4))
  func.return
}
