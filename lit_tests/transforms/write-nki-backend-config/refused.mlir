// RUN: %opt %s -p 'write-nki-backend-config{compiler="kernel_compiler:stand_in"}' --split-input-file --verify-diagnostics
// RUN: not %opt %s -p 'write-nki-backend-config' 2>&1 | filecheck %s --check-prefix NONE
// RUN: not %opt %s -p 'write-nki-backend-config{compiler="kernel_compiler:nobody"}' 2>&1 | filecheck %s --check-prefix NOBODY

// NONE: kernel 5 could not be written: it has none yet, and no kernel compiler was given
// NOBODY: compiler: 'kernel_compiler:nobody' cannot be loaded
func.func @fails(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{the backend configuration of kernel 5 could not be written: RuntimeError: out of registers}}
  %0 = nki.call "higher_order.k"(%c) kernel 5 grid<1> config "" stored<> effects<unknown> results<may> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @object(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{an argument is a Python object of type Config, which the IR only names}}
  %0 = nki.call "higher_order.k"(%c, @"object:Config") kernel 3 grid<1> config "" stored<> effects<unknown> results<may> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @in_a_list(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{result 0 is the new value of a tensor inside a list}}
  %0 = nki.call "higher_order.k"([%c]) kernel 3 grid<1> config "" stored<> effects<unknown> results<may> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @window(%c: memref<4xf32, strided<[2]>>) -> memref<4xf32> {
  // expected-error@+1 {{result 0 lives in operand 0, a tensor of type memref<4xf32, strided<[2]>>, and was imported as fresh memory}}
  %0 = nki.call "higher_order.k"(%c) kernel 3 grid<1> config "" stored<> effects<unknown> results<may> : (memref<4xf32, strided<[2]>>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
