// RUN: not %opt %s -p 'rewrite-devices{target="a b"}' 2>&1 | filecheck %s
// RUN: not %opt %s -p 'rewrite-devices{target="xla:one"}' 2>&1 | filecheck %s --check-prefix INDEX

// CHECK: error: 'a b' is no device
// INDEX: error: 'xla:one' is no device
func.func @main() {
  func.return
}
