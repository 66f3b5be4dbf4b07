"""Every call of a program by itself, on operands at which rules go wrong: ties, zeros of both signs, NaN, infinities, what is
negative and what is large.

What a program is run on reaches few of its calls with such values, and only one branch of a conditional at a time. So its
calls and conditionals, each kind once, become a program of their own, whose arguments are their operands. Left out are
operators that are not PyTorch's own, those that take no operands made up (factors of matrices), and large ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from compiler.torch_types import DTYPES, overload
from compiler.validation.inputs import Arguments
from compiler.validation.observe import Observation, observe
from dialects.calls import ValueCall
from dialects.control import ValueCondOp
from dialects.types import element_name

MOST_ELEMENTS = 1 << 16
"""Of the operands and results of one call."""

_OWN = ("aten", "prims", "fx2hlo")
_STRUCTURED = (
    *(
        "linalg_",
        "cholesky",
        "lu_",
        "triangular_solve",
        "geqrf",
        "ormqr",
        "orgqr",
        "fft_",
        "logspace",
        "fractional_max_pool",
    ),
    *("special_", "i0", "lgamma", "mvlgamma", "polygamma", "mode", "unsafe_masked_index"),
)
"""Beginnings of the names of operators on matrices that have factors, on whole spectra, on ends of a range, on fractions; of
functions that are series, with as many answers at their zeros and infinities; of what has no answer for NaN."""

_CHECKED = frozenset(
    {"index", "index_put", "index_fill", "index_select", "index_add", "index_copy", "index_reduce", "gather", "scatter"}
    | {"scatter_add", "scatter_reduce", "take", "embedding", "embedding_dense_backward"}
)
"""Operators that look whether positions are inside. Others write where they are told, so they are given none made up."""

_SORTED = ("searchsorted", "bucketize")
"""Operators that take what is in order."""


def calls_of(module: ModuleOp) -> tuple[ModuleOp, list[Arguments]] | None:
    """The program of all calls, and the arguments to run it on; None where there is nothing to run."""
    chosen: list[Operation] = []
    rounds: list[Arguments] = [[] for _ in _ROUNDS]
    for op in _distinct(module):
        if operands := _operands(op):
            chosen.append(op)
            for arguments, own in zip(rounds, operands, strict=True):
                arguments += own
    return (_program(chosen), rounds) if chosen else None


def _distinct(module: ModuleOp) -> Iterator[Operation]:
    """One of each kind of call and every conditional, those in regions included."""
    met: set[Any] = set()
    for op in module.walk():
        types = tuple(value.type for value in (*op.operands, *op.results))
        if isinstance(op, ValueCondOp) and _small(types):
            yield op
        elif isinstance(op, ValueCall) and op.results and op.writes is None:
            key = (type(op), op.target, op.arguments, *op.settings().items(), types)
            if key not in met and _suitable(op) and _small(types):
                met.add(key)
                yield op


def _small(types: Sequence[Attribute]) -> bool:
    return sum(math.prod(cast("TensorType[Attribute]", kind).get_shape()) for kind in types) <= MOST_ELEMENTS


def _suitable(op: ValueCall) -> bool:
    namespace, name, *_ = op.target.data.split(".")
    tags = _tags(op)
    structured = name.lstrip("_").startswith(_STRUCTURED) and torch.Tag.reduction not in tags
    positions = any(_dtype(v.type) in _INTEGERS for v in op.operands) and any(_wide(v.type) for v in op.operands)
    safe = not positions or name in _CHECKED or torch.Tag.pointwise in tags or name in _SORTED
    return namespace in _OWN and not structured and safe


def _tags(op: Operation) -> Sequence[torch.Tag]:
    operator = overload(op.target.data) if isinstance(op, ValueCall) else None
    return operator.tags if isinstance(operator, torch._ops.OpOverload) else ()


def _program(ops: Sequence[Operation]) -> ModuleOp:
    """A function that does each of these operations on arguments of its own and returns all results."""
    block = Block(arg_types=[value.type for op in ops for value in op.operands])
    places = iter(block.args)
    results: list[SSAValue] = []
    for op in ops:
        copy = op.clone()
        copy.operands = [next(places) for _ in op.operands]
        block.add_op(copy)
        results += copy.results
    block.add_op(ReturnOp.create(operands=results))
    return ModuleOp([FuncOp("main", ([a.type for a in block.args], [v.type for v in results]), Region(block))])


def otherwise_laid_out(program: ModuleOp, arguments: Arguments) -> Iterator[Observation]:
    """What the calls do on operands with gaps: kernels that go by vectors may give infinities another meaning."""
    with suppress(Exception):  # a kernel that takes what is contiguous
        yield observe(program, [torch.stack([x, x], -1)[..., 0] for x in arguments])


# -- operands ------------------------------------------------------------------------------------

_ROUNDS = ("ties", "ties", "special", "special", "special", "large", "fractions")
"""Kinds of floats. Rounds of one kind go on in its table of elements where the one before ended."""


class _Elements(NamedTuple):
    """What the elements of operands are taken from."""

    floats: tuple[float, ...]
    integers: tuple[int, ...]


_NAN, _INF = float("nan"), float("inf")
_TIES = (-2.5, -1.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 1.5, 2.5)
_FRACTIONS = (0.0, 0.125, 0.25, 0.5, 0.75, 0.875)
_LARGE = (-300.0, -120.5, -90.0, -30.0, -3.0, 0.0, 0.5, 3.0, 30.0, 90.0, 120.5, 300.0)
_ORDINARY = (-0.0, 0.0, -1.5, -0.75, -0.25, 0.25, 0.5, 0.75, 1.25, 1.75)
_NUMBERS = (1, 2, 3, 5, 7, 100, -1, -1, -2, -3, -7, -100)


def _operands(op: Operation) -> list[Arguments]:
    """Operands for each round that the operation takes in eager PyTorch; none if it takes none at all."""
    alone = _program([op])
    found = [next(_accepted(op, alone, number), None) for number in range(len(_ROUNDS))]
    known = next((operands for operands in found if operands is not None), None)
    return [operands or known for operands in found] if known is not None else []


def _accepted(op: Operation, alone: ModuleOp, number: int) -> Iterator[Arguments]:
    for attempt in _attempts(op, number):
        again = _ROUNDS[:number].count(_ROUNDS[number])
        operands = [_tensor(value.type, attempt, n, again) for n, value in enumerate(op.operands)]
        if isinstance(op, ValueCondOp):
            operands[0].fill_(number % 2 == 0)
        if isinstance(op, ValueCall) and op.target.data.split(".")[1] in _SORTED:
            operands = [x.sort(-1)[0] if x.dim() else x for x in operands]
        try:
            observe(alone, operands)
        except Exception:  # an index out of range, a probability above one, a division by zero
            continue
        yield operands


def _attempts(op: Operation, number: int) -> Iterator[_Elements]:
    """What operands are made of in a round, the boldest first. Integers beside floats may be positions: they stay small,
    unless elements are treated one by one."""
    tags, dtypes = _tags(op), [_dtype(value.type) for value in op.operands]
    pointwise, reduction = torch.Tag.pointwise in tags, torch.Tag.reduction in tags and len(op.results) == 1
    wide = [d for d in dtypes if d.is_floating_point]
    # Sums in which infinities meet are NaN or infinite by the order of their terms, and products of matrices skip what they
    # multiply by zero. What is out of the range of an integer type is any integer.
    infinite = (_INF, -_INF) if pointwise or reduction else ()
    special = (_NAN, *infinite, *_ORDINARY) if pointwise or len(wide) == 1 else _ORDINARY
    most = min((torch.finfo(d).max ** 0.25 for d in wide), default=0.0)
    large = tuple(x for x in _LARGE if abs(x) < most)
    floats = {"ties": _TIES, "special": special, "large": large, "fractions": _FRACTIONS}[_ROUNDS[number]]
    converts = wide and not reduction and all(_dtype(v.type) in _INTEGERS for v in op.results)
    if any(d.is_complex for d in dtypes):
        floats = tuple(filter(None, _TIES)) if number % 2 else _FRACTIONS
    elif converts:
        floats = _FRACTIONS if number % 2 else _TIES
        floats = tuple(map(abs, floats)) if any(not _dtype(v.type).is_signed for v in op.results) else floats
    if pointwise or not any(_wide(value.type) for value in op.operands):
        yield _Elements(floats, (0, 0, *_NUMBERS))
        yield _Elements(floats, _NUMBERS)
    yield _Elements(floats, (-2, -1, 0, 1))
    for most in (4, 2, 1):
        yield _Elements(floats, tuple(range(most)))
    yield _Elements(_FRACTIONS, (0,))


def _dtype(kind: Attribute) -> torch.dtype:
    return DTYPES[element_name(cast("TensorType[Attribute]", kind).element_type)]


_INTEGERS = frozenset(d for d in DTYPES.values() if not (d.is_floating_point or d.is_complex or d is torch.bool))


def _wide(kind: Attribute) -> bool:
    """Whether elements are no integers."""
    return _dtype(kind).is_floating_point or _dtype(kind).is_complex


def _tensor(kind: Attribute, elements: _Elements, seed: int, again: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape, dtype = cast("TensorType[Attribute]", kind).get_shape(), _dtype(kind)
    count = math.prod(shape)

    def taken(table: torch.Tensor) -> torch.Tensor:
        """Elements of the table in turn, each time round in another order; those of one row in four are all the same."""
        turns = -(-count * (again + 1) // len(table))
        orders = torch.cat([torch.randperm(len(table), generator=generator) for _ in range(turns)] or [torch.arange(0)])
        chosen = orders[count * again :][:count].reshape(shape)
        if chosen.dim() > 1 and count:
            same = torch.randint(4, (*shape[:-1], 1), generator=generator) == 0
            chosen = torch.where(same, chosen[..., :1], chosen)
        return table[chosen]

    floats = torch.tensor(elements.floats, dtype=torch.float64)
    if dtype.is_complex:
        return torch.complex(taken(floats), taken(floats)).to(dtype)
    if dtype.is_floating_point:
        return taken(floats).to(dtype)
    if dtype is torch.bool:
        return taken(torch.tensor([False, True]))
    large = torch.iinfo(dtype).max // 2 - 1
    integers = [*elements.integers, large, -large] if 100 in elements.integers else elements.integers
    return taken(torch.tensor([n if dtype.is_signed else abs(n) for n in integers])).to(dtype)


__all__ = ["calls_of", "otherwise_laid_out"]
