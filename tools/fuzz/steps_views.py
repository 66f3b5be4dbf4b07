"""Statements that make views."""

from __future__ import annotations

import math

import torch

from tools.fuzz.generate import Draft, Proposal, Rule
from tools.fuzz.program import DTYPES

VIEWS: list[Rule] = []


def _view(rule: Rule) -> Rule:
    VIEWS.append(rule)
    return rule


def _shaped(d: Draft, least: int = 1) -> str | None:
    return d.pick(lambda t: t.dim() >= least)


def _dim(d: Draft, t: torch.Tensor) -> int:
    """A dimension, counted from the back now and then."""
    dim = d.rng.randrange(t.dim())
    return dim - t.dim() if d.rng.random() < 0.3 else dim


def subscript(d: Draft, t: torch.Tensor) -> str:
    """The text between brackets of a basic index: slices with steps, integers, None, an ellipsis."""
    parts: list[str] = []
    for size in t.shape[: d.rng.randint(1, t.dim()) if t.dim() else 0]:
        kind = d.rng.random()
        if kind < 0.3 and size:
            parts.append(str(d.rng.randint(-size, size - 1)))
        elif kind < 0.45:
            parts.append(":")
        else:
            start, stop = (
                d.rng.choice(("", "", "1", "-2", "0")),
                d.rng.choice(("", "", "-1", str(max(size - 1, 1)), str(size))),
            )
            parts.append(f"{start}:{stop}" + d.rng.choice(("", "", ":2", ":3")))
    if d.rng.random() < 0.12:
        parts.insert(d.rng.randint(0, len(parts)), "None")
    if d.rng.random() < 0.15 or not parts:
        parts.insert(0 if d.rng.random() < 0.3 else len(parts), "...")
    return ", ".join(parts)


@_view
def basic_index(d: Draft) -> Proposal | None:
    name = _shaped(d, 0)
    return (f"{{0}}[{subscript(d, d.names[name])}]", (name,), 1) if name else None


VIEWS.append(basic_index)


@_view
def narrow(d: Draft) -> Proposal | None:
    name = _shaped(d)
    if not name:
        return None
    dim = _dim(d, t := d.names[name])
    start = d.rng.randint(0, t.shape[dim])
    return (
        f"{{0}}.narrow({dim}, {start}, {d.rng.randint(0 if d.rng.random() < 0.1 else 1, max(t.shape[dim] - start, 1))})",
        (name,),
        1,
    )


@_view
def select(d: Draft) -> Proposal | None:
    name = _shaped(d)
    if not name:
        return None
    dim = _dim(d, t := d.names[name])
    size = t.shape[dim]
    return (f"{{0}}.select({dim}, {d.rng.randint(-size, size - 1)})", (name,), 1) if size else None


@_view
def parts(d: Draft) -> Proposal | None:
    """split, chunk, tensor_split and unbind: several results, or one of them."""
    name = _shaped(d)
    if not name:
        return None
    dim = _dim(d, t := d.names[name])
    size = t.shape[dim]
    if not size:
        return None
    pieces = d.rng.choice((1, 2, 2, 3))
    sections = d.rng.randint(0, size)
    text, count = d.rng.choice((
        (f"{{0}}.split({pieces}, {dim})", -(-size // pieces)),
        (f"{{0}}.split([{sections}, {size - sections}], {dim})", 2),
        (f"{{0}}.chunk({pieces}, {dim})", -(-size // -(-size // pieces))),
        (f"{{0}}.tensor_split({pieces}, {dim})", pieces),
        (f"{{0}}.unbind({dim})", size),
        (f"{{0}}.tensor_split(({sections}, {size}), {dim})", 3),
        (f"{{0}}.split_with_sizes([{size - sections}, {sections}], {dim})", 2),
        ("torch.hsplit({0}, 1)", 1),
        (f"torch.vsplit({{0}}, ({sections},))", 2),
        (f"torch.dsplit({{0}}, ({sections},))", 2),
    ))  # fmt: skip
    if count == 1 or d.rng.random() < 0.4:
        return f"{text}[{d.rng.randrange(count)}]", (name,), 1
    return text, (name,), count


@_view
def permute(d: Draft) -> Proposal | None:
    name = _shaped(d, 2)
    if not name:
        return None
    t = d.names[name]
    order = list(range(t.dim()))
    d.rng.shuffle(order)
    a, b = _dim(d, t), _dim(d, t)
    texts = [f"permute({order})", f"transpose({a}, {b})", f"movedim({a}, {b})", f"swapaxes({a}, {b})", "mT", "mH"]
    texts += [f"movedim({list(range(t.dim()))}, {order})", f"moveaxis({a}, {b})", f"swapdims({a}, {b})"]
    texts += ["t()", "T", "t()", "T"] if t.dim() == 2 else []
    return f"{{0}}.{d.rng.choice(texts)}", (name,), 1


@_view
def expand(d: Draft) -> Proposal | None:
    name = _shaped(d, 0)
    if not name:
        return None
    t = d.names[name]
    sizes = [d.rng.choice(d.dims) if n == 1 else d.rng.choice((n, -1)) for n in t.shape]
    if d.rng.random() < 0.5 and t.dim() < 4:
        sizes.insert(0, d.rng.choice(d.dims))
    return f"{{0}}.{d.rng.choice(('expand', 'expand', 'broadcast_to'))}({sizes})", (name,), 1


@_view
def unit_dims(d: Draft) -> Proposal | None:
    name = _shaped(d, 0)
    if not name:
        return None
    t = d.names[name]
    texts = [f"unsqueeze({d.rng.randint(-t.dim() - 1, t.dim())})", "squeeze()"]
    if t.dim():
        texts += [f"squeeze({_dim(d, t)})", f"squeeze(({d.rng.randrange(t.dim())}, -1))"]
    return (f"{{0}}.{d.rng.choice(texts)}", (name,), 1) if t.dim() < 5 else None


def _factors(d: Draft, count: int) -> list[int]:
    """Sizes with a given product."""
    sizes: list[int] = []
    while count > 1 and len(sizes) < 3:
        size = d.rng.choice([n for n in range(1, count + 1) if count % n == 0])
        sizes.append(size)
        count //= size
    return [*sizes, count] if count != 1 or not sizes else sizes


@_view
def view(d: Draft) -> Proposal | None:
    name = _shaped(d, 0)
    if not name:
        return None
    t = d.names[name]
    sizes = _factors(d, t.numel()) if t.numel() else [0, d.rng.choice((1, 2))]
    if d.rng.random() < 0.3 and t.numel():
        sizes[d.rng.randrange(len(sizes))] = -1
    return f"{{0}}.{d.rng.choice(('view', 'view', 'reshape'))}({sizes})", (name,), 1


VIEWS.append(view)


@_view
def flatten(d: Draft) -> Proposal | None:
    name = _shaped(d)
    if not name:
        return None
    t = d.names[name]
    first = d.rng.randrange(t.dim())
    dim = d.rng.randrange(t.dim())
    texts = (
        "flatten()", f"flatten({first}, {d.rng.randint(first, t.dim() - 1)})", "ravel()",
        f"unflatten({dim}, {_factors(d, t.shape[dim]) or [1]})",
    )  # fmt: skip
    return f"{{0}}.{d.rng.choice(texts)}", (name,), 1


@_view
def reshape_as(d: Draft) -> Proposal | None:
    """Another tensor gives the sizes: view_as, reshape_as, expand_as, broadcast_tensors."""
    name = _shaped(d, 0)
    other = d.pick()
    if not name or not other:
        return None
    same = d.names[name].numel() == d.names[other].numel()
    if d.rng.random() < 0.2:
        return "torch.broadcast_tensors({0}, {1})", (name, other), 2
    return f"{{0}}.{d.rng.choice(('view_as', 'reshape_as') if same else ('expand_as',))}({{1}})", (name, other), 1


@_view
def diagonal(d: Draft) -> Proposal | None:
    name = _shaped(d, 2)
    if not name:
        return None
    first, second = d.rng.sample(range(d.names[name].dim()), 2)
    if d.rng.random() < 0.2:
        return f"torch.linalg.diagonal({{0}}, dim1={first}, dim2={second})", (name,), 1
    return f"{{0}}.diagonal({d.rng.choice((0, 0, 1, -1))}, {first}, {second})", (name,), 1


@_view
def unfold(d: Draft) -> Proposal | None:
    name = _shaped(d)
    if not name:
        return None
    dim = _dim(d, t := d.names[name])
    size = d.rng.randint(1, max(t.shape[dim], 1))
    return f"{{0}}.unfold({dim}, {size}, {d.rng.randint(1, size + 1)})", (name,), 1


def reach(d: Draft, name: str) -> tuple[int, int]:
    """Bytes of a tensor's storage that views of it may cover: what the caller gave, or all of a fresh one."""
    tensor = d.names[name]
    spans: list[tuple[int, int]] = []
    for argument in d.runs[0].arguments:
        if argument.untyped_storage()._cdata == tensor.untyped_storage()._cdata and argument.numel():
            last = sum(int(n - 1) * s for n, s in zip(argument.shape, argument.stride()))
            start = int(argument.storage_offset()) * argument.element_size()
            spans.append((start, start + (last + 1) * argument.element_size()))
    if not spans:
        return 0, tensor.untyped_storage().nbytes()
    low = int(tensor.storage_offset()) * tensor.element_size()
    high = low + 1
    changed = True
    while changed:
        grown = [s for s in spans if s[0] < high and low < s[1]]
        new = min([low, *(s[0] for s in grown)]), max([high, *(s[1] for s in grown)])
        changed, (low, high) = new != (low, high), new
    return low, high


@_view
def as_strided(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.numel() > 0)
    if not name:
        return None
    size = d.names[name].element_size()
    low, high = reach(d, name)
    first, last = -(-low // size), high // size
    sizes = [d.rng.choice([n for n in d.dims if n] or [1]) for _ in range(d.rng.choice((0, 1, 1, 2, 2)))]
    strides, step = [], 1
    for n in reversed(sizes):
        strides.insert(0, step + d.rng.choice((0, 0, 1, -1 if step > 1 else 0)))
        step *= n
    if sizes and d.rng.random() < 0.2:
        d.rng.shuffle(strides)
    need = 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
    if need > last - first:
        return None
    offset = d.rng.randint(first, last - need)
    return f"{{0}}.as_strided({sizes}, {strides}, {offset})", (name,), 1


@_view
def reinterpret(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: not t.is_conj() and not t.is_neg())
    if not name:
        return None
    own = d.names[name].element_size()
    same = [t for t in DTYPES.values() if t.itemsize == own]
    dtype = d.rng.choice(same if d.rng.random() < 0.5 else list(DTYPES.values()))
    return f"{{0}}.view({dtype})", (name,), 1


@_view
def complex_parts(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.dtype is torch.complex64)
    if name:
        texts = (
            "torch.view_as_real({0})",
            "{0}.real",
            "{0}.imag",
            "{0}.conj()",
            "{0}.mH" if d.names[name].dim() > 1 else "{0}.adjoint()",
        )
        return d.rng.choice(texts), (name,), 1
    name = d.pick(lambda t: t.dtype is torch.float32 and t.dim() > 0 and t.shape[-1] == 2)
    return ("torch.view_as_complex({0})", (name,), 1) if name else None


@_view
def same_window(d: Draft) -> Proposal | None:
    name = _shaped(d, 0)
    if not name:
        return None
    t = d.names[name]
    texts = [
        "{0}.detach()",
        "torch.ops.aten.alias({0})",
        "{0}.view_as({0})",
        "{0}.reshape({0}.shape)",
        "{0}.expand_as({0})",
    ]
    if (t.dtype.is_floating_point and t.element_size() > 1) or t.dtype.is_complex:
        texts.append("torch._neg_view({0})")
    texts += ["{0}.positive()", "torch.atleast_2d({0})", "{0}.broadcast_to({0}.shape)"]
    texts += ["{0}.real", "torch.conj({0})", "torch.ops.aten._reshape_alias({0}, {0}.shape, {0}.stride())"]
    texts += ["{0}.contiguous()", f"{{0}}.to({t.dtype})", "{0}.resolve_conj()", "{0}.resolve_neg()"]
    if t.dim():
        texts.append(f"{{0}}.view({', '.join(map(str, t.shape))})" if math.prod(t.shape) else "{0}[:]")
    return d.rng.choice(texts), (name,), 1
