// RUN: not %opt %s --verify-diagnostics 2>&1 | filecheck %s

// Expectations that nothing meets, and errors that nobody expects, are failures.

// CHECK:      diagnostics.mlir:15: error: malformed expectation
// CHECK-NEXT: diagnostics.mlir:16: error: bad regular expression
// CHECK-NEXT: diagnostics.mlir:18: error: unexpected error: {{.*}}diagnostics.mlir:18:3: error: `fx.constant`: a constant is a memref or a tensor, not f32
// CHECK-NEXT: diagnostics.mlir:12: error: expected error "something else" at line 18 was not produced
// CHECK-NEXT: diagnostics.mlir:13: error: expected error "a constant is" at line 14 was not produced
// CHECK-NEXT: diagnostics.mlir:14: error: expected warning "a constant is" at line 17 was not produced
func.func @f() {
  // expected-error @+6 {{something else}}
  // expected-error @+1 {{a constant is}}
  // expected-warning @below {{a constant is}}
  // expected-error {a constant is}
  // expected-error-re @below {{(}}

  %0 = fx.constant dense<1.0> : tensor<f32> : f32
  func.return
}
