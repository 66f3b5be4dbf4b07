// RUN: %opt %s --split-input-file --verify-diagnostics

func.func @scalar(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{result 0 is stored in argument 0, which is no tensor: positions count all arguments}}
  %0 = nki.call "higher_order.k"(2, %c) kernel 0 grid<1> config "e30=" stored<0 = 0> effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @in_a_list(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{result 0 is stored in argument 0, which is no tensor}}
  %0 = nki.call "higher_order.k"([%c]) kernel 0 grid<1> config "e30=" stored<0 = 0> effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @no_such_result(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{argument 0 stores result 1, but there are 1}}
  %0 = nki.call "higher_order.k"(%c) kernel 0 grid<1> config "e30=" stored<0 = 1> effects<read 0, write 0> results<same 0> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @one_result_twice(%c: tensor<4xf32>, %d: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{an argument stores one result, and a result is stored in one argument}}
  %0 = nki.value_call "higher_order.k"(%c, %d) kernel 0 grid<1> config "e30=" stored<0 = 0, 1 = 0> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @shapes(%c: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{result 0 has type tensor<2xf32>, operand 0 that it is the new value of tensor<4xf32>}}
  %0 = nki.value_call "higher_order.k"(%c) kernel 0 grid<1> config "e30=" stored<0 = 0> : (tensor<4xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}

// -----

func.func @other_write(%c: memref<4xf32>, %d: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{a kernel writes the operands that its results are stored in, and no others}}
  %0 = nki.call "higher_order.k"(%c, %d) kernel 0 grid<1> config "e30=" stored<0 = 0> effects<read 0, read 1, write 1> results<same 0> : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @compiled_but_unknown(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{a compiled kernel says what it writes}}
  %0 = nki.call "higher_order.k"(%c) kernel 0 grid<1> config "e30=" stored<> effects<unknown> results<may> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}

// -----

func.func @no_instances(%c: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{the grid [2, 0] has a dimension without instances}}
  %0 = nki.value_call "higher_order.k"(%c) kernel 0 grid<2, 0> config "e30=" stored<> : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @operand_in_settings(%c: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{the operands of a kernel are among its arguments}}
  %0 = nki.value_call "higher_order.k"(x = %c) kernel 0 grid<1> config "e30=" stored<> : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @value_on_memory(%c: memref<4xf32>) -> memref<4xf32> {
  // expected-error@+1 {{a value call takes and gives values, not memory}}
  %0 = nki.value_call "higher_order.k"(%c) kernel 0 grid<1> config "e30=" stored<> : (memref<4xf32>) -> memref<4xf32>
  func.return %0 : memref<4xf32>
}
