"""The verifier on IR that no text can express: broken pointers, stale uses, removed definitions."""

from __future__ import annotations

import sys

import pytest
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region

from compiler.errors import CompileError
from compiler.ir_text import make_context, parse
from compiler.verify import verify
from dialects.fx import EmptyOp, Operand, ValueCallOp
from dialects.types import handle_type, value_type

TEXT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.value_call "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.add.Tensor"(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""


@pytest.fixture
def module() -> ModuleOp:
    found = parse(TEXT, "f.mlir")
    verify(found)
    return found


def body(module: ModuleOp) -> list[Operation]:
    [function] = module.body.block.ops
    assert isinstance(function, FuncOp)
    return list(function.body.block.ops)


def refused(module: ModuleOp) -> str:
    with pytest.raises(CompileError) as caught:
        verify(module)
    return str(caught.value)


def test_moved_before_its_operand(module: ModuleOp) -> None:
    negate, add, _ = body(module)
    block = negate.parent
    assert block is not None
    negate.detach()
    block.insert_op_after(negate, add)
    assert refused(module) == "f.mlir:4:3: `fx.value_call`: operand 0 is defined after its use"


def test_removed_definition(module: ModuleOp) -> None:
    negate, *_ = body(module)
    negate.detach()
    assert "operand 0 is the result of `fx.value_call`, which has been removed" in refused(module)


def test_value_of_another_region() -> None:
    text = '"test.a"() ({\n  %0 = "test.b"() : () -> i32\n}) : () -> ()\n"test.c"() ({\n  "test.d"() : () -> ()\n}) : () -> ()'
    module = parse(text, "f.mlir", make_context(allow_unregistered=True))
    verify(module)
    first, second = module.body.block.ops
    [inner] = first.regions[0].block.ops
    [other] = second.regions[0].block.ops
    other.operands = inner.results
    assert "operand 0 is not defined in this scope" in refused(module)


def test_a_region_does_not_leak_into_what_follows() -> None:
    text = '"test.a"() ({\n  %0 = "test.b"() : () -> i32\n}) : () -> ()\n"test.d"() : () -> ()'
    module = parse(text, "f.mlir", make_context(allow_unregistered=True))
    first, second = module.body.block.ops
    [inner] = first.regions[0].block.ops
    second.operands = inner.results
    assert "operand 0 is not defined in this scope" in refused(module)


def test_use_by_a_detached_operation(module: ModuleOp) -> None:
    negate, *_ = body(module)
    negate.clone()  # its operand lists the clone as a use
    assert "a result is used by `fx.value_call`, which is in no block" in refused(module)


def test_use_list_that_forgot_a_use(module: ModuleOp) -> None:
    negate, *_ = body(module)
    negate.results[0].first_use = None
    assert "a value lists 0 uses, but 1 operands name it" in refused(module)


def test_operand_changed_behind_the_use_list(module: ModuleOp) -> None:
    negate, add, _ = body(module)
    before = add._operands
    add._operands = type(before)((before[1], before[1]))
    assert "a value lists 2 uses, but 3 operands name it" in refused(module)
    add._operands = type(before)((before[1], before[0]))
    assert "operand 1 lists a use that is not there" in refused(module)


def test_parent_pointers(module: ModuleOp) -> None:
    negate, add, _ = body(module)
    add.parent = None
    assert "does not point back to its block" in refused(module)


def test_block_and_region_pointers(module: ModuleOp) -> None:
    [function] = module.body.block.ops
    region = function.regions[0]
    region.block.parent = None
    assert "a block does not point back to its region" in refused(module)
    region.block.parent = region
    region.parent = module
    assert "a region does not point back to the operation" in refused(module)


def test_empty_block(module: ModuleOp) -> None:
    [function] = module.body.block.ops
    block = function.regions[0].block
    for op in reversed(list(block.ops)):
        block.erase_op(op)
    assert "a block without operations" in refused(module)


def test_result_type_is_checked(module: ModuleOp) -> None:
    negate, *_ = body(module)
    block = negate.parent
    assert block is not None
    block.insert_op_before(EmptyOp.create(result_types=[handle_type("f32", (4,), (1,))]), negate)
    assert "`fx.empty`" in refused(module)


def chain(length: int) -> ModuleOp:
    """A function of `length` calls in a row."""
    kind = value_type("f32", (4,))
    block = Block(arg_types=[kind])
    properties = {"target": StringAttr("aten.neg.default"), "arguments": ArrayAttr([Operand(0)])}
    value = block.args[0]
    for _ in range(length):
        op = ValueCallOp.create(operands=[value], result_types=[kind], properties=dict(properties))
        block.add_op(op)
        value = op.results[0]
    block.add_op(ReturnOp(value))
    return ModuleOp([FuncOp("f", FunctionType.from_lists([kind], [kind]), Region(block))])


def test_work_grows_with_the_program() -> None:
    """As many Python calls an operation in a long program as in a short one."""

    def work(length: int) -> float:
        module, calls = chain(length), 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            verify(module)
        finally:
            sys.setprofile(None)
        return calls / length

    assert work(8000) < 1.1 * work(1000)


def test_nesting_is_an_error_not_a_crash() -> None:
    depth = 5000
    op = ModuleOp([])
    for _ in range(depth):
        op = ModuleOp([op])
    assert "nested too deeply" in refused(op)
