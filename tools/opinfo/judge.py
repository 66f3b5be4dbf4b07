"""Whether what a compiled sample leaves behind is what eager leaves: form, values, memory of arguments, sharing, strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tools.fuzz.observe import relation

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

TIES = {"sort": 1, "argsort": 1, "topk": 2, "kthvalue": 2, "median": 1, "nanmedian": 1, "mode": 1}
"""Entries that give positions, and where their `dim` is: without `stable=True` nobody promises an order of equal
elements, so positions are compared by the elements they point at."""


FACTORS: dict[str, Callable[[Sequence[torch.Tensor]], torch.Tensor]] = {
    "linalg.svd": lambda f: product(f[0], f[1], f[2]),
    "svd": lambda f: product(f[0], f[1], f[2].mH),
    "linalg.eigh": lambda f: product(f[1], f[0], f[1].mH),
}
"""Entries whose factors are unique up to signs only: compared by their product and by the numbers in the middle."""


def product(left: torch.Tensor, middle: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    count = middle.shape[-1]
    return (left[..., :count] * middle.unsqueeze(-2)) @ right[..., :count, :]


@dataclass(frozen=True)
class Seen:
    """What a call left behind."""

    structure: str
    outputs: list[torch.Tensor]
    arguments: list[torch.Tensor]
    sharing: frozenset[tuple[int, str, int, str]]
    strides: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, result: Any, arguments: Sequence[torch.Tensor]) -> Seen:
        leaves, tree = pytree.tree_flatten(result)
        outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        shape = str(
            pytree.tree_unflatten(["*" if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves], tree)
        )
        if any(o.layout != torch.strided for o in outputs):
            return cls("sparse results", [], [], frozenset())
        sharing: set[tuple[int, str, int, str]] = set()
        for number, output in enumerate(outputs):
            others = [("argument", k, a) for k, a in enumerate(arguments)] + [
                ("output", k, o) for k, o in enumerate(outputs[:number])
            ]
            sharing |= {(number, kind, k, found) for kind, k, other in others if (found := _relation(output, other))}
        strides = [
            [s for s, n in zip(t.stride(), t.shape) if n > 1] if t.layout == torch.strided and t.numel() else []
            for t in (*outputs, *arguments)
        ]
        return cls(shape, [o.clone() for o in outputs], [a.clone() for a in arguments], frozenset(sharing), strides)


def _relation(first: torch.Tensor, second: torch.Tensor) -> str:
    return relation(first, second) if first.layout == second.layout == torch.strided else ""


@dataclass(frozen=True)
class Call:
    """What the judgement needs to know of a sample: the entry, its arguments, and the call at a wider float type."""

    entry: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    wide: Callable[[], Seen | None]


def compare(call: Call, right: Seen, got: Seen, before: Sequence[torch.Tensor]) -> tuple[str, str]:
    """The kind of verdict and its reason; `before` are the arguments as they were."""
    if right.structure != got.structure:
        return "wrong", f"structure {got.structure} instead of {right.structure}"
    pairs = [
        *(("output", *pair, None) for pair in zip(right.outputs, got.outputs, strict=True)),
        *(("argument", *pair) for pair in zip(right.arguments, got.arguments, before, strict=True)),
    ]
    if call.entry in FACTORS and len(right.outputs) > 1 and not (why := _other_factors(call, right, got)):
        pairs = [p for p in pairs if p[3] is not None and same_bits(p[1], p[3])]  # what holds no factor
    elif call.entry in FACTORS and len(right.outputs) > 1:
        return "wrong", why
    wide: list[list[torch.Tensor] | None] = []
    for number, (place, mine, theirs, old) in enumerate(pairs):
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            return "wrong", f"{place}: {_form(theirs)} instead of {_form(mine)}"
        if call.entry in UNINITIALISED:
            continue
        if old is not None and same_bits(mine, old):
            if not same_bits(mine, theirs):
                return "wrong", f"{place} is written: {_difference(mine, theirs)}"
        elif not _close(call.entry, mine, theirs) and not _same_elements(call, mine, theirs):
            if not wide:
                exact = call.wide()
                wide.append(None if exact is None else [*exact.outputs, *exact.arguments])
            exact = wide[0][number] if wide[0] is not None and number < len(wide[0]) else None
            if exact is None or not _as_exact(exact, mine, theirs):
                return "wrong", f"{place}: {_difference(mine, theirs)}"
    if right.sharing != got.sharing:
        return "wrong", f"sharing {sorted(got.sharing)} instead of {sorted(right.sharing)}"
    if right.strides != got.strides:
        return "layout", f"strides {got.strides} instead of {right.strides}"
    return "passed", ""


def _close(entry: str, right: torch.Tensor, got: torch.Tensor) -> bool:
    right, got = right.resolve_conj().resolve_neg(), got.resolve_conj().resolve_neg()
    if right.dtype not in TOLERANCE:
        return torch.equal(right, got)
    rtol, atol = WIDER[entry][0] if entry in WIDER else TOLERANCE[right.dtype]
    return torch.allclose(got, right, rtol=rtol, atol=atol, equal_nan=True)


def _as_exact(exact: torch.Tensor, right: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether `got` is about as far from the result at a wider type as eager's is: four times its worst error and two
    roundings. Terms that cancel leave an error that no tolerance relative to the result describes."""
    if exact.shape != right.shape or not (right.dtype.is_floating_point and exact.dtype.is_floating_point):
        return False
    exact, mine, theirs = exact.to(torch.float64), right.to(torch.float64), got.to(torch.float64)
    # Where eager overflows on the way to a finite result, the result itself is right.
    rtol, atol = TOLERANCE[right.dtype]
    overflow = exact.isfinite() & ~mine.isfinite() & ((theirs - exact).abs() <= atol + rtol * exact.abs())
    mine = torch.where(overflow, exact, mine)
    finite = exact.isfinite() & mine.isfinite() & theirs.isfinite()
    if not bool((finite | (theirs == mine) | (theirs == exact) | (theirs.isnan() & mine.isnan())).all()):
        return False
    if not bool(finite.any()):
        return True
    eps = torch.finfo(right.dtype).eps
    allowed = 4 * (mine - exact).abs()[finite].max() + eps + 2 * eps * exact.abs()
    return bool(((theirs - exact).abs() <= allowed)[finite].all())


def _other_factors(call: Call, right: Seen, got: Seen) -> str:
    """Why two factorizations are not of the same matrix into factors of the same kind, or ""."""
    make = FACTORS[call.entry]
    for mine, theirs in zip(right.outputs, got.outputs, strict=True):
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            return f"output: {_form(theirs)} instead of {_form(mine)}"
    if not right.outputs[0].numel():
        return ""
    scale = max(1.0, float(make(right.outputs).abs().max())) if make(right.outputs).numel() else 1.0
    middle = 0 if call.entry == "linalg.eigh" else 1
    for mine, theirs in ((make(right.outputs), make(got.outputs)), (right.outputs[middle], got.outputs[middle])):
        if not torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5 * scale):
            return f"factors: {_difference(mine, theirs)}"
    for number, factor in enumerate(got.outputs):
        tall = factor if factor.dim() < 2 or factor.shape[-2] >= factor.shape[-1] else factor.mH
        if number == middle or tall.dim() < 2:
            continue
        square = tall.mH @ tall
        if not torch.allclose(square, torch.eye(tall.shape[-1], dtype=tall.dtype).expand(square.shape), atol=1e-4):
            return "a factor has columns that are not orthonormal"
    return ""


def _same_elements(call: Call, right: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether two results hold positions of equal elements where order among them is not promised."""
    if call.entry not in TIES or right.dtype != torch.int64 or call.kwargs.get("stable"):
        return False
    source, place = call.args[0], TIES[call.entry]
    if not source.dim():
        return False
    dim = call.args[place] if len(call.args) > place else call.kwargs.get("dim", -1)
    if right.dim() < source.dim():
        right, got = right.unsqueeze(dim), got.unsqueeze(dim)
    picked = [source.gather(dim, positions.to(torch.int64)) for positions in (right, got)]
    distinct = got.sort(dim).values.diff(dim=dim)
    return torch.allclose(*(p.to(torch.float64) for p in picked), equal_nan=True) and bool((distinct != 0).all())


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
