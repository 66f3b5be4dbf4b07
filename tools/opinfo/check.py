"""Samples of one entry, dtype and variant compiled together, run, and compared with eager: values, mutation, aliasing.

What eager itself refuses is no sample. A batch that the compiler refuses is tried again sample by sample.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import compiler
from compiler.errors import CompileError
from compiler.frontend.schemas import overload_name
from tools.opinfo.core_samples import CORE, core_samples
from tools.opinfo.distributions import compare_draws
from tools.opinfo.judge import Call, Seen, compare
from tools.opinfo.samples import Sample, flowing, samples, variant

XLA_FLAGS: dict[str, Any] = {"xla_backend_optimization_level": 0}
"""Every sample runs at this level, which compiles fast."""

DEFAULT_FLAGS: dict[str, Any] = {}
"""The first sample of a unit that draws nothing runs a second time, at the level that users have."""


@dataclass(frozen=True)
class Verdict:
    """What became of a sample: "passed", "refused", "wrong" (`layout` when only strides differ), "crashed" or "skipped"."""

    kind: str
    reason: str = ""
    sample: str = ""
    overloads: tuple[str, ...] = ()


def check(entry: OpInfo | None, name: str, dtype: torch.dtype, which: str, limit: int) -> list[Verdict]:
    """The verdicts of an entry's samples of one dtype and variant; no entry, the calls of a core overload."""
    try:
        chosen = core_samples(name, dtype) if entry is None else samples(entry, dtype, limit)
    except Exception as error:  # the entry's generator needs what this machine lacks
        return [Verdict("skipped", f"no samples: {type(error).__name__}")]
    if entry is not None and which != "function":
        chosen = [made for sample in chosen if (made := variant(entry, sample, which)) is not None]
    runs: list[_Run] = []
    verdicts: list[Verdict] = []
    for sample in chosen:
        try:
            run = _Run(sample, name)
        except _EagerRefuses:
            continue
        if run.random:
            verdicts.append(_drawn(run))
        else:
            runs.append(run)
    again = [replace(v, reason=f"at XLA's default level: {v.reason}") for v in _judge(runs[:1], DEFAULT_FLAGS)]
    # A sample is counted once: what passes both times passes.
    return verdicts + _judge(runs) + [v for v in again if v.kind in ("wrong", "crashed", "layout")]


def _drawn(run: _Run) -> Verdict:
    """The verdict of a random sample, which is compiled alone: each draw goes on where the last one ended."""
    sample = run.sample
    try:
        with warnings.catch_warnings(), flowing():
            warnings.simplefilter("ignore")
            executable = compiler.compile(lambda *tensors: sample(*tensors), run.fresh(), xla_flags=XLA_FLAGS)

            def draw(function: Any, seed: Any, number: int) -> Seen:
                tensors = run.fresh()
                if number >= 0:
                    seed(number)
                with torch.no_grad():
                    return Seen.of(function(*tensors), tensors)

            kind, text = run.draws(
                functools.partial(draw, sample, torch.manual_seed),
                functools.partial(draw, executable, executable.manual_seed),
            )
    except Exception as error:
        kind, text = "refused" if isinstance(error, CompileError) else "crashed", reason(error)
    return Verdict(kind, text, str(sample) if text else "", run.overloads)


def _judge(runs: Sequence[_Run], flags: dict[str, Any] = XLA_FLAGS) -> list[Verdict]:
    if not runs:
        return []
    try:
        return _compiled(runs, flags)
    except Exception as error:
        if len(runs) > 1:
            return [verdict for run in runs for verdict in _judge([run], flags)]
        kind = "refused" if isinstance(error, CompileError) else "crashed"
        return [Verdict(kind, reason(error), str(runs[0].sample), runs[0].overloads)]


def _compiled(runs: Sequence[_Run], flags: dict[str, Any]) -> list[Verdict]:
    counts = [len(run.sample.tensors) for run in runs]

    def program(*tensors: torch.Tensor) -> list[Any]:
        rest = iter(tensors)
        return [run.sample(*(next(rest) for _ in range(n))) for run, n in zip(runs, counts, strict=True)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable = compiler.compile(program, [t for run in runs for t in run.fresh()], xla_flags=flags)
        arguments = [run.fresh() for run in runs]
        with torch.no_grad():
            results = executable(*(t for tensors in arguments for t in tensors))
    found: list[Verdict] = []
    for run, tensors, result in zip(runs, arguments, results, strict=True):
        kind, text = run.compare(Seen.of(result, tensors))
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
        self.expected = Seen.of(result, tensors)
        own = {entry: None} if entry in CORE else {}  # a composite one is never dispatched under its name
        self.overloads = tuple(recorder.seen | own)
        self.random = recorder.random

    def fresh(self) -> list[torch.Tensor]:
        return copies(self.sample.tensors)

    def compare(self, got: Seen) -> tuple[str, str]:
        return compare(self._call(), self.expected, got, self.fresh())

    def draws(self, eager: Callable[[int], Seen], compiled: Callable[[int], Seen]) -> tuple[str, str]:
        return compare_draws(self._call(), eager, compiled, self.fresh())

    def _call(self) -> Call:
        args, kwargs = self.sample.arguments(self.fresh())
        return Call(self.entry, args, kwargs, self._wide)

    def _wide(self) -> Seen | None:
        """What eager makes of the sample with floats of the next wider type."""
        wider = {torch.bfloat16: torch.float32, torch.float16: torch.float32, torch.float32: torch.float64}

        def widen(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return value.to(wider.get(value.dtype, value.dtype))
            return wider.get(value, value) if isinstance(value, torch.dtype) else value

        args, kwargs = pytree.tree_map(widen, self.sample.arguments(self.fresh()))
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = self.sample.function(*args, **kwargs)
        except Exception:  # the operator has no such type: then there is no such reference
            return None
        return Seen.of(result, [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)])


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
