"""Translation validation itself: operators that hide what they do are named, correct programs pass, inputs are fit to run."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from pathlib import Path
from typing import Any

import programs  # pyright: ignore[reportAttributeAccessIssue]
import pytest
import torch
from jaxlib.mlir.dialects import stablehlo as hlo

import compiler
from compiler.driver import main
from compiler.errors import CompileError, ValidationError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.lowering import load_rules
from compiler.lowering.registry import RULES
from compiler.reference import entry
from compiler.validation.inputs import arguments_of, copies
from compiler.validation.observe import observe, observed, tensor_difference
from compiler.validation.outside import _reason
from compiler.validation.validator import Validator

NAMESPACE = "fx2hlo_validation"
LIBRARIES: list[torch.library.Library] = []


@pytest.fixture(scope="module")
def hidden() -> torch.library.Library:
    """Operators whose schemas do not say what their kernels do."""
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    LIBRARIES.append(library)
    kept = torch.zeros(4)

    def define(schema: str, kernel: object, meta: object) -> None:
        library.define(schema)
        library.impl(schema.split("(")[0], kernel, "CPU")
        library.impl(schema.split("(")[0], meta, "Meta")

    def writes(x: torch.Tensor) -> torch.Tensor:
        x.numpy()[...] = 7.0
        return x.sum()

    def shrinks(x: torch.Tensor) -> torch.Tensor:
        result = x * 2
        x.untyped_storage().resize_(0)
        return result

    def nudges(x: torch.Tensor) -> torch.Tensor:
        x.numpy()[1] += 0.25
        return x.sum()

    numbers = itertools.count()

    def counts(x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, next(numbers))

    define("alias(Tensor x) -> Tensor", lambda x: x.view(4), lambda x: torch.empty_like(x))
    define("keeps(Tensor x) -> Tensor", lambda x: kept.copy_(x), lambda x: torch.empty_like(x))
    define("writes(Tensor x) -> Tensor", writes, lambda x: x.new_empty(()))
    define("copies(Tensor(a) x) -> Tensor(a)", lambda x: x.clone(), lambda x: x.view(4))
    define(
        "turns(Tensor x) -> Tensor",
        lambda x: x.t().clone(),
        lambda x: torch.empty_like(x.t(), memory_format=torch.contiguous_format),
    )
    define("widens(Tensor x) -> Tensor", lambda x: x.double(), lambda x: torch.empty_like(x))
    define("beside(Tensor x) -> Tensor", lambda x: x.as_strided((99,), (1,), 0).sum(), lambda x: x.new_empty(()))
    define("shrinks(Tensor x) -> Tensor", shrinks, lambda x: torch.empty_like(x))
    define("shrinks_(Tensor(a!) x) -> Tensor", shrinks, lambda x: torch.empty_like(x))
    define("nudges(Tensor x) -> Tensor", nudges, lambda x: x.new_empty(()))
    define("counts(Tensor x) -> Tensor", counts, lambda x: torch.empty_like(x))
    define("honest(Tensor x) -> Tensor", lambda x: x * 2, lambda x: torch.empty_like(x))
    return library  # never taken away: PyTorch's handles on its operators would be left dangling


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alias", "returns memory of operand 0 as result 0, which it does not declare"),
        ("keeps", "returns memory of an earlier result, of .*keeps.default as result 0, which it does not declare"),
        ("writes", r"writes operand 0, which it does not declare: the operand differs at \[0\]: .* before, 7.0 after"),
        ("copies", "declares result 0 as memory of operand 0, but returns other memory"),
    ],
)
def test_an_operator_that_hides_what_it_does_is_named(hidden: torch.library.Library, name: str, message: str) -> None:
    operator = getattr(torch.ops.fx2hlo_validation, name).default

    def program(x: torch.Tensor) -> torch.Tensor:
        first = operator(x)
        second = operator(x)
        return first + second

    with pytest.raises(ValidationError, match=f"{NAMESPACE}.{name}.default {message}") as caught:
        compiler.compile(program, (torch.ones(4),), validate=True)
    assert caught.value.pass_name == "import"
    assert caught.value.location.startswith(__file__) and caught.value.hint


def test_an_operator_whose_fake_kernel_has_other_strides_is_named(hidden: torch.library.Library) -> None:
    with pytest.raises(ValidationError, match=r"turns.default gives result 0 .* strides \[1, 3\]"):
        compiler.compile(lambda x: torch.ops.fx2hlo_validation.turns(x), (torch.ones(2, 3),), validate=True)


def test_an_operator_whose_fake_kernel_has_another_dtype_is_named(hidden: torch.library.Library) -> None:
    with pytest.raises(
        ValidationError, match=r"widens.default gives result 0 the dtype torch.float64; its fake"
    ) as caught:
        compiler.compile(lambda x: torch.ops.fx2hlo_validation.widens(x), (torch.ones(2, 3),), validate=True)
    assert "agree with the real one" in caught.value.hint


def test_an_operator_that_reads_beside_its_operand_is_named(hidden: torch.library.Library) -> None:
    rows = torch.ones(200)
    with pytest.raises(CompileError, match=r"beside.default fails: RuntimeError: setStorage") as caught:
        compiler.compile(lambda x: torch.ops.fx2hlo_validation.beside(x) + 1, (rows[:4],), validate=True)
    assert caught.value.location.startswith(__file__) and "memory that its operands show" in caught.value.hint


def test_inputs_that_a_check_in_the_graph_refuses_are_not_tried() -> None:
    """Near an example that has a Cholesky factor there are matrices that have none."""
    compiler.compile(lambda x: torch.linalg.cholesky(x), (torch.eye(3),), validate=True)


def test_an_operator_that_does_not_repeat_itself_is_no_fault_of_a_pass(hidden: torch.library.Library) -> None:
    module = import_graph(
        capture(lambda x: (torch.ops.fx2hlo_validation.counts(x) + 1, x * 2), (torch.ones(4),))
    ).module
    validator = Validator.of(module)
    with pytest.warns(UserWarning, match="gives other results each time it runs"):
        validator.apply("nothing", module, lambda m: None)


@pytest.mark.parametrize("name", ["shrinks", "shrinks_"])
@pytest.mark.parametrize("inside", [False, True], ids=["", "in a branch"])
def test_an_operator_that_shrinks_a_storage_is_named(hidden: torch.library.Library, name: str, inside: bool) -> None:
    operator = getattr(torch.ops.fx2hlo_validation, name).default

    def program(x: torch.Tensor) -> torch.Tensor:
        made = x.clone()
        if inside:
            return torch.cond(x.sum() > -99, lambda x: operator(x.clone()) + 1, lambda x: x * 2, (x,))
        return operator(made) + made

    with pytest.raises(ValidationError, match=f"{name}.default shrinks the storage of operand 0 to 0 bytes") as caught:
        compiler.compile(program, (torch.ones(4),), validate=True)
    assert caught.value.location.startswith(__file__) and "leave storages as large" in caught.value.hint


def test_sharing_of_many_results_is_found_in_one_walk() -> None:
    one, many = torch.ones(2), [torch.ones(2) for _ in range(20000)]
    seen = observed([*many, *many[:10], one[1:], many[3][1:]], [one])
    assert seen.sharing is not None
    assert [str(s) for s in seen.sharing[-3:]] == [
        "result 9 itself", "a view of argument 0 at byte 4", "a view of result 3 at byte 4",
    ]  # fmt: skip


def test_a_fault_in_a_long_program_is_shown_by_a_short_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 operations, one of them wrong: what is printed is that one, and as a file it fails again."""
    from compiler.lowering import load_rules
    from compiler.lowering.registry import RULES

    load_rules()

    def program(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        for step in range(60):
            k[1:3].mul_(0.5)
            x = x * 0.25 + k[1:3]
            if step == 57:
                x = torch.atan2(x, k[:2])
        return x

    right = RULES["aten.atan2.default"]
    monkeypatch.setitem(
        RULES, "aten.atan2.default", lambda b, call: right(b, dataclasses.replace(call, args=call.args[::-1]))
    )
    with pytest.raises(ValidationError) as caught:
        compiler.compile(program, (torch.ones(2, 4), torch.ones(4, 4)), validate=True)
    lines = caught.value.slice.splitlines()
    assert len(lines) == 6 and "aten.atan2.default" in lines[2] and caught.value.node == "atan2"
    (tmp_path / "slice.mlir").write_text(caught.value.slice)
    again = [str(tmp_path / "slice.mlir"), "--validate", "-t", "hlo-text", "-o", str(tmp_path / "out")]
    assert main(again) == 1
    assert "slice.mlir:3:" in (said := capsys.readouterr().err) or "slice.mlir:4:" in said
    assert "pass lower: changes what the program computes" in said


@pytest.mark.parametrize("case", programs.CASES[::6], ids=lambda c: c.id)
def test_handed_programs_pass(case: programs.Case) -> None:
    with torch.no_grad():
        compiler.compile(case.fn, tuple(case.make_inputs()), validate=True)


class Cache(torch.nn.Module):
    rows: torch.Tensor
    row: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(6, 4))
        self.register_buffer("row", self.rows[2])
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, position: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.rows.index_copy_(0, position, x * self.scale)
        return self.rows[position] + self.row


def test_a_module_and_its_export_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """State that shares memory, and positions that must stay in range; the module's own state is left alone."""
    module, inputs = Cache(), (torch.tensor([5, 2]), torch.ones(2, 4))
    with torch.no_grad():
        compiler.compile(module, inputs, validate=True)
        assert not module.rows.any()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(torch.export.export(module, inputs, strict=False), tmp_path / "p.pt2")
    compiler.compile(tmp_path / "p.pt2", inputs, validate=True)
    assert main([str(tmp_path / "p.pt2"), "--validate", "-t", "hlo-text", "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err == ""


def test_a_program_of_text_is_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_graph(capture(lambda x, y: (x[1:].add_(y), x.t()), (torch.ones(3, 2), torch.ones(2)))).module
    file = tmp_path / "p.mlir"
    file.write_text(str(module))
    assert main([str(file), "--validate", "-p", "in-place-to-out-of-place", "-o", str(tmp_path / "out")]) == 0
    from compiler.transforms.memory_state import MemoryState

    monkeypatch.setattr(MemoryState, "write", lambda *_: None)
    assert main([str(file), "--validate", "-p", "in-place-to-out-of-place", "-o", str(tmp_path / "none")]) == 1
    said = capsys.readouterr().err
    assert "pass in-place-to-out-of-place: changes what the program computes" in said and "fx.call" in said
    assert not (tmp_path / "none").exists()


MAIN = "func.func @main(%a: memref<{sizes}f32> {{alias.root = #alias.root<0, {bytes} bytes>}}) {{\n  func.return\n}}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MAIN.format(sizes="4x", bytes=999999999999), "they need 999999999999 bytes"),
        (MAIN.format(sizes="4x", bytes=99999999999999999999999), "they need 99999999999999999999999 bytes"),
        (MAIN.format(sizes="99999999999x", bytes=399999999996), "they need 399999999996 bytes"),
        (MAIN.format(sizes="1x" * 5000, bytes=4), "one has 5000 dimensions"),
    ],
)
def test_a_program_too_large_to_run_is_not_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (tmp_path / "p.mlir").write_text(text)
    assert main([str(tmp_path / "p.mlir"), "--validate", "-o", str(tmp_path / "out")]) == 1
    assert f"p.mlir:1:1: error: the program cannot be validated, no arguments can be made for it: {message}" in (
        capsys.readouterr().err
    )


MAKES = """func.func @main() -> memref<16xf32> {{
  %0 = fx.call {call} effects<> results<fresh> : () -> memref<16xf32>
  func.return %0 : memref<16xf32>
}}
"""


def test_validation_of_a_text_touches_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`from_file` with shared memory makes the file it is told of; only a trusted text may do that."""
    victim = tmp_path / "victim"
    text = MAKES.format(call=f'"aten.from_file.default"("{victim}", true, 16)')
    (tmp_path / "p.mlir").write_text(text)
    assert main([str(tmp_path / "p.mlir"), "--validate", "-o", str(tmp_path / "out")]) == 1
    assert "p.mlir:2:3: error: validation would run aten.from_file.default" in capsys.readouterr().err
    assert not victim.exists()
    assert main([str(tmp_path / "p.mlir"), "--validate", "--trust", "-o", str(tmp_path / "out")]) == 0
    assert victim.exists()


def test_validation_of_a_text_runs_no_custom_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hidden: torch.library.Library
) -> None:
    operator = torch.ops.fx2hlo_validation.honest.default
    module = import_graph(capture(lambda x: operator(x), (torch.ones(4),))).module
    (tmp_path / "p.mlir").write_text(str(module))
    arguments = [str(tmp_path / "p.mlir"), "--validate", "-o", str(tmp_path / "out")]
    assert main(arguments) == 1
    assert "honest.default, which is not PyTorch's own" in capsys.readouterr().err
    assert main([*arguments, "--trust"]) == 0


def test_no_operator_of_pytorch_that_names_a_file_is_run() -> None:
    """The schemas say so: `filename` is a text in all of them, and none of them takes a tensor."""
    named = [
        f"aten.{s.name.removeprefix('aten::')}.{s.overload_name or 'default'}"
        for s in torch._C._jit_get_all_schemas()
        if s.name.startswith("aten::") and any("file" in a.name for a in s.arguments)
    ]
    assert "aten.from_file.default" in named
    assert all(_reason(name) for name in named if hasattr(torch.ops.aten, name.split(".")[1]))


def test_a_program_that_cannot_run_is_no_failure_of_a_pass() -> None:
    module = import_graph(capture(lambda x, i: x[i + 5], (torch.ones(3), torch.tensor([0])))).module
    with pytest.raises(CompileError, match="cannot be validated, it fails on random inputs: "):
        Validator.of(module, seed=3)


def test_arguments_share_memory_as_the_program_says() -> None:
    memory = torch.arange(12.0)
    inputs = (memory[:8].view(2, 4).t(), memory[4:], torch.tensor([3, 1]), memory[2].conj())
    module = import_graph(capture(lambda a, b, i, c: a.add_(1), inputs)).module
    a, b, i, c = arguments_of(entry(module), 0, inputs)
    assert (a.stride(), b.data_ptr() - a.data_ptr(), c.data_ptr() - a.data_ptr()) == ((1, 4), 16, 8)
    assert i.tolist() == [3, 1] and not torch.equal(b, inputs[1])
    again = copies((a, b, i, c))
    again[0].fill_(-1)
    assert again[1][0] == -1 and b[0] != -1
    exact = arguments_of(entry(module), -1, inputs)
    assert all(torch.equal(one, two) for one, two in zip(exact, inputs, strict=True))


def test_runs_do_not_touch_their_arguments() -> None:
    module = import_graph(capture(lambda a: a.add_(1), (torch.zeros(2),))).module
    a = torch.zeros(2)
    seen = observe(module, [a])
    assert seen.arguments[0].tolist() == [1, 1] and a.tolist() == [0, 0] and seen.sharing[0].same_object  # type: ignore[index]


@pytest.mark.parametrize(
    ("one", "two", "message"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001]), ""),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), "differs at [1]: 2.0 before, 2.09"),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), ""),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "differs at [1]: 2 before, 3 after"),
        (torch.tensor(1), torch.tensor(1.0), "is int64[] before and float32[] after"),
        (torch.zeros(2, 2), torch.zeros(2, 2).t(), "has strides [2, 1] before and [1, 2] after"),
        (
            torch.zeros(2, dtype=torch.cfloat),
            torch.zeros(2, dtype=torch.cfloat).conj(),
            "lazy bits none before and conj",
        ),
        (torch.zeros(0), torch.zeros(0), ""),
    ],
)
def test_differences_are_told_from_rounding(one: torch.Tensor, two: torch.Tensor, message: str) -> None:
    found = tensor_difference(one, two, layout=True)
    assert found == "" if not message else message in found


LOWEST = torch.finfo(torch.float32).min


@pytest.mark.parametrize("large", [LOWEST, -1e9])
def test_a_fault_beside_large_elements_is_found(monkeypatch: pytest.MonkeyPatch, large: float) -> None:
    load_rules()
    right: Any = RULES["aten.mul.Tensor"]
    monkeypatch.setitem(
        RULES, "aten.mul.Tensor", lambda b, call: hlo.multiply(right(b, call), b.splat(1.01, "f32", (4, 4)))
    )
    with pytest.raises(ValidationError) as caught:
        compiler.compile(
            lambda x, mask: (x * 2).masked_fill(mask, large), (torch.randn(4, 4), torch.eye(4) > 0), validate=True
        )
    assert caught.value.pass_name == "lower"


def test_a_rounding_that_a_compiler_leaves_out_is_no_fault() -> None:
    x = torch.linspace(-2, 2, 64)
    compiled = compiler.compile(lambda x: (x + 1e4) - 1e4, (x,), validate=True)
    assert (compiled(x) - x).abs().max() < 1e-3
    compiler.compile(lambda x: x.add_(1e4).sub_(1e4), (x.clone(),), validate=True)


def test_a_small_undeclared_write_beside_a_large_element_is_found(hidden: torch.library.Library) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.fx2hlo_validation.nudges(x * 1)

    with pytest.raises(ValidationError, match="writes operand 0, which it does not declare"):
        compiler.compile(program, (torch.tensor([1e9, 1.0]),), validate=True)


def test_results_without_elements_need_no_kernel() -> None:
    """PyTorch multiplies a list of such tensors in place, and has no product of them out of place."""

    def program(x: torch.Tensor) -> torch.Tensor:
        torch._foreach_mul_([x, x], 2)
        return torch.empty_like(x).copy_(x)

    x = torch.ones(0, dtype=torch.float8_e4m3fn)
    assert compiler.compile(program, (x,), validate=True)(x).dtype == torch.float8_e4m3fn


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_of_half_precision_rounds(dtype: torch.dtype) -> None:
    """Its schema says that it may draw, for dropout; without, it is arithmetic like any other."""
    attention = torch.nn.functional.scaled_dot_product_attention
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        inputs = tuple(torch.randn(1, 2, 5, 8, generator=generator).to(dtype) for _ in range(3))
        compiler.compile(lambda q, k, v: attention(q, k, v, is_causal=True), inputs, validate=True)


def test_a_program_that_fails_on_what_its_first_call_left() -> None:
    def counts_down(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result = y // x
        x.sub_(1)
        return result

    compiler.compile(counts_down, (torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)), validate=True)
