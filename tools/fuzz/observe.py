"""Everything a caller can see of one call: values to the bit, memory of arguments, sharing, strides, versions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tools.fuzz.judge import offsets


@dataclass(frozen=True)
class Seen:
    """What was seen of one tensor after the call."""

    form: tuple[Any, ...]
    values: bytes
    text: str


@dataclass(frozen=True)
class Observation:
    """What a call left behind.

    Attributes:
        structure: of the result, with `*` for a tensor.
        memory: the bytes of every argument's storage.
        bumped: arguments with elements whose version counter rose.
        storages: which arguments have a storage in common: a number for each.
        sharing: (output, "argument" or "output", number, relation).
    """

    structure: str
    outputs: tuple[Seen, ...]
    arguments: tuple[Seen, ...]
    memory: tuple[bytes, ...]
    bumped: tuple[int, ...]
    storages: tuple[int, ...]
    sharing: frozenset[tuple[int, str, int, str]]

    def differences(
        self, other: Observation, *, pure: bool = False, apart: Sequence[int] = (), may_bump: bool = False
    ) -> list[str]:
        """In words, `self` being what is right. `pure` allows other strides of outputs and less sharing; memory around
        the arguments `apart` is not looked at, and with `may_bump` a version may rise for a write that did not happen."""
        if self.structure != other.structure:
            return [f"structure {other.structure}, should be {self.structure}"]
        found: list[str] = []
        apart = list(apart)
        for kind, mine, theirs in (
            ("output", self.outputs, other.outputs),
            ("argument", self.arguments, other.arguments),
        ):
            for number, (right, got) in enumerate(zip(mine, theirs, strict=True)):
                if right.form != got.form and not (pure and kind == "output" and right.form[:2] == got.form[:2]):
                    found.append(f"{kind} {number} has form {got.form}, should be {right.form}")
                elif right.values != got.values and flushed(right, got):
                    apart += [number] * (kind == "argument")
                elif right.values != got.values:
                    found.append(f"{kind} {number} is {got.text}, should be {right.text}")
        for number, (right, got) in enumerate(zip(self.memory, other.memory, strict=True)):
            if right != got and number not in apart and not any(d.startswith("argument") for d in found):
                found.append(f"memory of argument {number} outside it has changed")
        if missing := set(self.bumped) - set(other.bumped):
            found.append(f"versions of arguments {sorted(missing)} are not bumped")
        # An argument whose memory was written through another one may say so, which eager does not.
        written = {self.storages[k] for k in self.bumped}
        if not (pure or may_bump) and (
            extra := {k for k in set(other.bumped) - set(self.bumped) if self.storages[k] not in written}
        ):
            found.append(f"versions of arguments {sorted(extra)} are bumped, and nobody wrote them")
        if pure:
            mine, theirs = ({each[:3] for each in o.sharing if o.outputs[each[0]].values} for o in (self, other))
            return found + [f"output {o} should share nothing with {kind} {n}" for o, kind, n in sorted(theirs - mine)]
        for output, kind, number, relation in sorted(self.sharing - other.sharing):
            found.append(f"output {output} should be {relation} of {kind} {number}")
        for output, kind, number, relation in sorted(other.sharing - self.sharing):
            found.append(f"output {output} should not be {relation} of {kind} {number}")
        return found


_SUBNORMAL = {"bfloat16": (np.uint16, 0x7F80), "float32": (np.uint32, 0x7F800000), "complex64": (np.uint32, 0x7F800000)}
"""Types of which XLA's CPU back end takes subnormal numbers for zero: bits that hold an element (or half of one), exponent."""


def flushed(right: Seen, got: Seen) -> bool:
    """Whether all that differs are subnormal numbers that became zero.

    Computations count them as zero. A move keeps them but for one case (jaxlib 0.10.2): LLVM makes the integers that XLA moves into bf16
    where a bitcast follows in the same loop, and carries those as f32.
    """
    if right.form[0] not in _SUBNORMAL or len(right.values) != len(got.values):
        return False
    kind, exponent = _SUBNORMAL[right.form[0]]
    wanted, found = (np.frombuffer(seen.values, kind).astype(np.int64) for seen in (right, got))
    magnitude = np.iinfo(kind).max >> 1
    lost = np.equal(wanted & exponent, 0) & np.equal(found & magnitude, 0)
    return bool(((wanted == found) | lost).all())


def observe(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> Observation:
    """Call a function and look at the result, and at the arguments afterwards."""
    forms = [_form(a) for a in arguments]
    versions = [a._version for a in arguments]
    windows = [a.as_strided(a.shape, a.stride(), a.storage_offset()) for a in arguments]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*arguments)
    outputs = _flatten(result)
    sharing: set[tuple[int, str, int, str]] = set()
    for number, output in enumerate(outputs):
        others = [("argument", k, a) for k, a in enumerate(arguments)] + [
            ("output", k, o) for k, o in enumerate(outputs[:number])
        ]
        for kind, k, other in others:
            if found := relation(output, other):
                sharing.add((number, kind, k, found))
    numbers: dict[int, int] = {}
    after = [_form(a) for a in arguments]
    return Observation(
        _structure(result),
        tuple(_seen(o) for o in outputs),
        tuple(Seen((f, a) if f != a else f, *values(w)) for f, a, w in zip(forms, after, windows, strict=True)),
        tuple(bytes_of_storage(a) for a in arguments),
        tuple(k for k, (a, v) in enumerate(zip(arguments, versions, strict=True)) if a._version != v and a.numel()),
        tuple(numbers.setdefault(a.untyped_storage()._cdata, len(numbers)) for a in arguments),
        frozenset(sharing),
    )


def relation(first: torch.Tensor, second: torch.Tensor) -> str:
    """ "the object", "the same view", "a view", or "" when no byte is shared."""
    if first is second:
        return "the object"
    if first.untyped_storage()._cdata != second.untyped_storage()._cdata or not (first.numel() and second.numel()):
        return ""
    if _form(first) == _form(second) and first.storage_offset() == second.storage_offset():
        return "the same view"
    return "a view" if len(np.intersect1d(offsets(first), offsets(second))) else ""


def bytes_of_storage(tensor: torch.Tensor) -> bytes:
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes() if storage.nbytes() else b""


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    bits = tuple(name for name, on in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if on)
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), strides_of(tensor), *bits


def strides_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of unit dimensions and of empty tensors say nothing; PyTorch's kernels and shape functions differ in them."""
    return tuple(s for s, n in zip(tensor.stride(), tensor.shape) if n != 1) if tensor.numel() else ()


def _seen(tensor: torch.Tensor) -> Seen:
    return Seen(_form(tensor), *values(tensor))


def values(tensor: torch.Tensor) -> tuple[bytes, str]:
    """Elements in row-major order as bytes, and as a short text."""
    dense = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    if not dense.numel():
        return b"", "[]"
    raw = torch.empty(0, dtype=torch.uint8).set_(dense.untyped_storage())
    shown = dense if dense.element_size() > 1 or dense.dtype in (torch.int8, torch.uint8) else raw
    text = str(shown.reshape(-1)[:16].tolist()).replace(".0,", ",").replace(".0]", "]")
    return raw.numpy().tobytes(), text if dense.numel() <= 16 else text[:-1] + ", ...]"


def _flatten(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    items = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    return [t for item in items for t in _flatten(item)]


def _structure(result: Any) -> str:
    if isinstance(result, torch.Tensor):
        return "*"
    if isinstance(result, dict):
        return f"dict({', '.join(f'{key}={_structure(item)}' for key, item in result.items())})"
    if isinstance(result, (tuple, list)):
        return f"{type(result).__name__}({', '.join(map(_structure, result))})"
    return repr(result)
