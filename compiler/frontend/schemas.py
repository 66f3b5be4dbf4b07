"""What an operator overload reads, writes and returns, from its schema alone.

Tables complete what schemas leave unsaid: operators that write without saying so (`SILENT_WRITES`), that overwrite an
operand without reading it (`OVERWRITES`), and that read no element of their operands (`METADATA_READS`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

SILENT_WRITES: dict[str, tuple[str, ...]] = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::cudnn_batch_norm": ("running_mean", "running_var"),
    "aten::miopen_batch_norm": ("running_mean", "running_var"),
    "aten::batch_norm_update_stats": ("running_mean", "running_var"),
    "aten::batch_norm_gather_stats": ("running_mean", "running_var"),
    "aten::batch_norm_gather_stats_with_counts": ("running_mean", "running_var"),
    "aten::batch_norm": ("running_mean", "running_var"),
    "aten::instance_norm": ("running_mean", "running_var"),
    "aten::_batch_norm_impl_index": ("running_mean", "running_var"),
}
"""Operators whose schema is silent about a write: the arguments they write in training (`writes_now`)."""

OVERWRITES = frozenset({"aten::copy_", "aten::zero_", "aten::fill_"})
"""Operators that give every element of `self` a new value without looking at the old one."""

METADATA_READS = frozenset(
    f"aten::{name}"
    for name in ("empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_empty_strided", "new_zeros",
                 "new_ones", "new_full", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset")
)  # fmt: skip
"""Operators that look at an operand's sizes, strides and type only."""

COMMUNICATING = frozenset({"_c10d_functional", "c10d_functional", "_c10d_functional_autograd"})
"""Namespaces of collectives."""

_TRAINING = ("training", "train", "use_input_stats")

_BATCH_NORM_TWINS: dict[str, tuple[str, tuple[int, ...]]] = {
    "aten::native_batch_norm": ("aten._native_batch_norm_legit_functional.default", (0, 1, 2)),
    "aten::_native_batch_norm_legit": ("aten._native_batch_norm_legit_functional.default", (0, 1, 2)),
    "aten::_batch_norm_with_update": ("aten._batch_norm_with_update_functional.default", (0, 1, 2, 3)),
}
"""Twins under another name: (overload, own results); the new running statistics follow the results."""


@dataclass(frozen=True)
class Parameter:
    """One formal argument of an overload."""

    name: str
    position: int
    keyword_only: bool
    tensor: bool
    reads: bool
    writes: bool
    out: bool
    alias: frozenset[str]


@dataclass(frozen=True)
class Twin:
    """The out-of-place overload: each of its results is `("result", i)` or `("write", argument name)`."""

    target: str
    outputs: tuple[tuple[str, int | str], ...]
    drop: tuple[str, ...] = ()


UNTAGGED_POINTWISE = frozenset({
    "aten::copy_", "aten::floor_divide", "aten::floor_divide_", "aten::masked_fill_", "aten::threshold",
    "aten::threshold_", "aten::where",
})  # fmt: skip
"""Element-wise operators that PyTorch 2.13 does not tag as such."""


@dataclass(frozen=True)
class Facts:
    """What the schema of an overload says.

    Attributes:
        returns: per result the alias sets it belongs to.
        twin: the out-of-place overload, for a writing op that has one.
        metadata: an in-place change of sizes, strides or storage (`t_`, `resize_`, `set_`).
        random: draws from a generator.
        pointwise: element i of what it writes depends on element i of its operands only.
        view: gives views of its operands, and writes nothing.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: tuple[frozenset[str], ...]
    silent: bool
    twin: Twin | None
    metadata: bool
    random: bool
    pointwise: bool
    view: bool

    @property
    def by_name(self) -> dict[str, Parameter]:
        return {p.name: p for p in self.parameters}


def bind(facts: Facts, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[Parameter, Any]]:
    """Formal and actual arguments in schema order; arguments left to their defaults are left out."""
    for parameter in facts.parameters:
        if not parameter.keyword_only and parameter.position < len(args):
            yield parameter, args[parameter.position]
        elif parameter.name in kwargs:
            yield parameter, kwargs[parameter.name]


def writes_now(facts: Facts, arguments: dict[str, Any]) -> bool:
    """Whether a silent writer writes in this call: only in training does it update statistics, if it is given any."""
    flags = [arguments[name] for name in _TRAINING if name in arguments]
    return all(flags) and any(arguments.get(p.name) is not None for p in facts.parameters if p.writes and not p.out)


def draws_now(facts: Facts, arguments: dict[str, Any]) -> bool:
    """Whether a random op really draws in this call: dropout with probability zero does not."""
    on = arguments.get("train", True) is not False and arguments.get("training", True) is not False
    return facts.random and on and arguments.get("dropout_p", 1.0) != 0.0


@functools.cache
def facts(op: OpOverload) -> Facts:
    """The facts of an overload."""
    schema = op._schema
    silent = SILENT_WRITES.get(schema.name, ())
    overwrites, metadata_only = schema.name in OVERWRITES, schema.name in METADATA_READS
    parameters: list[Parameter] = []
    for position, formal in enumerate(schema.arguments):
        info = formal.alias_info
        tensor = _holds_tensors(formal.type)
        writes = (info is not None and info.is_write) or formal.name in silent
        out = bool(formal.is_out)
        untouched = metadata_only or out or (overwrites and position == 0) or (info is not None and not info.is_write)
        alias = frozenset(info.before_set | info.after_set) if info is not None else frozenset()
        parameters.append(
            Parameter(
                formal.name,
                position,
                formal.kwarg_only,
                tensor,
                tensor and not untouched,
                tensor and writes,
                out,
                alias,
            )
        )
    returns = tuple(
        frozenset(r.alias_info.before_set | r.alias_info.after_set) if r.alias_info is not None else frozenset()
        for r in schema.returns
    )
    metadata = torch.Tag.inplace_view in op.tags
    return Facts(
        overload_name(op), tuple(parameters), returns, bool(silent), _twin(op, parameters),
        metadata, torch.Tag.nondeterministic_seeded in op.tags,
        torch.Tag.pointwise in op.tags or schema.name in UNTAGGED_POINTWISE,
        bool(returns) and all(returns) and not any(p.writes for p in parameters),
    )  # fmt: skip


def overload_name(op: OpOverload) -> str:
    """`namespace.name.overload`."""
    return f"{op.namespace}.{op._schema.name.split('::')[1]}.{op._overloadname}"


def counts_from_storage(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether this call names a place counted from the first byte of an operand's storage."""
    position = _place_position(op)
    return position is not None and (args[position] if position < len(args) else kwargs.get(_PLACE)) is not None


def names_window(op: OpOverload) -> bool:
    """Whether calls name a window on an operand's storage, wherever the operand has elements."""
    return _place_position(op) is not None


_PLACE = "storage_offset"


@functools.cache
def _place_position(op: OpOverload) -> int | None:
    return next((i for i, argument in enumerate(op._schema.arguments) if argument.name == _PLACE), None)


@functools.cache
def composite(op: OpOverload) -> bool:
    """Whether the operator is nothing but calls of others."""
    known = torch._C._dispatch_has_kernel(op.name())  # those of TorchScript have names only
    return known and op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


@functools.cache
def expands(op: OpOverload) -> bool:
    """Whether an operator is to be seen as the operators it is made of, where PyTorch has such an implementation:
    it writes or makes tensors in lists, or it writes and has no out-of-place twin (`polygamma_`)."""
    schema = op._schema
    if op.namespace in COMMUNICATING:
        return False  # its implementation talks to other processes
    writes_list = any(
        a.alias_info is not None and a.alias_info.is_write and str(a.type) == "List[Tensor]" for a in schema.arguments
    )
    takes_list = any(str(a.type) == "List[Tensor]" for a in schema.arguments)
    makes_list = takes_list and any(str(r.type) == "List[Tensor]" and r.alias_info is None for r in schema.returns)
    known = facts(op)
    alone = _writes(op) and known.twin is None and not known.metadata and not known.silent and op.namespace == "aten"
    return (writes_list or makes_list or alone) and op.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CompositeExplicitAutograd
    )


def metadata_twin(op: OpOverload) -> OpOverload | None:
    """`transpose` for `transpose_`: the view that leaves the object itself alone."""
    for twin in _siblings(op):
        views = len(twin._schema.returns) == 1 and twin._schema.returns[0].alias_info is not None
        if views and not _writes(twin) and _same_arguments(op._schema.arguments, twin._schema.arguments):
            return twin
    return None


def _holds_tensors(kind: Any) -> bool:
    return "Tensor" in str(kind)


def _siblings(op: OpOverload) -> list[OpOverload]:
    """The overloads of `foo` for an overload of `foo_` (`__foo__` for `__ifoo__`), the one of the same name first."""
    namespace, name = op._schema.name.split("::")
    dunder = re.fullmatch(r"__i(\w+)__", name)
    plain = f"__{dunder[1]}__" if dunder else name[:-1] if name.endswith("_") else ""
    packet = getattr(getattr(torch.ops, namespace), plain, None) if plain else None
    if packet is None:
        return []
    overloads = [getattr(packet, name) for name in packet.overloads()]
    return sorted(overloads, key=lambda twin: twin._overloadname != op._overloadname)


def _same_arguments(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """The same formal arguments; theirs may go on with keywords that default to None (`dtype` of a factory).

    What a call may leave to its default must have the same one there.
    """

    def form(a: Any) -> tuple[str, str, bool]:
        return a.name, str(a.type), a.kwarg_only

    def left_out(one: Any, other: Any) -> bool:
        return not one.has_default_value() or (other.has_default_value() and one.default_value == other.default_value)

    extra = theirs[len(mine) :]
    same = all(left_out(one, other) for one, other in zip(mine, theirs, strict=False))
    return (
        same
        and [form(a) for a in mine] == [form(a) for a in theirs[: len(mine)]]
        and all(a.kwarg_only and a.has_default_value() and a.default_value is None for a in extra)
    )


def _writes(op: OpOverload) -> bool:
    return any(a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments)


def _is_pure(op: OpOverload, results: int) -> bool:
    """Writes nothing and returns so many fresh tensors."""
    returns = op._schema.returns
    fresh = all(r.alias_info is None and str(r.type) == "Tensor" for r in returns)
    return not _writes(op) and len(returns) == results and fresh


def _twin(op: OpOverload, parameters: Sequence[Parameter]) -> Twin | None:
    schema = op._schema
    written = [p for p in parameters if p.writes]
    statistics, outs = ([p.name for p in written if p.out == out] for out in (False, True))
    if schema.name in _BATCH_NORM_TWINS and len(statistics) == 2:
        target, own = _BATCH_NORM_TWINS[schema.name]
        results = [("write", name) for name in outs] if outs else [("result", i) for i in own]
        return Twin(target, (*results, *(("write", name) for name in statistics)), tuple(outs))
    if not written or any(str(schema.arguments[p.position].type) != "Tensor" for p in written):
        return None
    if all(p.out for p in written):
        return out_twin(op, written)
    # An in-place op: one operand written, and nothing returned but that operand.
    if len(written) != 1 or any(r.alias_info is None for r in schema.returns):
        return None
    for twin in _siblings(op):
        if _is_pure(twin, 1) and _same_arguments(schema.arguments, twin._schema.arguments):
            return Twin(overload_name(twin), (("write", written[0].name),))
    return None


def out_twin(op: OpOverload, written: Sequence[Parameter]) -> Twin | None:
    """The functional overload that computes what an `out=` overload stores."""
    namespace, name = op._schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    inputs = [a for a in op._schema.arguments if not a.is_out]
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        if candidate is not op and _is_pure(candidate, len(written)):
            if _same_arguments(inputs, candidate._schema.arguments):
                outputs = tuple(("write", p.name) for p in written)
                return Twin(overload_name(candidate), outputs, tuple(p.name for p in written))
    return None
