// RUN: %opt %s -t aliases-json | filecheck %s

// CHECK:      "name": "kv"
// CHECK-NEXT: "kind": "buffer"
// CHECK-NEXT: "parameter": 0
// CHECK-NEXT: "written": true
// CHECK:      "element": "f32"
// CHECK:      "name": "unused"
// CHECK:      "parameter": null
// CHECK:      "alias_table": [
// CHECK:      "output": 0
// CHECK-NEXT: "parameter": 0
// CHECK:      "kind": "argument_view"
// CHECK:      "offset": 4
func.func @main(%kv: tensor<8xf32>) -> tensor<8xf32> attributes {
    alias.bindings = #alias.bindings<"kv" buffer in 0 "f32" [8] strides [1] written, "unused" input unused "i64" [] strides []>,
    alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<argument_view 0 "f32" [4] strides [1] offset 4>} {
  %0 = fx.value_call "aten.neg.default"(%kv) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0 : tensor<8xf32>
}
