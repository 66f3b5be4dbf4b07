"""One ATen call while it is written down: its arguments as attributes, and what its schema says about this call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._ops import OpOverload
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from compiler.frontend import random
from compiler.frontend.schemas import Facts, bind, draws_now, facts, out_twin
from dialects.calls import ValueForm, ValueFormData, ValueOutput
from dialects.fx import Operand


@dataclass
class RecordedCall:
    """One recorded call while it is turned into a step."""

    positional: list[Attribute] = field(default_factory=list)
    keywords: dict[str, Attribute] = field(default_factory=dict)
    operands: list[int] = field(default_factory=list)
    tensors: list[torch.Tensor | None] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    of_parameter: dict[str, list[int]] = field(default_factory=dict)


def renumber(argument: Attribute, numbers: dict[int, int]) -> Attribute:
    if isinstance(argument, Operand):
        return Operand(numbers[argument.data])
    if isinstance(argument, ArrayAttr):
        return ArrayAttr([renumber(item, numbers) for item in argument.data])
    return argument


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def draws(func: OpOverload, known: Facts, args: Any, kwargs: Any) -> bool:
    return random.untagged(func) or (known.random and draws_now(known, arguments_by_name(func, args, kwargs)))


def arguments_by_name(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Actual arguments by name, defaults filled in."""
    named = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    named.update({p.name: v for p, v in bind(facts(func), args, kwargs)})
    return named


def without_writes(func: OpOverload, known: Facts) -> Facts:
    """The facts of a silent writer in a call that writes its out= operands at most."""
    outs = [p for p in known.parameters if p.out]
    parameters = tuple(replace(p, writes=p.out) for p in known.parameters)
    return replace(known, parameters=parameters, twin=out_twin(func, outs) if outs else None)


def alias_sets(known: Facts, func: OpOverload, count: int) -> list[frozenset[str]]:
    """The alias sets of each result tensor; a list result has one for all its elements."""
    if len(known.returns) == count:
        return list(known.returns)
    everything = frozenset().union(*known.returns) if known.returns else frozenset()
    return [everything] * count


def value_form(known: Facts, call: RecordedCall) -> ValueForm | None:
    twin = known.twin
    if twin is None or not call.writes:
        return None
    outputs: list[ValueOutput] = []
    for kind, which in twin.outputs:
        if kind == "result":
            outputs.append(ValueOutput("result", int(which)))
            continue
        numbers = call.of_parameter.get(str(which), [])
        if len(numbers) != 1:
            return None
        outputs.append(ValueOutput("write", numbers[0]))
    return ValueForm(ValueFormData(twin.target, tuple(outputs), twin.drop))
