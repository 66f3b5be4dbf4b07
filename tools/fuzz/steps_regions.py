"""Statements with a body that runs now and then, or again and again; bodies close over tensors, and may write them."""

from __future__ import annotations

import torch

from tools.fuzz.generate import Draft, Proposal, Rule

REGIONS: list[Rule] = []


def _rule(rule: Rule) -> Rule:
    REGIONS.append(rule)
    return rule


def _operands(d: Draft, *, dense: bool) -> tuple[str, str, str, str] | None:
    """What a body works on, what it closes over, what it may write, and what a condition asks."""
    name = d.pick(
        lambda t: t.dtype in _EXACT and t.numel() > 0 and (t.stride() == torch.empty(t.shape).stride() or not dense)
    )
    other = d.broadcasting(d.names[name], same_dtype=True) if name else None
    written = d.pick(lambda t: t.dtype in _EXACT and t.numel() > 0)
    asked = d.pick(lambda t: t.dtype in _EXACT and t.numel() > 0)
    return (name, other, written, asked) if name and other and written and asked else None


_EXACT = (torch.float32, torch.float64, torch.int32, torch.int64, torch.int16, torch.bfloat16)


def _result(d: Draft, x: str = "x") -> str:
    """An expression of x's own geometry."""
    texts = (
        f"{x} + 1",
        f"{x} * 2",
        f"{x}.clone()",
        f"{x}.abs()",
        f"{x} - {{1}}",
        f"{x} + {{1}}",
        f"torch.maximum({x}, {{1}})",
    )
    return d.rng.choice(texts)


def _effect(d: Draft, result: str, allowed: bool = True) -> str:
    """The result, now and then after a write into memory from outside."""
    if not allowed or d.rng.random() < 0.6:
        return result
    write = d.rng.choice(("{2}.add_(1)", "{2}.copy_({2} * 2)", "{2}[:1].fill_(2)", "{2}.zero_()", "{2}.sub_(1)"))
    return f"({write}, {result})[1]"


def _stands_alone(d: Draft, operands: tuple[str, ...]) -> bool:
    """Whether a loop may write: one that is given another tensor on memory that it writes is refused, or carries that memory."""
    memories = {name: d.names[name].untyped_storage()._cdata for name in operands}
    others = [memory for name, memory in memories.items() if name != operands[2]]
    return memories[operands[2]] not in (*others, memories[operands[0]])


def _question(d: Draft) -> str:
    return d.rng.choice(("{3}.sum() > 0", "({3} == 1).any()", "({3} <= 2).all()", "{3}.reshape(-1)[0] > 1"))


@_rule
def choice(d: Draft) -> Proposal | None:
    operands = _operands(d, dense=False)
    if operands is None:
        return None
    if d.rng.random() < 0.3:
        texts = [_effect(d, d.rng.choice(("{0}.sum(dtype={0}.dtype)", "{0}.amax()", "{1}.amin()"))) for _ in range(2)]
        return f"cond({_question(d)}, lambda: {texts[0]}, lambda: {texts[1]})", operands, 1
    then, otherwise = (_effect(d, _result(d)) for _ in range(2))
    return f"cond({_question(d)}, lambda x: {then}, lambda x: {otherwise}, ({{0}},))", operands, 1


@_rule
def loop(d: Draft) -> Proposal | None:
    operands = _operands(d, dense=True)
    if operands is None:
        return None
    alone = _stands_alone(d, operands)
    inner = _result(d)
    if d.rng.random() < 0.3:
        inner = f"cond(i % 2 == 0, lambda x: {_effect(d, _result(d), alone)}, lambda x: {_result(d)}, (x,))"
    condition = d.rng.choice(
        ("i < 3", "i < 2", "torch.logical_and(i < 3, ({3} == 1).any())", "torch.logical_and(i < 3, x.sum() < 9)")
    )
    body = f"lambda i, x: (i + 1, {_effect(d, inner, alone)})"
    return f"while_loop(lambda i, x: {condition}, {body}, (torch.tensor(0), {{0}}))", operands, 2


@_rule
def over_rows(d: Draft) -> Proposal | None:
    operands = _operands(d, dense=True)
    if operands is None or not d.names[operands[0]].dim():
        return None
    step = d.rng.choice(("(c + row, c - row)", "(c - row, row * 2)", "(torch.maximum(c, row), c + 1)"))
    return f"scan(lambda c, row: {step}, {{0}}[-1].clone(), {{0}})", operands[:1], 2
