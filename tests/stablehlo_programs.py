"""Hand-written StableHLO and the signatures that go with it, for tests of everything after the lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxlib.mlir import ir
from torch.utils import _pytree as pytree

from compiler.export.hlo import to_hlo
from compiler.export.signature import Alias, Binding, OutputSource, Signature, TensorType, Window
from compiler.lowering.builder import make_context
from compiler.program import Leaf
from compiler.runtime.executable import Executable


def contiguous(*sizes: int, offset: int = 0) -> Window:
    """A row-major window."""
    return Window(sizes, torch.empty(sizes, device="meta").stride(), offset)


def stablehlo(
    inputs: Sequence[TensorType], outputs: Sequence[TensorType], body: str, aliases: Sequence[Alias] = ()
) -> str:
    """A module whose `main` takes %0, %1, ... and has this body."""

    def text(kind: TensorType) -> str:
        return f"tensor<{''.join(f'{n}x' for n in kind.shape)}{kind.element}>"

    entries = ", ".join(
        f'{{alias = {{kind = "must_alias", parameter_index = array<i64>, parameter_number = {a.parameter} : i64}}, '
        f"output_index = array<i64{f': {a.output}' if len(outputs) != 1 else ''}>}}"
        for a in aliases
    )
    parameters = ", ".join(f"%{n}: {text(kind)}" for n, kind in enumerate(inputs))
    results = ", ".join(map(text, outputs))
    return (
        f"module @test attributes {{mhlo.input_output_alias = [{entries}]}} {{\n"
        f"func.func public @main({parameters}) -> ({results}) {{\n{body}\n}}\n}}\n"
    )


def export(text: str) -> bytes:
    """HLO bytes of StableHLO text."""
    with make_context(), ir.Location.unknown():
        return to_hlo(ir.Module.parse(text))


def leaves_of(values: Any, index: Callable[[torch.Tensor], int]) -> tuple[pytree.TreeSpec, tuple[Leaf, ...]]:
    """Tree and leaves of example values; `index` numbers the tensors."""
    flat, tree = pytree.tree_flatten(values)
    return tree, tuple(Leaf(index(v)) if isinstance(v, torch.Tensor) else Leaf(constant=v) for v in flat)


def signature(
    bindings: Sequence[Binding],
    plan: Sequence[OutputSource],
    parameters: Sequence[TensorType],
    results: Sequence[TensorType],
    aliases: Sequence[Alias] = (),
    out_tree: Any = None,
    **more: Any,
) -> Signature:
    """A signature whose inputs are positional and whose outputs are a tuple (or one tensor)."""
    inputs = [i for i, b in enumerate(bindings) if b.kind == "input"]
    skeleton = out_tree if out_tree is not None else (tuple(range(len(plan))) if len(plan) != 1 else 0)
    return Signature(
        bindings=tuple(bindings),
        aliases=tuple(aliases),
        plan=tuple(plan),
        parameters=tuple(parameters),
        results=tuple(results),
        in_tree=pytree.tree_structure((tuple(inputs), {})),
        in_leaves=tuple(Leaf(i) for i in inputs),
        out_tree=pytree.tree_structure(skeleton),
        out_leaves=tuple(Leaf(i) for i in range(len(plan))),
        **more,
    )


def executable(s: Signature, body: str, **more: Any) -> Executable:
    """The program with this signature and StableHLO body."""
    text = stablehlo(s.parameters, s.results, body, s.aliases)
    return Executable(s, export(text), text, **more)


def cache_step(**more: Any) -> Executable:
    """f(x, kv): kv.add_(x); return x * 2 -- the example of an extended output."""
    kind = TensorType("f32", (4, 8))
    window = contiguous(4, 8)
    s = signature(
        [Binding("x", "input", 0, "f32", window), Binding("kv_cache", "input", 1, "f32", window, written=True)],
        [OutputSource("result", 0, "f32", window)],
        [kind, kind],
        [kind, kind],
        [Alias(1, 1)],
    )
    body = """
    %two = stablehlo.constant dense<2.0> : tensor<4x8xf32>
    %double = stablehlo.multiply %0, %two : tensor<4x8xf32>
    %sum = stablehlo.add %1, %0 : tensor<4x8xf32>
    return %double, %sum : tensor<4x8xf32>, tensor<4x8xf32>"""
    return executable(s, body, **more)


def aligned(*sizes: int, dtype: torch.dtype = torch.float32, shift: int = 0) -> torch.Tensor:
    """A zero tensor whose memory begins `shift` bytes after a multiple of 64."""
    count = int(torch.Size(sizes).numel()) * dtype.itemsize
    memory = torch.zeros(count + 128 + shift, dtype=torch.uint8)
    start = -memory.data_ptr() % 64 + shift
    return memory[start : start + count].view(dtype).view(sizes)
