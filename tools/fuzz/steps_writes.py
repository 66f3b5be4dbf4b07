"""Statements that write memory."""

from __future__ import annotations

import torch

from tools.fuzz.generate import Draft, Proposal, Rule
from tools.fuzz.steps_views import subscript

WRITES: list[Rule] = []
CUSTOM: list[Rule] = []


def _write(rule: Rule) -> Rule:
    WRITES.append(rule)
    return rule


def _number(t: torch.Tensor) -> bool:
    return t.dtype is not torch.bool


@_write
def arithmetic(d: Draft) -> Proposal | None:
    name = d.pick(_number)
    if not name:
        return None
    t = d.names[name]
    other = d.broadcasting(t) if d.rng.random() < 0.65 else None
    method = d.rng.choice(("add_", "add_", "mul_", "sub_"))
    if other is None:
        return f"{{0}}.{method}({d.literal()})", (name,), d.second_name()
    alpha = f", alpha={d.literal()}" if method != "mul_" and d.rng.random() < 0.3 else ""
    return f"{{0}}.{method}({{1}}{alpha})", (name, other), d.second_name()


WRITES.append(arithmetic)


@_write
def unary(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    texts = ["fill_(2)", "zero_()", f"fill_({d.literal()})"]
    if d.names[name].dtype is not torch.bool:
        texts += [
            "neg_()",
            "abs_()",
            f"clamp_(-2, {d.rng.randint(1, 4)})",
            "clamp_(min=1)",
            "square_()",
            "sign_()",
            "relu_()",
        ]
        texts += ["remainder_(3)", "clamp_(max=2)"]
    if d.names[name].dtype.is_complex:
        texts += ["conj_physical_()", "neg_()"]
    if d.names[name].dim() == 2:
        texts.append(f"fill_diagonal_({d.literal()})")
    return f"{{0}}.{d.rng.choice(texts)}", (name,), d.second_name()


@_write
def copy(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    other = d.broadcasting(d.names[name], same_dtype=d.rng.random() < 0.6)
    if other is None:
        return None
    source = d.rng.choice(("{1}", "{1}", "{1}", "{1}.clone()", "{1}.flip(0)" if d.names[other].dim() else "{1}"))
    return f"{{0}}.copy_({source})", (name, other), d.second_name()


WRITES.extend([copy, copy])


@_write
def set_item(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    t = d.names[name]
    place = subscript(d, t)
    try:
        window = eval(f"t[{place}]", {"t": t})
    except IndexError:
        return None
    other = d.broadcasting(window) if d.rng.random() < 0.7 else None
    if other is None:
        return f"{{0}}[{place}] = {d.literal()}", (name,), 0
    return f"{{0}}[{place}] = {{1}}", (name, other), 0


WRITES.append(set_item)


@_write
def set_item_in_place(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.dtype is not torch.bool)
    if not name:
        return None
    return f"{{0}}[{subscript(d, d.names[name])}].{d.rng.choice(('add_', 'mul_', 'sub_'))}({d.literal()})", (name,), 0


@_write
def set_masked(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.dim() > 0)
    if not name:
        return None
    t = d.names[name]
    mask = d.pick(lambda m: m.dtype is torch.bool and m.dim() > 0 and m.shape == t.shape[: m.dim()])
    if mask and d.rng.random() < 0.6:
        return f"{{0}}[{{1}}] = {d.literal()}", (name, mask), 0
    if not t.dtype.is_complex and t.dtype is not torch.bool:
        return f"{{0}}[{{0}} > {d.rng.choice((-1, 0, 1))}] = {d.literal()}", (name,), 0
    return None


@_write
def set_indexed(d: Draft) -> Proposal | None:
    """setitem and index_put_ by tensors of indices, in one or two dimensions."""
    name = d.pick(lambda t: t.dim() > 0 and t.numel() > 0)
    if not name:
        return None
    t = d.names[name]
    position = d.rng.randrange(t.dim())
    size = t.shape[position]
    taken = d.pick(
        lambda i: i.dtype is torch.int64 and i.dim() == 1 and bool((i < size).all()) and bool((i >= -size).all())
    )
    operands = [name]
    if taken and d.rng.random() < 0.5:
        operands.append(taken)
        index, count = "{1}", d.names[taken].numel()
    else:
        index = d.index(size)
        count = index.count(",") + 1
    place = ":, " * position + index
    if position + 1 < t.dim() and d.rng.random() < 0.3:
        place += f", {d.rng.randrange(t.shape[position + 1])}"
    accumulate = d.rng.random() < 0.4 and t.dtype is not torch.bool
    value = f"torch.full([], {d.literal()}, dtype={t.dtype})"
    shape = (*t.shape[:position], count, *t.shape[position + 1 :])
    other = d.pick(lambda o: o.dtype == t.dtype and o.dim() <= len(shape) and all(
        n in (1, m) for n, m in zip(reversed(o.shape), reversed(shape))
    ))  # fmt: skip
    if other:
        operands.append(other)
        value = f"{{{len(operands) - 1}}}"
    if position == 0 and d.rng.random() < 0.6:
        return f"{{0}}.index_put_(({index},), {value}, accumulate={accumulate})", tuple(operands), d.second_name()
    return f"{{0}}[{place}] = {value}", tuple(operands), 0


@_write
def index_along(d: Draft) -> Proposal | None:
    """index_copy_, index_add_, index_fill_."""
    name = d.pick(lambda t: t.dim() > 0 and t.numel() > 0)
    if not name:
        return None
    t = d.names[name]
    dim = d.rng.randrange(t.dim())
    size = t.shape[dim]
    taken = d.pick(lambda i: i.dtype is torch.int64 and i.dim() == 1 and bool(((i < size) & (i >= 0)).all()))
    operands = [name]
    if taken and d.rng.random() < 0.5:
        operands.append(taken)
        index, count = "{1}", d.names[taken].numel()
    else:
        index = d.index(size)
        count = index.count(",") + 1
    if d.rng.random() < 0.3:
        return f"{{0}}.index_fill_({dim}, {index}, {d.literal()})", tuple(operands), d.second_name()
    shape = (*t.shape[:dim], count, *t.shape[dim + 1 :])
    other = d.pick(lambda o: tuple(o.shape) == shape and o.dtype == t.dtype)
    value = f"torch.full({list(shape)}, {d.literal()}, dtype={t.dtype})"
    if other:
        operands.append(other)
        value = f"{{{len(operands) - 1}}}"
    method = d.rng.choice(("index_copy_", "index_add_"))
    return f"{{0}}.{method}({dim}, {index}, {value})", tuple(operands), d.second_name()


@_write
def scatter(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: t.dim() > 0 and t.numel() > 0)
    if not name:
        return None
    t = d.names[name]
    dim = d.rng.randrange(t.dim())
    shape = [d.rng.randint(1, n) for n in t.shape]
    # Every line along `dim` gets different targets: rotations of one permutation.
    index = d.rng.sample(range(t.shape[dim]), shape[dim])
    expanded = [1] * t.dim()
    expanded[dim] = len(index)
    text = f"torch.tensor({index}).view({expanded}).expand({shape})"
    if d.rng.random() < 0.3:
        return f"{{0}}.scatter_({dim}, {text}, {d.literal()})", (name,), d.second_name()
    other = d.pick(lambda o: o.dtype == t.dtype and o.dim() == t.dim() and all(n >= m for n, m in zip(o.shape, shape)))
    method = d.rng.choice(("scatter_", "scatter_add_"))
    if other:
        return f"{{0}}.{method}({dim}, {text}, {{1}})", (name, other), d.second_name()
    return (
        f"{{0}}.{method}({dim}, {text}, torch.full({shape}, {d.literal()}, dtype={t.dtype}))",
        (name,),
        d.second_name(),
    )


@_write
def masked_fill(d: Draft) -> Proposal | None:
    name = d.pick()
    if not name:
        return None
    t = d.names[name]
    mask = d.pick(lambda m: m.dtype is torch.bool and m.dim() <= t.dim() and all(
        n in (1, k) for n, k in zip(reversed(m.shape), reversed(t.shape))
    ))  # fmt: skip
    if mask:
        return f"{{0}}.masked_fill_({{1}}, {d.literal()})", (name, mask), d.second_name()
    if t.dtype.is_complex or t.dtype is torch.bool:
        return None
    return f"{{0}}.copy_(torch.where({{0}} > 0, {{0}}, {d.literal()}))", (name,), 0


@_write
def bitwise(d: Draft) -> Proposal | None:
    name = d.pick(lambda t: not t.dtype.is_floating_point and not t.dtype.is_complex)
    if not name:
        return None
    other = d.broadcasting(d.names[name], same_dtype=True)
    if other is None or d.rng.random() < 0.3:
        return "{0}.bitwise_not_()", (name,), d.second_name()
    return f"{{0}}.bitwise_{d.rng.choice(('and_', 'or_', 'xor_'))}({{1}})", (name, other), d.second_name()


@_write
def foreach(d: Draft) -> Proposal | None:
    first = d.pick(_number)
    if not first:
        return None
    dtype = d.names[first].dtype
    second = d.pick(lambda t: t.dtype == dtype)
    assert second is not None
    others = [d.broadcasting(d.names[n], same_dtype=True) for n in (first, second)]
    texts = ["torch._foreach_zero_([{0}, {1}])", f"torch._foreach_add_([{{0}}, {{1}}], {d.literal()})"]
    texts += [f"torch._foreach_mul_([{{0}}, {{1}}], {d.literal()})", "torch._foreach_neg_([{0}, {1}])"]
    if all(others) and d.rng.random() < 0.6:
        text = d.rng.choice(("torch._foreach_add_", "torch._foreach_copy_", "torch._foreach_mul_"))
        return f"{text}([{{0}}, {{1}}], [{{2}}, {{3}}])", (first, second, *(o for o in others if o)), 0
    return d.rng.choice(texts), (first, second), 0


@_write
def out_variant(d: Draft) -> Proposal | None:
    name = d.pick(_number)
    if not name:
        return None
    t = d.names[name]
    same = d.pick(lambda o: o.shape == t.shape and o.dtype == t.dtype)
    other = d.broadcasting(t, same_dtype=True)
    assert same is not None
    if other and d.rng.random() < 0.6:
        text = d.rng.choice(
            ("torch.add({1}, {2}, out={0})", "torch.mul({1}, {2}, out={0})", "torch.sub({1}, {2}, out={0})")
        )
        return text, (name, same, other), d.second_name()
    if t.dim() and t.shape[0] and d.rng.random() < 0.5:
        whole = d.pick(lambda o: o.dim() == t.dim() + 1 and o.shape[1:] == t.shape and o.dtype == t.dtype)
        if whole:
            return "torch.sum({1}, 0, dtype={1}.dtype, out={0})", (name, whole), d.second_name()
    texts = ["torch.neg({1}, out={0})"] + ["torch.abs({1}, out={0})"] * (not t.dtype.is_complex)
    return d.rng.choice(texts), (name, same), d.second_name()


@_write
def between_windows(d: Draft) -> Proposal | None:
    """Copies from one part of a buffer to another part of it."""
    name = d.pick(lambda t: t.dim() > 0 and t.shape[0] > 1)
    if not name:
        return None
    size = d.names[name].shape[0]
    length = d.rng.randint(1, size // 2)
    first = d.rng.randint(0, size - length)
    second = d.rng.randint(0, size - length)
    source = f"{{0}}[{second}:{second + length}]" + d.rng.choice(("", "", ".clone()"))
    return f"{{0}}[{first}:{first + length}].copy_({source})", (name,), 0


@_write
def swap(d: Draft) -> Proposal | None:
    """Elements change places through a temporary, or through an indexed read."""
    name = d.pick(lambda t: t.dim() > 0 and t.shape[0] > 1)
    if not name:
        return None
    size = d.names[name].shape[0]
    order = list(range(size))
    d.rng.shuffle(order)
    i, j = d.rng.sample(range(size), 2)
    texts = (
        f"{{0}}.copy_({{0}}[{order}])", "{0}.copy_({0}.flip(0))", f"{{0}}.copy_({{0}}.roll({d.rng.randint(1, size)}, 0))",
        f"{{0}}[[{i}, {j}]] = {{0}}[[{j}, {i}]]",
    )  # fmt: skip
    return d.rng.choice(texts), (name,), 0


def _custom(rule: Rule) -> Rule:
    CUSTOM.append(rule)
    return rule


@_custom
def custom(d: Draft) -> Proposal | None:
    name = d.pick(_number)
    if not name:
        return None
    t = d.names[name]
    other = d.pick(lambda o: o.shape == t.shape and o.dtype == t.dtype)
    texts: list[Proposal] = [(f"torch.ops.fuzz.shift_({{0}}, {d.literal()})", (name,), 0)]
    if other:
        texts += [
            ("torch.ops.fuzz.store_({0}, {1})", (name, other), d.second_name()),
            ("torch.ops.fuzz.store_and_old_({0}, {1})", (name, other), 1),
            ("torch.ops.fuzz.exchange_({0}, {1})", (name, other), 0),
            ("torch.ops.fuzz.fill_list_([{0}, {1}], 2)", (name, other), 0),
        ]
    if t.dim() and t.shape[0]:
        texts.append(("torch.ops.fuzz.head({0})", (name,), 1))
    scalar = d.pick(lambda o: o.dim() == 0 and o.dtype == t.dtype)
    if scalar:
        texts.append(("torch.ops.fuzz.sum_into({0}, out={1})", (name, scalar), d.second_name()))
    return d.rng.choice(texts)
