// RUN: %opt %s --split-input-file --verify-diagnostics

// Every way to say where an error is expected.

fx.constant dense<1.0> : tensor<f32> : f32 // expected-error {{a constant is}}
// -----
fx.constant dense<1.0> : tensor<f32> : f32
// expected-error @-1 {{a constant is}}
// -----
fx.constant dense<1.0> : tensor<f32> : f32
// expected-error @above {{a constant is}}
// -----
// expected-error @+1 {{a constant is}}
fx.constant dense<1.0> : tensor<f32> : f32
// -----
// An operation that says where it comes from is reported there, which is no line of this file.
// expected-error @unknown {{a constant is}}
fx.constant dense<1.0> : tensor<f32> : f32 loc("model.py":3:0)
// -----
// expected-error-re @below {{not f[0-9]+}}
fx.constant dense<1.0> : tensor<f32> : f32
