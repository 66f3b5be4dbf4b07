"""Faults of lowering rules, for tests/test_seeded_faults.py, that no example reaches: they are wrong for negative or large
numbers, NaN, infinities, ties, rows that are masked out, or in a branch that is not taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering import control, elementwise, indexing, load_rules, normalization, reductions, sorting
from compiler.lowering.builder import Builder
from compiler.lowering.elementwise import is_nan, like
from compiler.lowering.registry import RULES, Call

load_rules()
Patch = pytest.MonkeyPatch


@dataclasses.dataclass(frozen=True)
class Edge:
    """A change of the compiler, and a program with examples on which it makes no difference."""

    plant: Callable[[Patch], None]
    program: Callable[..., Any]
    examples: tuple[torch.Tensor, ...]


EDGES: dict[str, Edge] = {}


def edge(
    program: Callable[..., Any], *examples: torch.Tensor
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        EDGES[plant.__name__] = Edge(plant, program, examples)
        return plant

    return register


def rule(patch: Patch, target: str, change: Callable[[Builder, Call], Any]) -> None:
    patch.setitem(RULES, target, change)


def _floats(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(1))


# -- integers ------------------------------------------------------------------------------------


@edge(lambda x, y: x // y, torch.tensor([7, 8, 9]), torch.tensor([3, 3, 4]))
def division_of_negative_integers_truncates(patch: Patch) -> None:
    rule(patch, "aten.floor_divide.default", lambda b, call: hlo.divide(*call.args))


@edge(lambda x: x >> 1, torch.tensor([4, 5, 6]))
def shift_of_a_negative_integer_fills_with_zeros(patch: Patch) -> None:
    shift = hlo.shift_right_logical
    rule(patch, "aten.__rshift__.Scalar", lambda b, call: shift(call.args[0], like(b, 1, call.args[0])))


@edge(lambda x: x.to(torch.bool), torch.tensor([0, 1, 2]))
def negative_integers_are_false(patch: Patch) -> None:
    rule(patch, "aten._to_copy.default", lambda b, call: b.compare("GT", call.args[0], like(b, 0, call.args[0])))


@edge(lambda x, i: x[i], _floats(6), torch.tensor([0, 2, 3]))
def negative_positions_do_not_count_from_the_end(patch: Patch) -> None:
    patch.setattr(indexing, "_wrap", lambda b, index, size: index)


@edge(lambda x, i: x.index_fill(0, i, 3.0), _floats(6), torch.tensor([0, 2, 3]))
def negative_positions_are_one_off(patch: Patch) -> None:
    wrap = indexing._wrap
    patch.setattr(indexing, "_wrap", lambda b, index, size: wrap(b, index, size - 1))


# -- NaN and infinities --------------------------------------------------------------------------


@edge(lambda x: torch.sign(x), _floats(4))
def sign_of_nan_is_nan(patch: Patch) -> None:
    rule(patch, "aten.sign.default", lambda b, call: hlo.sign(call.args[0]))


@edge(lambda x, y: torch.fmax(x, y), _floats(4), _floats(4) + 1)
def fmax_keeps_nan(patch: Patch) -> None:
    patch.setattr(elementwise, "_skip_nan", lambda b, x, y, otherwise: otherwise)


@edge(lambda x: torch.relu(x), _floats(4))
def relu_loses_nan(patch: Patch) -> None:
    def relu(b: Builder, call: Call) -> ir.Value:
        (x,) = call.args
        return hlo.select(b.compare("GT", x, like(b, 0, x)), x, like(b, 0, x))

    rule(patch, "aten.relu.default", relu)


@edge(lambda x: x.amax(1), _floats(3, 4))
def largest_element_loses_nan(patch: Patch) -> None:
    def greatest(b: Builder, x: ir.Value, dims: Any, keep: bool = False) -> ir.Value:
        start = reductions.lowest(b.element(x))
        return reductions.fold(b, x, start, dims, lambda a, e: hlo.select(b.compare("GT", e, a), e, a), keep)

    patch.setattr(reductions, "greatest", greatest)


@edge(lambda x: x.argmax(1), _floats(3, 4))
def position_of_nan_is_not_found(patch: Patch) -> None:
    patch.setattr(sorting, "is_nan", lambda b, x: hlo.and_(is_nan(b, x), hlo.not_(is_nan(b, x))))


@edge(lambda x: x.median(), _floats(6))
def median_looks_past_nan(patch: Patch) -> None:
    def median(b: Builder, call: Call) -> ir.Value:
        values, _ = sorting.sorted_with_positions(b, call.args[0], 0, False)
        return b.reshape(sorting.cut(b, values, 0, 2, 3), ())

    rule(patch, "aten.median.default", median)


@edge(lambda x: torch.logsumexp(x, 1), _floats(3, 4))
def logsumexp_of_infinities_is_nan(patch: Patch) -> None:
    def plain(b: Builder, call: Call) -> ir.Value:
        x = call.args[0]
        peak = reductions.greatest(b, x, (1,), keep=True)
        powers = hlo.exponential(hlo.subtract(x, b.broadcast(peak, b.shape(x))))
        return b.reshape(hlo.add(hlo.log(reductions.add_up(b, powers, (1,), keep=True)), peak), call.types[0][1])

    rule(patch, "aten.logsumexp.default", plain)


@edge(lambda x: torch.softmax(x, 1), _floats(3, 4))
def softmax_overflows(patch: Patch) -> None:
    def softmax(b: Builder, x: ir.Value, dim: int) -> tuple[ir.Value, ir.Value, ir.Value]:
        powers = hlo.exponential(x)
        return powers, reductions.add_up(b, powers, (dim,), keep=True), x

    patch.setattr(normalization, "softmax_of", softmax)


@edge(lambda m, x: m * x, torch.tensor([True, False]), _floats(2))
def product_with_a_mask_is_a_choice(patch: Patch) -> None:
    patch.setattr(Builder, "opaque", lambda self, value: value)


# -- ties and halves -----------------------------------------------------------------------------


@edge(lambda x: torch.round(x), _floats(4))
def halves_are_rounded_away_from_zero(patch: Patch) -> None:
    rule(patch, "aten.round.default", lambda b, call: hlo.round_nearest_afz(call.args[0]))


@edge(lambda x: torch.sort(x, stable=True, descending=True), _floats(6))
def equal_elements_change_places(patch: Patch) -> None:
    before = sorting._before

    def not_after(b: Builder, left: ir.Value, right: ir.Value, descending: bool) -> ir.Value:
        return hlo.not_(before(b, right, left, descending)) if descending else before(b, left, right, descending)

    patch.setattr(sorting, "_before", not_after)


@edge(lambda x: torch.cummax(x, 0), _floats(6))
def the_earlier_of_equal_extremes(patch: Patch) -> None:
    running = sorting._running_extreme
    patch.setattr(sorting, "_running_extreme", lambda b, call, direction, start: running(b, call, "GT", start))


@edge(lambda e, v: torch.searchsorted(e, v, right=True), torch.tensor([0.1, 1.1, 2.1]), _floats(5))
def places_of_equal_elements_are_on_the_left(patch: Patch) -> None:
    search = RULES["aten.searchsorted.Tensor"]
    left = lambda call: dataclasses.replace(call, kwargs={**call.kwargs, "right": False})  # noqa: E731
    rule(patch, "aten.searchsorted.Tensor", lambda b, call: search(b, left(call)))


# -- branches ------------------------------------------------------------------------------------


def _branches(x: torch.Tensor, y: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    return torch.cond(first, lambda x, y: x.sin() - y, lambda x, y: x.cos() - y, (x, y))


def _writing_branches(x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    def double(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.sum()

    def lower(x: torch.Tensor) -> torch.Tensor:
        x.sub_(2)
        return x.sum()

    return torch.cond(first, double, lower, (x,))


@edge(_branches, _floats(4), _floats(4) + 1, torch.tensor(True))
def a_rule_that_only_the_other_branch_needs(patch: Patch) -> None:
    rule(patch, "aten.cos.default", lambda b, call: hlo.sine(call.args[0]))


@edge(_branches, _floats(4), _floats(4) + 1, torch.tensor(True))
def the_other_branch_takes_its_operands_in_another_order(patch: Patch) -> None:
    def conditional(scope: Any, op: Any) -> list[ir.Value]:
        types = [scope.b.tensor(*scope.type(result.type)) for result in op.outs]
        captures = [scope.value(capture) for capture in op.captures]
        new = hlo.IfOp(types, scope.b.reshape(scope.value(op.predicate), ()))
        for source, target, given in zip(op.regions, new.regions, (captures, captures[::-1]), strict=True):
            with ir.InsertionPoint(target.blocks.append()):
                hlo.return_(scope.block(source.block, given))
        return list(new.results)

    patch.setattr(control, "_conditional", conditional)


@edge(_writing_branches, _floats(40, 40), torch.tensor(True))
def results_of_the_other_branch_are_lost(patch: Patch) -> None:
    in_place = control._conditional_in_place

    def first_only(scope: Any, op: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(hlo, "not_", lambda value: scope.b.splat(False, "i1"))
            return in_place(scope, op)

    patch.setattr(control, "_conditional_in_place", first_only)
