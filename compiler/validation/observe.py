"""What a program does as its caller sees it: results, their sharing of memory, and the arguments afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from xdsl.dialects.builtin import DictionaryAttr, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp

from compiler.reference import Tensors, Watch, compute, entry, run_handles, run_values
from compiler.validation.answers import OTHERS, Answers, Factored
from compiler.validation.inputs import copies, lazy_of
from dialects.alias import DONATED

SEED = 20240229
"""Random operators start from it in every run, so that two runs of one program agree."""

Left = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], tuple[list[torch.Tensor], list[torch.Tensor]]]
"""Results and arguments after a run of a program's IR -> what its caller holds then."""


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
    """One run. `sharing` is None where the form of the program does not say it, `factored` where PyTorch did not run it."""

    outputs: tuple[torch.Tensor, ...]
    arguments: tuple[torch.Tensor, ...]
    sharing: tuple[Sharing, ...] | None
    factored: tuple[Factored, ...] | None = None


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
    answers: Answers | None = None,
) -> Observation:
    """Run `@main` on copies of the arguments. `run` computes a function of values, without it PyTorch does."""
    function = entry(module)
    own = copies(arguments)
    answers = answers or Answers()

    def in_pytorch(function: FuncOp, parameters: Tensors) -> Tensors:
        with answers:
            return compute(function, parameters, watch)

    with seeded():
        if has_memory(function):
            with answers:
                outputs = run_handles(module, own, watch)
        elif "alias.plan" in function.attributes:
            outputs = run_values(module, own, run or in_pytorch)
        else:
            outputs = (run or in_pytorch)(function, own)
            return Observation(tuple(outputs), (), None, tuple(answers.given) if run is None else None)
    return replace(observed(outputs, own), factored=tuple(answers.given) if run is None else None)


@contextmanager
def seeded() -> Iterator[None]:
    """The state of PyTorch's random numbers that every run starts from; afterwards it is what it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        yield


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
    return frozenset(n for n in donated if not tensor_difference(arguments[n], seen.arguments[n], True, exact=True))


@dataclass(frozen=True)
class Comparison:
    """What a run is compared with.

    Attributes:
        found: the first thing in which it differs, as far as the program determines it.
        undetermined: the first difference in what the program leaves open; "" when there is none.
        because: operators with several right answers, which leave it open; none where a program just never does the same.
    """

    found: Difference | None = None
    undetermined: str = ""
    because: tuple[str, ...] = ()


def compare(
    program: ModuleOp,
    arguments: Sequence[torch.Tensor],
    after: Observation,
    left: Left | None = None,
    others: Iterable[Observation] = (),
) -> Comparison:
    """Whether a run on these arguments did what the program does, wherever all right answers of its operators agree.

    `left` says what a caller holds after a run of the program's IR (`Program.left`), as it does after the other run.
    `others` are runs that gave other right answers.
    """
    before = observe(program, arguments)
    given = given_up(program, arguments, before)
    before = _left(before, left)
    first = difference(before, after, given)
    if first is None:
        return Comparison()
    repeated = _again(program, arguments, Answers(), left)
    if repeated is not None and difference(before, repeated) is not None:
        return Comparison(difference(before, after, given, [repeated]), first.text)
    # The error that a run with noise makes is one that another order of the arithmetic may make.
    noisy = [_again(program, arguments, Answers(noise=torch.Generator().manual_seed(n)), left) for n in range(3)]
    rounded = [run for run in noisy if run is not None]
    found = difference(before, after, given, (), rounded)
    if found is not None and (other := list(others)):
        found = difference(before, after, given, other, rounded)
    if found is None:
        return Comparison()
    if _same_factored(before, after):
        return Comparison(found)
    others, met = list[Observation](), dict[str, None]()
    for number in OTHERS:
        answers = Answers(number)
        if (other := _again(program, arguments, answers, left)) is not None:
            others.append(other)
        met.update(answers.met)
        if not met:
            return Comparison(found)
    return Comparison(difference(before, after, given, others, rounded), found.text, tuple(met))


def _same_factored(before: Observation, after: Observation) -> bool:
    """Whether PyTorch factored the same matrices, bit for bit, so that it gave the same factors."""
    known = before.factored or ()
    return after.factored is not None and all(
        any(one.name == two.name and all(map(torch.equal, one.operands, two.operands)) for two in known)
        for one in after.factored
    )


def _left(seen: Observation, left: Left | None) -> Observation:
    return seen if left is None else replace(observed(*left(seen.outputs, seen.arguments)), factored=seen.factored)


def _again(
    program: ModuleOp, arguments: Sequence[torch.Tensor], answers: Answers, left: Left | None
) -> Observation | None:
    """Another run; None when it fails, as where a matrix an ulp off has no factor."""
    try:
        return _left(observe(program, arguments, answers=answers), left)
    except Exception:
        return None


def difference(
    before: Observation,
    after: Observation,
    given: Collection[int] = (),
    others: Sequence[Observation] = (),
    rounded: Sequence[Observation] = (),
) -> Difference | None:
    """The first difference: results, then how they share memory, then the arguments.

    Args:
        given: arguments that are given up: one new result may live in the memory of each.
        others: runs with other right answers; elements in which they differ from the one before are left out.
        rounded: runs with other rounding; elements may differ as much as they do.
    """
    if len(before.outputs) != len(after.outputs):
        return Difference(f"there are {len(before.outputs)} outputs before and {len(after.outputs)} after")
    for n, (one, two) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        layout = before.sharing is not None and after.sharing is not None
        runs = [other.outputs[n] for other in others], [other.outputs[n] for other in rounded]
        if found := tensor_difference(one, two, layout, *runs):
            return Difference(f"output {n} {found}", output=n)
    if before.sharing is not None and after.sharing is not None:
        free = set(given)
        for n, (mine, theirs) in enumerate(zip(before.sharing, after.sharing, strict=True)):
            if mine.kind == "fresh" and theirs.kind == "argument" and theirs.index in free:
                free.remove(theirs.index)
            elif mine != theirs:
                return Difference(f"output {n} is {mine} before and {theirs} after", output=n)
    for n, (one, two) in enumerate(zip(before.arguments, after.arguments, strict=False)):
        if n in given:
            continue
        runs = [other.arguments[n] for other in others], [other.arguments[n] for other in rounded]
        if found := tensor_difference(one, two, True, *runs):
            return Difference(f"argument {n} {found}", argument=n)
    return None


def tensor_difference(
    before: torch.Tensor,
    after: torch.Tensor,
    layout: bool = False,
    others: Sequence[torch.Tensor] = (),
    rounded: Sequence[torch.Tensor] = (),
    exact: bool = False,
) -> str:
    """`differs at [0, 2]: 1.0 before, 2.0 after`, or "" when nothing does that is to be compared; see `difference`.

    `exact`: nothing was computed, so that nothing was rounded.
    """
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
    wrong = ~((one == two) | ((one != one) & (two != two)) if exact else _agree(one, two))
    for other in others:
        wrong &= _agree(one, other.resolve_conj().resolve_neg())
    if rounded and wrong.any():
        wrong &= ~_within(one, two, [other.resolve_conj().resolve_neg() for other in rounded])
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


def _within(one: torch.Tensor, two: torch.Tensor, rounded: Sequence[torch.Tensor]) -> torch.Tensor:
    """Elements that differ by no more than a few times what rounding makes of them; one that is no float may be any other."""
    if one.dtype not in _ROUNDING:
        return torch.stack([one != other for other in rounded]).any(0)
    kind = torch.complex128 if one.is_complex() else torch.float64
    exact = one.to(kind)
    errors = torch.stack([(exact - other.to(kind)).abs() for other in rounded])
    error = errors.nan_to_num(0.0, posinf=torch.inf).amax(0)  # a run off the domain of an operator says nothing
    return (exact - two.to(kind)).abs() <= _MORE * error


_MORE = 16.0
"""An order of summation can be this many times worse than what the noise of a few runs shows."""


def _agree(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    rounding = _ROUNDING.get(one.dtype)
    if rounding is None:
        return one.to(torch.int64) == two.to(torch.int64)  # which keeps the bits of ui64
    kind = torch.complex128 if one.is_complex() else torch.float64
    a, b = one.to(kind), two.to(kind)
    return (a == b) | (torch.isnan(a) & torch.isnan(b)) | ((a - b).abs() <= rounding * a.abs() + rounding * _NOTHING)


_NOTHING = 1e-3
"""Numbers this small count as none: what is left of numbers near one that cancel, an ulp of these. No more than that: beside one
large element, such as that of a mask, others count."""


__all__ = [
    "Comparison", "Difference", "Observation", "Sharing", "compare", "difference", "has_memory", "observe", "observed",
    "seeded", "tensor_difference",
]  # fmt: skip
