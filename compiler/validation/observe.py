"""What a program does as its caller sees it: results, their sharing of memory, and the arguments afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from xdsl.dialects.builtin import DictionaryAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp

from compiler.reference import Tensors, Watch, compute, entry, run_handles, run_values
from compiler.validation.inputs import copies, lazy_of
from dialects.alias import DONATED

SEED = 20240229
"""Random operators start from it in every run, so that two runs of one program agree."""


class Sharing(NamedTuple):
    """Whose memory a result is: `argument` or an earlier `result` (or its own, `fresh`), and where in it."""

    kind: str
    index: int = -1
    same_object: bool = False
    byte_offset: int = 0

    def __str__(self) -> str:
        if self.kind == "fresh":
            return "memory of its own"
        what = f"{self.kind} {self.index}"
        return f"{what} itself" if self.same_object else f"a view of {what} at byte {self.byte_offset}"


@dataclass(frozen=True)
class Observation:
    """One run. `sharing` is None where the form of the program does not say it."""

    outputs: tuple[torch.Tensor, ...]
    arguments: tuple[torch.Tensor, ...]
    sharing: tuple[Sharing, ...] | None


class Difference(NamedTuple):
    """The first thing two runs do not agree on. `output` or `argument` is its number, -1 for the other."""

    text: str
    output: int = -1
    argument: int = -1


def has_memory(function: FuncOp) -> bool:
    """Whether a function is over handles, as far as its own arguments, results and operations show."""
    values = [*function.body.block.args, *(r for op in function.body.block.ops for r in op.results)]
    return any(isinstance(value.type, MemRefType) for value in values)


def observe(
    module: ModuleOp,
    arguments: Sequence[torch.Tensor],
    watch: Watch | None = None,
    run: Callable[[FuncOp, Tensors], Tensors] | None = None,
) -> Observation:
    """Run `@main` on copies of the arguments. `run` computes a function of values, without it PyTorch does."""
    function = entry(module)
    own = copies(arguments)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        if has_memory(function):
            outputs = run_handles(module, own, watch)
        elif "alias.plan" in function.attributes:
            outputs = run_values(module, own, run or (lambda f, p: compute(f, p, watch)))
        else:
            outputs = run(function, own) if run is not None else compute(function, own, watch)
            return Observation(tuple(outputs), (), None)
    return observed(outputs, own)


def observed(outputs: Sequence[torch.Tensor], arguments: Sequence[torch.Tensor]) -> Observation:
    """What is to be seen after a run that gave these outputs."""
    objects: dict[int, Sharing] = {}
    memories: dict[int, tuple[Sharing, torch.Tensor]] = {}

    def remember(kind: str, index: int, tensor: torch.Tensor) -> None:
        objects.setdefault(id(tensor), Sharing(kind, index, True))
        memories.setdefault(tensor.untyped_storage()._cdata, (Sharing(kind, index), tensor))

    for index, argument in enumerate(arguments):
        remember("argument", index, argument)
    sharing: list[Sharing] = []
    for index, tensor in enumerate(outputs):
        sharing.append(objects.get(id(tensor)) or _place(tensor, memories.get(tensor.untyped_storage()._cdata)))
        remember("result", index, tensor)
    return Observation(tuple(outputs), tuple(arguments), tuple(sharing))


def _place(tensor: torch.Tensor, owner: tuple[Sharing, torch.Tensor] | None) -> Sharing:
    """Where in the memory of its owner a result is, which is no object the caller has."""
    if owner is None:
        return Sharing("fresh")
    sharing, other = owner
    distance = tensor.storage_offset() * tensor.itemsize - other.storage_offset() * other.itemsize
    return sharing._replace(byte_offset=int(distance) if tensor.numel() and other.numel() else 0)


# -- comparison ----------------------------------------------------------------------------------

_ROUNDING: dict[torch.dtype, float] = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 1e-4, torch.complex64: 1e-4,
    torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float8_e4m3fn: 0.13, torch.float8_e5m2: 0.26,
}  # fmt: skip
"""Relative error that a different order of the same arithmetic may make; types that are not here agree exactly."""


def given_up(module: ModuleOp, arguments: Sequence[torch.Tensor], seen: Observation) -> frozenset[int]:
    """Donated arguments that a program leaves alone, by number: what a pass leaves in them is nobody's concern."""
    attributes = entry(module).arg_attrs
    if attributes is None or len(attributes.data) != len(seen.arguments):
        return frozenset()
    donated = [n for n, a in enumerate(attributes.data) if isinstance(a, DictionaryAttr) and DONATED in a.data]
    return frozenset(n for n in donated if not tensor_difference(arguments[n], seen.arguments[n], layout=True))


def difference(before: Observation, after: Observation, given: Collection[int] = ()) -> Difference | None:
    """The first difference: results, then how they share memory, then the arguments.

    One new result may live in the memory of each argument that is `given` up.
    """
    if len(before.outputs) != len(after.outputs):
        return Difference(f"there are {len(before.outputs)} outputs before and {len(after.outputs)} after")
    for n, (one, two) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        if found := tensor_difference(one, two, layout=before.sharing is not None and after.sharing is not None):
            return Difference(f"output {n} {found}", output=n)
    if before.sharing is not None and after.sharing is not None:
        free = set(given)
        for n, (mine, theirs) in enumerate(zip(before.sharing, after.sharing, strict=True)):
            if mine.kind == "fresh" and theirs.kind == "argument" and theirs.index in free:
                free.remove(theirs.index)
            elif mine != theirs:
                return Difference(f"output {n} is {mine} before and {theirs} after", output=n)
    for n, (one, two) in enumerate(zip(before.arguments, after.arguments, strict=False)):
        if n not in given and (found := tensor_difference(one, two, layout=True)):
            return Difference(f"argument {n} {found}", argument=n)
    return None


def tensor_difference(before: torch.Tensor, after: torch.Tensor, layout: bool = False) -> str:
    """`differs at [0, 2]: 1.0 before, 2.0 after`, or "" when nothing does."""
    if before.dtype != after.dtype or before.shape != after.shape:
        kinds = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in (before, after)]
        return f"is {kinds[0]} before and {kinds[1]} after"
    if layout and _steps(before) != _steps(after):
        return f"has strides {list(before.stride())} before and {list(after.stride())} after"
    if layout and lazy_of(before) != lazy_of(after):
        bits = [",".join(lazy_of(t)) or "none" for t in (before, after)]
        return f"has the lazy bits {bits[0]} before and {bits[1]} after"
    if not before.numel():
        return ""
    one, two = (t.resolve_conj().resolve_neg() for t in (before, after))
    if torch.equal(one, two):  # by far the fastest, and the rule
        return ""
    wrong = ~_agree(one, two)
    if not wrong.any():
        return ""
    place = torch.nonzero(wrong)[0].tolist() if wrong.dim() else []
    first = [t[tuple(place)].item() for t in (one, two)]
    count = int(wrong.sum())
    more = f" ({count} of {wrong.numel()} elements differ)" if count > 1 else ""
    return f"differs at {place}: {first[0]} before, {first[1]} after{more}"


def _steps(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides that are ever taken."""
    if not tensor.numel():
        return ()
    return tuple(s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)


def _agree(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    rounding = _ROUNDING.get(one.dtype)
    if rounding is None:
        return one.to(torch.int64) == two.to(torch.int64)  # which keeps the bits of ui64
    kind = torch.complex128 if one.is_complex() else torch.float64
    a, b = one.to(kind), two.to(kind)
    finite = torch.isfinite(a)
    scale = a.abs()[finite].max().item() if finite.any() else 0.0
    return (
        (a == b)
        | (torch.isnan(a) & torch.isnan(b))
        | ((a - b).abs() <= rounding * a.abs() + rounding * 0.1 * max(scale, 1e-3))
    )


__all__ = [
    "Difference",
    "Observation",
    "Sharing",
    "difference",
    "has_memory",
    "observe",
    "observed",
    "tensor_difference",
]
