"""Statements that make new memory: copies, arithmetic, reductions, casts."""

from __future__ import annotations

import torch

from tools.fuzz.generate import Draft, Proposal, Rule
from tools.fuzz.program import DTYPES

VALUES: list[Rule] = []


def _value(rule: Rule) -> Rule:
    VALUES.append(rule)
    return rule


@_value
def clone(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    texts = ("{0}.clone()", "{0}.clone()", "{0}.clone(memory_format=torch.contiguous_format)", "torch.empty_like({0}).copy_({0})",
             "torch.zeros_like({0})", "torch.full_like({0}, 2)")  # fmt: skip
    return d.rng.choice(texts), (name,), 1


VALUES.append(clone)


def copy(d: Draft) -> Proposal | None:
    name = d.pick()
    return (
        (d.rng.choice(("{0}.clone()", "{0}.clone(memory_format=torch.contiguous_format)")), (name,), 1)
        if name
        else None
    )


COPIES: list[Rule] = [copy]
"""For programs that are about copies."""


@_value
def binary(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    other = d.broadcasting(d.names[name])
    if other is None or d.rng.random() < 0.3:
        return f"{{0}} {d.rng.choice(('+', '-', '*'))} {d.literal()}", (name,), 1
    texts = (
        "{0} + {1}",
        "{0} - {1}",
        "{0} * {1}",
        "torch.maximum({0}, {1})",
        "torch.minimum({0}, {1})",
        "torch.add({0}, {1}, alpha=2)",
    )
    return d.rng.choice(texts), (name, other), 1


@_value
def unary(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    texts = (
        "-{0}",
        "{0}.abs()",
        "{0}.sign()",
        "torch.relu({0})",
        "{0}.clamp(-2, 3)",
        "{0}.square()",
        "{0}.logical_not()",
    )
    return d.rng.choice(texts), (name,), 1


@_value
def compare(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    other = d.broadcasting(d.names[name])
    if other is None or d.rng.random() < 0.5:
        return f"{{0}} {d.rng.choice(('>', '==', '<=', '!='))} {d.rng.choice((0, 1, 2))}", (name,), 1
    return f"{{0}} {d.rng.choice(('>', '==', '<', '!='))} {{1}}", (name, other), 1


@_value
def where(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    other = d.broadcasting(d.names[name], same_dtype=True)
    mask = d.pick(lambda m: m.dtype is torch.bool)
    if other is None or mask is None:
        return None
    return "torch.where({2}, {0}, {1})", (name, other, mask), 1


@_value
def reduction(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    t = d.names[name]
    texts = ["{0}.sum()", "{0}.any()", "{0}.all()"]
    if t.dim():
        dim = d.rng.randrange(-t.dim(), t.dim())
        keep = d.rng.choice((True, False))
        texts += [
            f"{{0}}.sum({dim}, keepdim={keep})",
            f"{{0}}.amax({dim}, {keep})",
            f"{{0}}.cumsum({dim})",
            f"{{0}}.any({dim})",
        ]
        texts += [f"{{0}}.amin({dim})"]
    return d.rng.choice(texts), (name,), 1


@_value
def cast(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    return f"{{0}}.to({d.rng.choice(list(DTYPES.values()))})", (name,), 1


@_value
def rearrange(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.dim() > 0)
    if not name:
        return None
    t = d.names[name]
    dim = d.rng.randrange(t.dim())
    size = t.shape[dim]
    if not size:
        return None
    index = [d.rng.randrange(size) for _ in range(d.rng.randint(1, 3))]
    texts = [
        f"{{0}}.flip({dim})", f"{{0}}.roll(1, {dim})", f"{{0}}.index_select({dim}, torch.tensor({index}))",
        f"{{0}}[{':, ' * dim}{index}]", f"torch.cat([{{0}}, {{0}}], {dim})", f"torch.stack([{{0}}, {{0}}], {dim})",
        "torch.nn.functional.pad({0}, (1, 0))", f"torch.gather({{0}}, {dim}, torch.zeros({list(t.shape)}, dtype=torch.int64))",
    ]  # fmt: skip
    return d.rng.choice(texts), (name,), 1


@_value
def product(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.dim() == 2 and t.dtype in (torch.float32, torch.float64) and t.shape[1] > 1)
    if not name:
        return None
    t = d.names[name]
    other = d.pick(lambda o: o.dim() == 2 and o.dtype == t.dtype and o.shape[0] == t.shape[1])
    return ("{0} @ {1}", (name, other), 1) if other else None


@_value
def join(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.dim() > 0)
    if not name:
        return None
    t = d.names[name]
    other = d.pick(lambda o: o.dim() == t.dim() and o.shape[1:] == t.shape[1:] and o.dtype == t.dtype)
    return ("torch.cat([{0}, {1}])", (name, other), 1) if other else None


@_value
def view_copy(d: Draft) -> Proposal | None:
    """Out-of-place twins of views."""
    name = d.pick(lambda t: t.dim() > 0)
    if not name:
        return None
    t = d.names[name]
    dim = d.rng.randrange(t.dim())
    size = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if t.numel() else 0
    texts = [
        f"slice_copy({{0}}, {dim}, 1)", "t_copy({0})", f"unsqueeze_copy({{0}}, {dim})", "squeeze_copy({0})", "diagonal_copy({0})",
        f"select_copy({{0}}, {dim}, -1)", f"transpose_copy({{0}}, {dim}, -1)", "view_copy({0}, [-1])", "alias_copy({0})",
        f"unfold_copy({{0}}, {dim}, 1, 2)", f"permute_copy({{0}}, {list(range(t.dim()))[::-1]})", "detach_copy({0})",
        f"expand_copy({{0}}, [2, {', '.join(map(str, t.shape))}])", f"as_strided_copy({{0}}, [{size}], [1], {{0}}.storage_offset())",
    ]  # fmt: skip
    return f"torch.{d.rng.choice(texts)}", (name,), 1


@_value
def window_scatter(d: Draft) -> Proposal | None:
    """A copy of a tensor with another one in a window of it."""
    name = d.pick(lambda t: t.dim() > 0 and t.numel() > 0)
    if not name:
        return None
    t = d.names[name]
    dim = d.rng.randrange(t.dim())
    texts = {
        f"slice_scatter({{0}}, {{1}}, {dim}, 1)": t.narrow(dim, 1, t.shape[dim] - 1),
        f"slice_scatter({{0}}, {{1}}, {dim}, step=2)": t[(slice(None),) * dim + (slice(None, None, 2),)],
        f"select_scatter({{0}}, {{1}}, {dim}, -1)": t.select(dim, -1),
    }
    if t.dim() > 1:
        texts["diagonal_scatter({0}, {1})"] = t.diagonal()
    text = d.rng.choice(list(texts))
    other = d.pick(lambda o: o.shape == texts[text].shape and o.dtype == t.dtype)
    return (f"torch.{text}", (name, other), 1) if other else None


@_value
def arrange(d: Draft) -> Proposal | None:
    """Sorting and searching, where the order of equal elements does not show; shapes that repeat or join."""
    name = d.pick(lambda t: t.dim() > 0 and t.numel() > 0)
    if not name:
        return None
    t = d.names[name]
    dim, pieces = d.rng.randrange(t.dim()), d.rng.randint(1, 2)
    texts = [
        f"torch.sort({{0}}, {dim}).values", f"torch.cummax({{0}}, {dim}).values", f"torch.diff({{0}}, dim={dim})",
        "torch.take({0}, torch.tensor([[0], [-1]]))", f"torch.repeat_interleave({{0}}, {pieces}, {dim})", "torch.tile({0}, (2,))",
        "{0}.repeat(2, *[1] * {0}.dim())", "torch.rot90({0}.flip(0), 1, (0, -1))", f"torch.count_nonzero({{0}}, {dim})",
        "torch.diag_embed({0})", "torch.stack([{0}, {0}], -1).flatten()", "torch.hstack([{0}, {0}])", "torch.tril({0})",
        "torch.nn.functional.one_hot(({0} > 0).long(), 2)", "torch.isin({0}, torch.tensor([1, 2]))",
        "torch.masked_fill({0}, {0} == 1, 2)", f"torch.argmax(({{0}} == {{0}}.max()).int().cumsum({dim}), {dim})",
    ]  # fmt: skip
    return d.rng.choice(texts), (name,), 1


@_value
def number(d: Draft) -> Proposal | None:
    """A Python number that is taken from the data, which a host's graph may not hold."""
    if d.options.flat:
        return None
    name, source = d.pick(), d.pick(lambda t: t.numel() > 0 and not t.dtype.is_complex and t.dtype is not torch.bool)
    if not name or not source:
        return None
    item = d.rng.choice(("{1}.sum().item()", "{1}.reshape(-1)[0].item()", "{1}.amax().item()"))
    texts = (
        f"{{0}} * {item}", f"{{0}} + {item}", f"torch.full([2], {item}, dtype={d.names[name].dtype})", f"{{0}}.add_({item})",
        f"{{0}}.fill_({item})", f"{{0}}.masked_fill_({{0}} == 1, {item})", f"{{0}} > {item}", f"torch.where({{0}} == 1, {item}, {{0}})",
    )  # fmt: skip
    return d.rng.choice(texts), (name, source), 1
