"""Samples of one entry, dtype and variant compiled together, run, and compared with eager: values, mutation, aliasing.

What eager itself refuses is no sample. A batch that the compiler refuses is tried again sample by sample.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import compiler
from compiler.errors import CompileError
from compiler.frontend.schemas import overload_name
from tools.fuzz.observe import relation
from tools.opinfo.samples import Sample, samples, variant

TOLERANCE: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-9, 1e-10),
    torch.float32: (2e-5, 1e-5),
    torch.complex64: (2e-5, 1e-5),
    torch.complex128: (1e-9, 1e-10),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float16: (2e-3, 1e-3),
}
"""(relative, absolute) by type of the result. Sums of products are ordered differently, and XLA keeps f32 between
fused steps where eager rounds to bf16 after each. Integers, bool and memory nobody writes are compared to the bit."""

WIDER: dict[str, tuple[tuple[float, float], str]] = {}
"""Entries with a tolerance of their own for floats, and why."""

UNINITIALISED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
"""Entries whose results have no defined values: only their form is compared."""

XLA_FLAGS = {"xla_backend_optimization_level": 0}


@dataclass(frozen=True)
class Verdict:
    """What became of a sample: "passed", "refused", "wrong" (`layout` when only strides differ), "crashed" or "skipped"."""

    kind: str
    reason: str = ""
    sample: str = ""
    overloads: tuple[str, ...] = ()


def check(entry: OpInfo, name: str, dtype: torch.dtype, which: str, limit: int) -> list[Verdict]:
    """The verdicts of an entry's samples of one dtype and variant."""
    try:
        chosen = samples(entry, dtype, limit)
    except Exception as error:  # the entry's generator needs what this machine lacks
        return [Verdict("skipped", f"no samples: {type(error).__name__}")]
    if which != "function":
        chosen = [made for sample in chosen if (made := variant(entry, sample, which)) is not None]
    runs: list[_Run] = []
    verdicts: list[Verdict] = []
    for sample in chosen:
        try:
            run = _Run(sample, name)
        except _EagerRefuses:
            continue
        if run.random:
            verdicts.append(Verdict("skipped", "random", str(sample)))
        else:
            runs.append(run)
    return verdicts + _judge(runs)


def _judge(runs: Sequence[_Run]) -> list[Verdict]:
    if not runs:
        return []
    try:
        return _compiled(runs)
    except Exception as error:
        if len(runs) > 1:
            return [verdict for run in runs for verdict in _judge([run])]
        kind = "refused" if isinstance(error, CompileError) else "crashed"
        return [Verdict(kind, reason(error), str(runs[0].sample), runs[0].overloads)]


def _compiled(runs: Sequence[_Run]) -> list[Verdict]:
    counts = [len(run.sample.tensors) for run in runs]

    def program(*tensors: torch.Tensor) -> list[Any]:
        rest = iter(tensors)
        return [run.sample(*(next(rest) for _ in range(n))) for run, n in zip(runs, counts, strict=True)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable = compiler.compile(program, [t for run in runs for t in run.fresh()], xla_flags=XLA_FLAGS)
        arguments = [run.fresh() for run in runs]
        with torch.no_grad():
            results = executable(*(t for tensors in arguments for t in tensors))
    found: list[Verdict] = []
    for run, tensors, result in zip(runs, arguments, results, strict=True):
        kind, text = run.compare(_Seen.of(result, tensors))
        found.append(Verdict(kind, text, str(run.sample) if text else "", run.overloads))
    return found


class _EagerRefuses(Exception):
    """The sample is not one of this variant."""


class _Run:
    """A sample with what eager makes of it."""

    def __init__(self, sample: Sample, entry: str):
        self.sample, self.entry = sample, entry
        tensors = self.fresh()
        try:
            with torch.no_grad(), warnings.catch_warnings(), _Recorder() as recorder:
                warnings.simplefilter("ignore")
                result = sample(*tensors)
        except Exception as error:
            raise _EagerRefuses from error
        self.expected = _Seen.of(result, tensors)
        self.overloads = tuple(recorder.seen)
        self.random = recorder.random

    def fresh(self) -> list[torch.Tensor]:
        return copies(self.sample.tensors)

    def compare(self, got: _Seen) -> tuple[str, str]:
        right = self.expected
        if right.structure != got.structure:
            return "wrong", f"structure {got.structure} instead of {right.structure}"
        before = self.fresh()
        for place, mine, theirs, old in (
            *(("output", *pair, None) for pair in zip(right.outputs, got.outputs, strict=True)),
            *(("argument", *pair) for pair in zip(right.arguments, got.arguments, before, strict=True)),
        ):
            if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
                return "wrong", f"{place}: {_form(theirs)} instead of {_form(mine)}"
            if self.entry in UNINITIALISED:
                continue
            untouched = old is not None and same_bits(mine, old)
            if not (same_bits(mine, theirs) if untouched else self._close(mine, theirs)):
                return "wrong", f"{place}: {_difference(mine, theirs)}"
        if right.sharing != got.sharing:
            return "wrong", f"sharing {sorted(got.sharing)} instead of {sorted(right.sharing)}"
        if right.strides != got.strides:
            return "layout", f"strides {got.strides} instead of {right.strides}"
        return "passed", ""

    def _close(self, right: torch.Tensor, got: torch.Tensor) -> bool:
        right, got = right.resolve_conj().resolve_neg(), got.resolve_conj().resolve_neg()
        if right.dtype not in TOLERANCE:
            return torch.equal(right, got)
        rtol, atol = WIDER[self.entry][0] if self.entry in WIDER else TOLERANCE[right.dtype]
        return torch.allclose(got, right, rtol=rtol, atol=atol, equal_nan=True)


@dataclass(frozen=True)
class _Seen:
    """What a call left behind."""

    structure: str
    outputs: list[torch.Tensor]
    arguments: list[torch.Tensor]
    sharing: frozenset[tuple[int, str, int, str]]
    strides: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, result: Any, arguments: Sequence[torch.Tensor]) -> _Seen:
        leaves, tree = pytree.tree_flatten(result)
        outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        shape = str(pytree.tree_unflatten(["*" if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves], tree))
        if any(o.layout != torch.strided for o in outputs):
            return cls("sparse results", [], [], frozenset())
        sharing: set[tuple[int, str, int, str]] = set()
        for number, output in enumerate(outputs):
            others = [("argument", k, a) for k, a in enumerate(arguments)] + [("output", k, o) for k, o in enumerate(outputs[:number])]
            sharing |= {(number, kind, k, found) for kind, k, other in others if (found := relation(output, other))}
        strides = [
            [s for s, n in zip(t.stride(), t.shape) if n > 1] if t.numel() else [] for t in (*outputs, *arguments)
        ]
        return cls(shape, [o.clone() for o in outputs], [a.clone() for a in arguments], frozenset(sharing), strides)


class _Recorder(TorchDispatchMode):
    """The overloads a call reaches, and whether one draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, None] = {}
        self.random = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[overload_name(func)] = None
        self.random |= torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _draws(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    from compiler.frontend.schemas import bind, draws_now, facts

    known = facts(func)
    return draws_now(known, {p.name: value for p, value in bind(known, args, kwargs)})


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same windows on copies of the storages; what shared memory still does."""
    storages: dict[int, torch.UntypedStorage] = {}
    same: dict[int, torch.Tensor] = {}
    found: list[torch.Tensor] = []
    for tensor in tensors:
        if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
            found.append(tensor.detach().clone())
            continue
        if id(tensor) not in same:
            key = tensor.untyped_storage()._cdata
            storage = storages.setdefault(key, tensor.untyped_storage().clone())
            copy = torch.empty(0, dtype=tensor.dtype)
            same[id(tensor)] = copy.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        found.append(same[id(tensor)])
    return found


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.is_complex:
        first, second = torch.view_as_real(first.resolve_conj()), torch.view_as_real(second.resolve_conj())
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    return torch.equal(first.contiguous().view(bits), second.contiguous().view(bits))


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _difference(right: torch.Tensor, got: torch.Tensor) -> str:
    if not right.numel():
        return "empty"
    wide = torch.complex128 if right.dtype.is_complex else torch.float64
    a, b = right.to(wide).reshape(-1), got.to(wide).reshape(-1)
    differ = ~((a == b) | (a.isnan() & b.isnan()))
    worst = int(torch.where(differ, (a - b).abs().nan_to_num(nan=1e300), -1.0).argmax())
    return f"{int(differ.sum())} of {len(a)} differ, {b[worst].item():.7g} instead of {a[worst].item():.7g}"


def reason(error: Exception) -> str:
    """One line that failures of the same cause have in common."""
    if not isinstance(error, CompileError):
        return f"{type(error).__name__}: {_general(str(error))}"
    first, *rest = error.message.strip().splitlines() or [""]
    if "cannot be lowered" in first:
        names = sorted({re.sub(r" \([^()]*(\([^()]*\)[^()]*)*\)", "", line.strip(), count=1) for line in rest})
        return "no lowering: " + "; ".join(_general(n) for n in names)
    return _general(first)


def _general(message: str) -> str:
    line = message.strip().splitlines()[0] if message.strip() else ""
    return re.sub(r"\b\d+\b", "#", re.sub(r"\[[^\]]*\]", "[..]", line))[:160]
