"""Statements that call one function in all its forms: as a value, in place, with `out=`, and on lists.

Every function here is exact on small integers. A form that PyTorch does not have is rejected when the statement is tried.
"""

from __future__ import annotations

import torch

from tools.fuzz.generate import Draft, Proposal, Rule

OPERATORS: list[Rule] = []

UNARY = (
    "abs", "absolute", "neg", "negative", "sign", "sgn", "square", "relu", "round", "trunc", "fix", "floor", "ceil",
    "logical_not", "bitwise_not", "nan_to_num", "conj_physical", "positive", "signbit", "isnan", "frac",
)  # fmt: skip
WITH_NUMBERS = (
    "clamp -1, 2", "clip None, 2", "clamp_min 1", "clamp_max 1", "pow 2", "remainder 3", "fmod 2", "gt 0", "le 1", "eq 1",
    "ne 2", "lt 2", "greater_equal 0", "floor_divide 2", "threshold 1, 2", "tril 0", "triu 1", "bitwise_and 3", "bitwise_or 4",
    "bitwise_xor 5", "bitwise_left_shift 1", "bitwise_right_shift 1", "add 2", "sub 1", "multiply 2", "true_divide 1",
    "div 2, rounding_mode='floor'", "div 2, rounding_mode='trunc'", "cumsum 0", "cumsum -1", "cumprod -1", "flip 0",
)  # fmt: skip
BINARY = (
    "add", "sub", "subtract", "mul", "multiply", "maximum", "minimum", "fmax", "fmin", "gt", "ge", "less", "less_equal", "eq",
    "not_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "remainder", "fmod",
    "floor_divide", "gcd", "lcm", "clamp_min", "clamp_max", "heaviside", "copysign",
)  # fmt: skip
TERNARY = ("addcmul {1}, {2}", "addcmul {1}, {2}, value=2", "clamp {1}, {2}", "lerp {1}, 2.0", "lerp {1}, {2}")
MATRICES = {
    "addmm": ("nm", "nk", "km"), "addmv": ("n", "nm", "m"), "addr": ("nm", "n", "m"), "baddbmm": ("bnm", "bnk", "bkm"),
    "addbmm": ("nm", "bnk", "bkm"),
}  # fmt: skip
OPERATORS_IN_PLACE = ("+=", "-=", "*=", "//=", "&=", "|=", "^=", "<<=", ">>=", "%=")
LISTS = ("abs", "neg", "sign", "round", "trunc", "floor", "ceil", "zero")
LISTS_BINARY = ("add", "sub", "mul", "maximum", "minimum", "clamp_min", "clamp_max", "copy")


def _rule(rule: Rule) -> Rule:
    OPERATORS.append(rule)
    return rule


def _forms(d: Draft, name: str, target: str, rest: str, operands: tuple[str, ...], source: str | None) -> Proposal:
    """`name` on `source` into the target, or on the target in place, or as a value. `rest` has {1}, {2}, ... for operands."""
    form = d.rng.random()
    method = hasattr(torch.Tensor, f"{name}_")
    if form < 0.4 and (method or hasattr(torch, f"{name}_")):
        text = f"{{0}}.{name}_({rest})" if method else f"torch.{name}_({{0}}, {rest})"
        return text, (target, *operands), d.second_name()
    rest = f", {rest}" if rest else ""
    if form < 0.8 and source is not None:
        return f"torch.{name}({{{len(operands) + 1}}}{rest}, out={{0}})", (target, *operands, source), d.second_name()
    return f"torch.{name}({{0}}{rest})", (target, *operands), 1


def _alike(d: Draft, target: str) -> str | None:
    """Another tensor of the target's shape, of its dtype mostly."""
    t = d.names[target]
    dtype = t.dtype if d.rng.random() < 0.8 else None
    return d.pick(lambda o: o.shape == t.shape and dtype in (None, o.dtype))


@_rule
def unary(d: Draft) -> Proposal | None:
    target = d.pick()
    if target is None:
        return None
    if d.rng.random() < 0.4:
        return _forms(d, d.rng.choice(UNARY), target, "", (), _alike(d, target))
    name, _, rest = d.rng.choice(WITH_NUMBERS).partition(" ")
    return _forms(d, name, target, f"[{rest}]" if name == "flip" else rest, (), _alike(d, target))


@_rule
def binary(d: Draft) -> Proposal | None:
    target = d.pick()
    other = d.broadcasting(d.names[target], same_dtype=d.rng.random() < 0.7) if target else None
    if target is None or other is None:
        return None
    return _forms(d, d.rng.choice(BINARY), target, "{1}", (other,), _alike(d, target))


OPERATORS.append(binary)


@_rule
def ternary(d: Draft) -> Proposal | None:
    target = d.pick(lambda t: not t.dtype.is_complex)
    if target is None:
        return None
    others = [d.broadcasting(d.names[target], same_dtype=True) for _ in range(2)]
    if others[0] is None or others[1] is None:
        return None
    name, _, rest = d.rng.choice(TERNARY).partition(" ")
    return _forms(d, name, target, rest, (others[0], others[1]), _alike(d, target))


@_rule
def augmented(d: Draft) -> Proposal | None:
    """`x += y`: in place, and the name is bound to the same tensor again."""
    target = d.pick()
    if target is None:
        return None
    operator = d.rng.choice(OPERATORS_IN_PLACE)
    other = d.broadcasting(d.names[target]) if d.rng.random() < 0.6 and operator not in ("<<=", ">>=") else None
    if other is not None:
        return f"{{0}} {operator} {{1}}", (target, other), 0
    return f"{{0}} {operator} {d.rng.choice((1, 2, 3))}", (target,), 0


@_rule
def matrices(d: Draft) -> Proposal | None:
    """A product added to a tensor."""
    exact = (torch.float32, torch.float64, torch.int32, torch.int64)
    name = d.rng.choice(list(MATRICES))
    first, *factors = MATRICES[name]
    target = d.pick(lambda t: t.dtype in exact and t.dim() == len(first))
    if target is None:
        return None
    t = d.names[target]
    sizes = dict(zip(first, t.shape)) | {axis: d.rng.choice(d.dims) for axis in "bmk" if axis not in first}
    operands: list[str] = []
    texts: list[str] = []
    for axes in factors:
        shape = tuple(sizes[axis] for axis in axes)
        found = d.pick(lambda o, shape=shape: o.dtype == t.dtype and o.shape == shape)
        texts.append(
            f"{{{len(operands) + 1}}}" if found else f"torch.full({list(shape)}, {d.literal()}, dtype={t.dtype})"
        )
        operands += [found] if found else []
    scales = d.rng.choice(("", ", beta=2", ", beta=0", ", alpha=2"))
    return _forms(d, name, target, f"{', '.join(texts)}{scales}", tuple(operands), _alike(d, target))


@_rule
def lists(d: Draft) -> Proposal | None:
    """`torch._foreach_*_` on lists in which one tensor may be twice."""
    targets = [d.pick(lambda t: not t.dtype.is_complex) for _ in range(d.rng.choice((1, 2, 2, 3)))]
    names = [name for name in targets if name is not None]
    if not names:
        return None
    several = ", ".join(f"{{{k}}}" for k in range(len(names)))
    if d.rng.random() < 0.25:
        return f"torch._foreach_{d.rng.choice(LISTS)}_([{several}])", tuple(names), 0
    name, numbers = d.rng.choice(LISTS_BINARY), [d.literal() for _ in names]
    if name != "copy" and d.rng.random() < 0.4:
        other = d.rng.choice((str(numbers[0]), str(numbers)))
        return f"torch._foreach_{name}_([{several}], {other})", tuple(names), 0
    others = [d.broadcasting(d.names[n], same_dtype=d.rng.random() < 0.9) for n in names]
    if d.rng.random() < 0.3:
        scalar = d.pick(lambda t: t.dim() == 0 and t.dtype == d.names[names[0]].dtype)
        if scalar is not None and name in ("add", "mul"):
            return f"torch._foreach_{name}_([{several}], {{{len(names)}}})", (*names, scalar), 0
    given = ", ".join(f"{{{k + len(names)}}}" for k in range(len(names)))
    if any(other is None for other in others):
        return None
    return f"torch._foreach_{name}_([{several}], [{given}])", (*names, *(o for o in others if o)), 0


@_rule
def into(d: Draft) -> Proposal | None:
    """Functions that join, pick or reduce, with a result of theirs written into a tensor."""
    target = d.pick()
    if target is None:
        return None
    t = d.names[target]
    if not t.dim():
        whole = d.pick(lambda o: o.dtype == t.dtype and o.dim() > 0)
        texts = [
            "sum({1}, dtype={1}.dtype, out={0})",
            "amax({1}, list(range({1}.dim())), out={0})",
            "trace({1}, out={0})",
        ]
        return (f"torch.{d.rng.choice(texts)}", (target, whole), d.second_name()) if whole else None
    dim = d.rng.randrange(t.dim())
    kind = d.rng.choice(("join", "pick", "where", "reduce", "reduce", "matmul"))
    if kind == "reduce":
        longer = d.pick(
            lambda o: o.dtype == t.dtype and o.dim() == t.dim() + 1 and o.shape[:dim] + o.shape[dim + 1 :] == t.shape
        )
        alike = longer or _alike(d, target)
        if alike is None:
            return None
        whole = "{1}" if longer else f"torch.stack([{{1}}, {{1}}], {dim})"
        text = d.rng.choice((
            f"sum({whole}, {dim}, dtype={t.dtype}, out={{0}})", f"amax({whole}, {dim}, out={{0}})",
            f"amin({whole}, {dim}, out={{0}})", f"prod({whole}, {dim}, dtype={t.dtype}, out={{0}})",
            f"any({whole}, {dim}, out={{0}})", f"all({whole}, {dim}, out={{0}})",
        ))  # fmt: skip
        return f"torch.{text}", (target, alike), d.second_name()
    if kind == "where":
        mask, one, other = d.broadcasting(t), d.broadcasting(t, same_dtype=True), d.broadcasting(t, same_dtype=True)
        if mask is None or one is None or other is None:
            return None
        asked = "{1}" if d.names[mask].dtype is torch.bool else "({1} == 1)"
        return f"torch.where({asked}, {{2}}, {{3}}, out={{0}})", (target, mask, one, other), d.second_name()
    if kind == "matmul":
        left = d.pick(lambda o: o.dim() >= 1 and o.dtype == t.dtype and o.dtype.is_floating_point and o.itemsize > 2)
        right = d.pick(
            lambda o: o.dim() >= 1 and left is not None and o.dtype == t.dtype and o.shape[0] == d.names[left].shape[-1]
        )
        if left is None or right is None:
            return None
        return "torch.matmul({1}, {2}, out={0})", (target, left, right), d.second_name()
    rest = t.shape[:dim] + t.shape[dim + 1 :]
    if kind == "join":
        part = d.pick(
            lambda o: o.dtype == t.dtype and o.dim() == t.dim() and o.shape[:dim] + o.shape[dim + 1 :] == rest
        )
        if part is not None and d.names[part].shape[dim] and t.shape[dim] % d.names[part].shape[dim] == 0:
            count = t.shape[dim] // d.names[part].shape[dim]
            return f"torch.cat([{', '.join(['{1}'] * count)}], {dim}, out={{0}})", (target, part), d.second_name()
        part = d.pick(lambda o: o.dtype == t.dtype and o.shape == rest)
        many = ", ".join(["{1}"] * t.shape[dim])
        return (f"torch.stack([{many}], {dim}, out={{0}})", (target, part), d.second_name()) if part else None
    source = d.pick(lambda o: o.dtype == t.dtype and o.dim() == t.dim() and o.shape[:dim] + o.shape[dim + 1 :] == rest)
    if source is None or not d.names[source].shape[dim]:
        return None
    index = [d.rng.randrange(d.names[source].shape[dim]) for _ in range(t.shape[dim])]
    text = f"torch.index_select({{1}}, {dim}, torch.tensor({index}, dtype=torch.int64), out={{0}})"
    if d.rng.random() < 0.4:
        view = [1] * t.dim()
        view[dim] = -1
        places = f"torch.tensor({index}, dtype=torch.int64).view({view}).expand({list(t.shape)})"
        text = f"torch.gather({{1}}, {dim}, {places}, out={{0}})"
    return text, (target, source), d.second_name()


@_rule
def put(d: Draft) -> Proposal | None:
    """`put_` and `masked_scatter_`: elements one after the other, whatever the shape."""
    target = d.pick(lambda t: t.numel() > 0)
    if target is None:
        return None
    t = d.names[target]
    if d.rng.random() < 0.5:
        mask = d.pick(lambda m: m.dtype is torch.bool and m.dim() <= t.dim() and all(
            n in (1, k) for n, k in zip(reversed(m.shape), reversed(t.shape))
        ))  # fmt: skip
        source = d.pick(lambda o: o.dtype == t.dtype and o.numel() >= t.numel())
        return ("{0}.masked_scatter_({1}, {2})", (target, mask, source), d.second_name()) if mask and source else None
    source = d.pick(lambda o: o.dtype == t.dtype and 0 < o.numel() <= t.numel())
    if source is None:
        return None
    places = d.rng.sample(range(-t.numel(), 0) if d.rng.random() < 0.2 else range(t.numel()), d.names[source].numel())
    adds = d.rng.random() < 0.3 and t.dtype is not torch.bool
    text = f"{{0}}.put_(torch.tensor({places}).view({{1}}.shape), {{1}}, accumulate={adds})"
    return text, (target, source), d.second_name()


@_rule
def reduce_by_index(d: Draft) -> Proposal | None:
    """`scatter_reduce_`, `index_reduce_` and `scatter_` with `reduce`: several elements may come together in one place."""
    target = d.pick(lambda t: t.dim() > 0 and t.numel() > 0 and t.dtype is not torch.bool and not t.dtype.is_complex)
    if target is None:
        return None
    t = d.names[target]
    dim = d.rng.randrange(t.dim())
    count = d.rng.randint(1, 3)
    shape = (*t.shape[:dim], count, *t.shape[dim + 1 :])
    source = d.pick(lambda o: o.dtype == t.dtype and o.shape == shape)
    value = "{1}" if source else f"torch.full({list(shape)}, {d.literal()}, dtype={t.dtype})"
    index = f"torch.tensor({[d.rng.randrange(t.shape[dim]) for _ in range(count)]})"
    operands = (target, source) if source else (target,)
    own = d.rng.random() < 0.6
    if d.rng.random() < 0.4:
        kind = d.rng.choice(("prod", "amax", "amin"))
        return f"{{0}}.index_reduce_({dim}, {index}, {value}, '{kind}', include_self={own})", operands, d.second_name()
    view = [1] * t.dim()
    view[dim] = count
    index = f"{index}.view({view}).expand({list(shape)})"
    if d.rng.random() < 0.2:
        return f"{{0}}.scatter_({dim}, {index}, {value}, reduce='{d.rng.choice(('add', 'multiply'))}')", operands, 0
    kind = d.rng.choice(("sum", "prod", "amax", "amin"))
    return f"{{0}}.scatter_reduce_({dim}, {index}, {value}, '{kind}', include_self={own})", operands, d.second_name()


@_rule
def put_at_several(d: Draft) -> Proposal | None:
    """`index_put_` with an index for each of several dimensions, next to one another or apart."""
    target = d.pick(lambda t: t.dim() > 1 and t.numel() > 0)
    if target is None:
        return None
    t = d.names[target]
    dims = sorted(d.rng.sample(range(t.dim()), d.rng.randint(2, min(t.dim(), 3))))
    count = d.rng.randint(1, 2)
    places = [
        "None" if k not in dims else f"torch.tensor({[d.rng.randrange(t.shape[k]) for _ in range(count)]})"
        for k in range(t.dim())
    ]
    adds = d.rng.random() < 0.5 and t.dtype is not torch.bool
    source = d.pick(lambda o: o.dtype == t.dtype and o.dim() == 0) if d.rng.random() < 0.5 else None
    value = "{1}" if source else f"torch.full([], {d.literal()}, dtype={t.dtype})"
    operands = (target, source) if source else (target,)
    if "None" not in places and d.rng.random() < 0.6:
        return f"{{0}}.index_put_(({', '.join(places)},), {value}, accumulate={adds})", operands, d.second_name()
    subscript = ", ".join(":" if place == "None" else place for place in places)
    return f"{{0}}[{subscript}] {'+=' if adds else '='} {value}", operands, 0


@_rule
def own_geometry(d: Draft) -> Proposal | None:
    """Operators that change a handle's own geometry. Arguments keep theirs, and their version, which these would raise."""
    given = {a.untyped_storage()._cdata for a in d.runs[0].arguments}
    target = d.pick(lambda t: t.untyped_storage()._cdata not in given)
    if target is None:
        return None
    t = d.names[target]
    texts = ["squeeze_()", "unsqueeze_(-1)", "resize_({0}.shape)", "resize_as_({0})", "detach_()", "set_({0})"]
    if t.dim():
        a, b = d.rng.randrange(t.dim()), d.rng.randrange(t.dim())
        texts += [f"transpose_({a}, {b})", f"swapaxes_({a}, {b})", f"swapdims_({a}, {b})", f"squeeze_({a})"]
    if t.dim() <= 2:
        texts.append("t_()")
    if t.numel():
        texts.append("as_strided_([1], [1], {0}.storage_offset())")
    other = d.pick(lambda o: o.dtype == t.dtype)
    if other is not None and d.rng.random() < 0.15:
        return "{0}.set_({1})", (target, other), 0
    return f"{{0}}.{d.rng.choice(texts)}", (target,), 0
