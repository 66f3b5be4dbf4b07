"""Operators with several right answers: all that is determined is compared, and no fault hides behind what is not."""

from __future__ import annotations

import warnings
from typing import Any, cast

import pytest
import torch
from jaxlib.mlir.dialects import stablehlo as hlo
from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.errors import ValidationError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.lowering import load_rules
from compiler.lowering.registry import RULES
from compiler.reference import entry
from compiler.transforms.in_place_to_out_of_place import make_out_of_place
from compiler.validation.validator import Validator


def grown(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty(0)
    made.resize_(4)[:2].copy_(x[:2])
    return made


def every_other(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.empty(8)
    made[::2].copy_(x[:4])
    return made, made.sum()


def placed(x: torch.Tensor) -> tuple[Any, ...]:
    return x.kthvalue(3), x.median(0), x.nanmedian(0), x.mode(0, keepdim=True), torch.argsort(x)


TIES = {
    "topk": (lambda x: torch.topk(x, 3), torch.ones(8)),
    "unsorted topk": (lambda x: torch.topk(x.relu(), 5, sorted=False), torch.ones(200)),
    "sort": (lambda x: torch.sort(x, descending=True), torch.zeros(40)),
    "sort along a column": (lambda x: torch.sort(x.t(), dim=0), torch.zeros(3, 30)),
    "ranks": (placed, torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])),
    "ties in a branch": (
        lambda x: torch.cond(x.sum() > 0, lambda x: torch.topk(x, 2)[1], lambda x: torch.sort(x)[1][:2], (x,)),
        torch.ones(40),
    ),
    "empty_like": (lambda x: torch.empty_like(x), torch.ones(300)),
    "all kinds": (lambda x: (x.new_empty(3), x.new_empty_strided((2, 2), (1, 2)), torch.empty(4)), torch.ones(3)),
    "as places": (lambda x: x[torch.empty(3, dtype=torch.int64)], torch.ones(3)),
    "resized": (grown, torch.ones(4)),
    "written in part": (every_other, torch.ones(4)),
    "cancelled": (lambda x: (x.sum(), (x - x.mean()).sum()), torch.rand(1000) * 1e4),
    "lstm": (torch.nn.LSTM(4, 4).eval(), torch.ones(3, 2, 4)),
}


@pytest.mark.filterwarnings("error:validation of pass")
@pytest.mark.parametrize("name", TIES)
def test_answers_that_are_not_unique_are_compared_and_no_fault(name: str) -> None:
    """Equal elements, memory that nobody wrote, and sums of which only rounding is left."""
    program, example = TIES[name]
    with torch.no_grad():
        compiler.compile(program, (example,), validate=True)


def factors(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Whose signs are open, and two results that do not depend on them."""
    u, s, vh = torch.linalg.svd(x)
    y[1:].mul_(2.0)
    return u, (u[:, :3] * s) @ vh, y[1:], y - 1.0


FACTORED = (torch.rand(4, 3, generator=torch.Generator().manual_seed(3)), torch.ones(4))


def test_what_has_no_unique_answer_is_told_once() -> None:
    with pytest.warns(
        UserWarning, match=r"compared all but what is not determined: output 0 .*_linalg_svd.default is not"
    ):
        compiler.compile(factors, FACTORED, validate=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiler.compile(lambda x: torch.linalg.svd(x)[1], FACTORED[:1], validate=True)


@pytest.mark.filterwarnings("ignore:validation of pass")
@pytest.mark.parametrize(
    ("program", "example"),
    [
        (lambda x: torch.linalg.svd(x), torch.rand(2, 3, 5)),
        (lambda x: torch.linalg.eigh(x @ x.mT), torch.eye(3)),
        (lambda x: torch.linalg.qr(x), torch.ones(4, 4)),
    ],
    ids=["svd", "eigh of a multiple of one", "qr of rank one"],
)
def test_factors_with_other_signs_are_no_fault(program: Any, example: torch.Tensor) -> None:
    compiler.compile(program, (example,), validate=True)


@pytest.mark.filterwarnings("ignore:validation of pass")
def test_a_fault_beside_an_open_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pass, and in the executable."""
    from jaxlib.mlir.dialects import stablehlo

    from compiler.lowering import load_rules
    from compiler.lowering.registry import RULES
    from compiler.runtime.outputs import Outputs

    load_rules()
    right, right_rule = Outputs.__init__, RULES["aten.sub.Tensor"]

    def wrong(self: Outputs, signature: Any) -> None:
        right(self, signature)
        self._plan = tuple(
            s._replace(window=s.window._replace(offset=0)) if s.kind == "argument_view" else s for s in self._plan
        )

    with (
        monkeypatch.context() as patch,
        pytest.raises(ValidationError, match="pass run: .* output 2 differs") as caught,
    ):
        patch.setattr(Outputs, "__init__", wrong)
        compiler.compile(factors, FACTORED, validate=True)
    with monkeypatch.context() as patch, pytest.raises(ValidationError, match="pass lower: .* output 3 differs"):
        patch.setitem(RULES, "aten.sub.Tensor", lambda b, call: stablehlo.negate(cast(Any, right_rule(b, call))))
        compiler.compile(factors, FACTORED, validate=True)
    assert caught.value.pass_name == "run"


@pytest.mark.parametrize(
    ("target", "position", "program"),
    [
        ("aten.topk.default", 1, lambda x: torch.topk(x, 3)[1]),
        ("aten.sort.default", 1, lambda x: torch.sort(x)[1]),
        ("aten.ge.Scalar", 0, lambda x: x * 0.5 >= 0.5),
    ],
    ids=["topk", "sort", "a step"],
)
def test_a_fault_that_shows_at_equal_elements_only_is_found(
    monkeypatch: pytest.MonkeyPatch, target: str, position: int, program: Any
) -> None:
    """Places of equal elements that are none of theirs; `>` for `>=`, which no noise may excuse."""
    from jaxlib.mlir.dialects import stablehlo

    from compiler.lowering import load_rules
    from compiler.lowering.registry import RULES

    load_rules()
    right = RULES[target]

    def wrong(b: Any, call: Any) -> Any:
        if target == "aten.ge.Scalar":
            return RULES["aten.gt.Scalar"](b, call)
        results = list(cast(Any, right(b, call)))
        results[position] = stablehlo.add(
            results[position], b.splat(1, b.element(results[position]), b.shape(results[position]))
        )
        return results

    monkeypatch.setitem(RULES, target, wrong)
    with pytest.raises(ValidationError) as caught:
        compiler.compile(program, (torch.ones(40),), validate=True)
    assert caught.value.pass_name == "lower"


def vectors_of_zero(b: Any, values: Any) -> list[Any]:
    return [values[0], b.splat(0.0, "f32", (3, 3))]


def vectors_too_long(b: Any, values: Any) -> list[Any]:
    return [values[0], hlo.multiply(values[1], b.splat(1.01, "f32", (3, 3)))]


def larger(b: Any, value: Any) -> Any:
    return hlo.multiply(value, b.splat(1.01, b.element(value), b.shape(value)))


@pytest.mark.parametrize(
    ("target", "fault"),
    [("_linalg_eigh.default", vectors_of_zero), ("_linalg_eigh.default", vectors_too_long), ("mul.Tensor", larger)],
)
@pytest.mark.parametrize(
    "x", [torch.eye(3), torch.tensor([[2.0, 1, 0], [1, -1, 3], [0, 3, 5]])], ids=["equal", "apart"]
)
def test_a_fault_does_not_hide_behind_factors(
    monkeypatch: pytest.MonkeyPatch, target: str, fault: Any, x: torch.Tensor
) -> None:
    """Eigenvectors are unique to signs at most; a wrong one is wrong all the same, and so is what is made of them."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigh(x)[1] * x.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.compile(program, (x,), validate=True)
    load_rules()
    right: Any = RULES[f"aten.{target}"]
    monkeypatch.setitem(RULES, f"aten.{target}", lambda b, call: fault(b, right(b, call)))
    with pytest.raises(ValidationError) as caught:
        compiler.compile(program, (x,), validate=True)
    assert caught.value.pass_name == "lower"


@pytest.mark.parametrize("values", [False, True], ids=["handles", "values"])
def test_a_pass_that_exchanges_factors_is_found(values: bool) -> None:
    module = import_graph(capture(lambda x: torch.linalg.svd(x)[::2], (torch.randn(3, 3),))).module
    if values:
        make_out_of_place(entry(module))

    def exchange(module: ModuleOp) -> None:
        last = entry(module).body.block.last_op
        assert last is not None
        last.operands = [*last.operands][::-1]

    with pytest.raises(ValidationError, match="pass exchange"):
        Validator.of(module).apply("exchange", module, exchange)
