// RUN: %opt %s -p eliminate-clones --remarks=text 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: %opt %s -p eliminate-clones --remarks=json 2>&1 | filecheck %s --check-prefix=JSON
// RUN: %opt %s -p eliminate-clones --remarks=yaml 2>&1 | filecheck %s --check-prefix=YAML

// TEXT: aten.clone.default (clone) at model.py:3 stays (16 bytes): aten.sum.default (sum_1) at model.py:5 would read what aten.add_.Scalar (add_) at model.py:4 wrote
// JSON: "operator": "aten.clone.default",
// JSON-NEXT: "node": "clone",
// JSON-NEXT: "source": "model.py:3"
// JSON: "bytes": 16,
// YAML: - site:
// YAML-NEXT: operator: "aten.clone.default"
// YAML: bytes: 16
// YAML-NEXT: reason: "aten.sum.default (sum_1) at model.py:5 would read what
func.func @main(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) -> memref<f32> {
  %y = fx.call "aten.sin.default"(%x) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32>
  %c = fx.call "aten.clone.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<4xf32> loc("clone"("model.py":3:0))
  %a = fx.call "aten.add_.Scalar"(%c, 1) effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32> loc("add_"("model.py":4:0))
  %s = fx.call "aten.sum.default"(%y) effects<read 0> results<fresh> : (memref<4xf32>) -> memref<f32> loc("sum_1"("model.py":5:0))
  func.return %s : memref<f32>
}
