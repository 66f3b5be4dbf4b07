"""Runs an imported program op by op in eager PyTorch, and checks every claim of the IR on the way.

For each call: results have the geometry of their types and the memory that `results<...>` says, and no byte changes
outside the operands that `effects<...>` declares written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import ReturnOp

from compiler.program import Program
from compiler.torch_types import DTYPES, overload, python_argument
from dialects.fx import CallOp, ConstantOp
from dialects.types import element_name, geometry, lazy_bits


def replay(program: Program, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """The program's result on real tensors; state is written in place."""
    leaves = pytree.tree_leaves((args, kwargs or {}))
    given = {leaf.index: value for leaf, value in zip(program.in_leaves, leaves, strict=True) if leaf.is_tensor}
    actual = [
        given[i] if argument.kind == "input" else program.state[argument.name]
        for i, argument in enumerate(program.arguments)
    ]
    results = run(program, actual)
    out = [results[leaf.index] if leaf.is_tensor else leaf.constant for leaf in program.out_leaves]
    return pytree.tree_unflatten(out, program.out_tree)


def run(program: Program, actual: list[torch.Tensor]) -> list[torch.Tensor]:
    """All results of the IR function, rebound tensors included."""
    block = next(iter(program.module.body.block.ops)).regions[0].block
    tensors: dict[Any, torch.Tensor] = {}
    bases: dict[Any, int] = {}
    for value, attributes, tensor in zip(block.args, _argument_attributes(program), actual, strict=True):
        tensors[value] = tensor
        offset = geometry(value.type).offset  # type: ignore[arg-type]
        base = (tensor.storage_offset() - offset) * tensor.element_size()
        assert base % 16 == 0 and base >= 0, "a root starts at a multiple of 16 bytes"
        bases[value] = base
        _check_geometry(value.type, tensor, base)
        low, high = base, base + attributes["alias.root"].data.bytes
        assert tensor.numel() == 0 or low <= tensor.storage_offset() * tensor.element_size() < high
    with torch.no_grad():
        for op in block.ops:
            if isinstance(op, CallOp):
                _call(op, tensors, bases)
            elif isinstance(op, ConstantOp):
                tensors[op.value], bases[op.value] = _constant(op), 0
            else:
                assert isinstance(op, ReturnOp), op.name
                return [tensors[v] for v in op.operands]
    raise AssertionError("no return")


def _argument_attributes(program: Program) -> list[dict[str, Any]]:
    function = next(iter(program.module.body.block.ops))
    return [attributes.data for attributes in function.properties["arg_attrs"].data]  # type: ignore[attr-defined]


def _call(op: CallOp, tensors: dict[Any, torch.Tensor], bases: dict[Any, int]) -> None:
    operands = [tensors[v] for v in op.args]
    positional = [python_argument(a, operands) for a in op.arguments.data]
    keywords = {k: python_argument(a, operands) for k, a in (op.keywords.data if op.keywords else {}).items()}
    before = {_storage(t): _bytes(t) for t in operands}
    out = overload(op.target.data)(*positional, **keywords)
    results = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
    assert len(results) == len(op.outs), f"{op.target.data}: {len(results)} results"
    for value, alias, tensor in zip(op.outs, op.aliases.data, results, strict=True):
        if alias.kind == "fresh":
            assert tensor.numel() == 0 or _storage(tensor) not in before, f"{op.target.data}: not fresh"
            base = 0
        else:
            assert _storage(tensor) == _storage(operands[alias.operand]), f"{op.target.data}: another memory"
            base = bases[op.args[alias.operand]]
        _check_geometry(value.type, tensor, base)
        tensors[value], bases[value] = tensor, base
    writes = {_storage(operands[i]) for i in op.effects.writes() or ()}
    for tensor in operands:
        if _storage(tensor) not in writes:
            assert torch.equal(before[_storage(tensor)], _bytes(tensor)), f"{op.target.data} writes undeclared"


def _check_geometry(kind: Any, tensor: torch.Tensor, base: int) -> None:
    assert isinstance(kind, MemRefType)
    window = geometry(kind)
    assert DTYPES[element_name(kind.element_type)] == tensor.dtype
    assert window.sizes == tuple(tensor.shape), (kind, tensor.shape)
    assert window.strides == tensor.stride(), (kind, tensor.stride())
    assert window.offset == tensor.storage_offset() - base // tensor.element_size(), (kind, tensor.storage_offset())
    assert lazy_bits(kind) == ",".join(n for n, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),)).clone()


def _constant(op: ConstantOp) -> torch.Tensor:
    kind = op.value.type
    assert isinstance(kind, MemRefType)
    dtype = DTYPES[element_name(kind.element_type)]
    raw = torch.frombuffer(bytearray(op.data.data.data or b"\0"), dtype=torch.uint8)[: len(op.data.data.data)]
    flat = raw.ne(0) if dtype == torch.bool else raw.clone().view(dtype)
    return flat.reshape(kind.get_shape())
