"""Imports: every case verifies and replays with each claim of the IR checked; effects, aliases and refusals by example."""

from __future__ import annotations

import inspect

import custom_ops
import oracle
import programs
import pytest
import torch
from replay import replay
from xdsl.dialects.builtin import MemRefType

from compiler.errors import CompileError, UnsupportedError
from compiler.frontend import import_program
from compiler.program import Program
from dialects.fx import CallOp, ConstantOp
from dialects.types import geometry, lazy_bits


def calls(program: Program) -> list[CallOp]:
    return [op for op in program.module.walk() if isinstance(op, CallOp)]


def targets(program: Program) -> list[str]:
    return [call.target.data.removeprefix("aten.") for call in calls(program)]


def roots(program: Program) -> list[tuple[int, int]]:
    function = next(iter(program.module.body.block.ops))
    return [tuple(a.data["alias.root"].data) for a in function.properties["arg_attrs"].data]


@pytest.mark.parametrize("case", programs.CASES, ids=lambda c: c.id)
def test_case(case) -> None:
    program = import_program(case.fn, case.make_inputs())
    program.module.verify()
    assert oracle.compare(case, lambda *args: replay(program, args)) == []


def test_a_write_through_views_states_effects_aliases_and_twin() -> None:
    def f(x, v):
        x[1, 2:] = v

    program = import_program(f, (torch.zeros(3, 4), torch.ones(2)))
    select, cut, copy = calls(program)
    assert targets(program) == ["select.int", "slice.Tensor", "copy_.default"]
    assert str(select.aliases) == "#alias.results<view 0>" and str(select.effects) == "#alias.effects<>"
    assert isinstance(cut.outs[0].type, MemRefType) and geometry(cut.outs[0].type).offset == 6
    assert str(copy.effects) == "#alias.effects<write 0, read 1>" and str(copy.aliases) == "#alias.results<same 0>"
    assert copy.value is not None and copy.value.data.target == "aten.copy.default"


def test_an_operation_that_returns_its_operand_is_no_operation() -> None:
    program = import_program(lambda x: x.to(torch.float32).contiguous().mul_(2), (torch.ones(3),))
    assert targets(program) == ["mul_.Tensor"]
    (returned,) = program.module.body.block.ops.first.regions[0].block.last_op.operands  # type: ignore[union-attr]
    assert returned is calls(program)[0].args[0], "the result is the argument itself"


def test_arguments_share_roots_by_bytes() -> None:
    base = torch.zeros(40)
    given = (base[2:8], base[4:12], base[20:24], torch.zeros(0), base[6:7])
    program = import_program(lambda *xs: xs[0] + 1, given)
    assert [root for root, _ in roots(program)] == [0, 0, 1, 2, 0]
    assert [size for _, size in roots(program)] == [48, 48, 16, 0, 48], "roots start at a multiple of 16 bytes"
    offsets = [geometry(a.type).offset for a in program.module.body.block.ops.first.regions[0].block.args]  # type: ignore[union-attr]
    assert offsets == [2, 4, 0, 0, 6]


def test_lazy_bits_are_part_of_the_type() -> None:
    program = import_program(lambda z: (z.conj(), z.imag), (torch.ones(2, dtype=torch.complex64),))
    kinds = [v.type for call in calls(program) for v in call.outs]
    assert [lazy_bits(k) for k in kinds if isinstance(k, MemRefType)] == ["conj", "", ""]
    assert geometry(kinds[-1]).offset == 1, "the imaginary part: elements of the new type"


def test_literals_stay_in_the_ir_and_held_tensors_are_arguments() -> None:
    c = torch.arange(3.0)

    def literal(x):
        return x + torch.tensor([0.0, 1.0, 2.0])

    def read(x):
        return x + c

    def write(x):
        c.add_(x)
        return c

    program = import_program(literal, (torch.ones(3),))
    assert sum(isinstance(op, ConstantOp) for op in program.module.walk()) == 1 and not program.state
    (state,) = import_program(read, (torch.ones(3),)).state.values()
    assert state is c, "what it holds may have changed by the next call"
    program = import_program(write, (torch.ones(3),))
    assert [(a.name.startswith("_tensor_constant"), a.kind) for a in program.arguments] == [
        (True, "constant"),
        (False, "input"),
    ]
    (state,) = program.state.values()
    assert state is c
    result = replay(program, (torch.ones(3),))
    assert result is c and torch.equal(c, torch.arange(3.0) + 1)


def test_one_real_tensor_under_many_names_is_one_argument() -> None:
    table = torch.rand(100)

    def f(x):
        return x + table, table * 2, table[3:]

    program = import_program(f, (torch.ones(100),))
    assert [a.kind for a in program.arguments] == ["constant", "input"]


def test_in_place_metadata_of_a_local_is_a_view() -> None:
    def f(x):
        y = x + 1
        z = y.t_()
        y[0] = 5
        return y, z

    program = import_program(f, (torch.zeros(2, 3),))
    assert targets(program)[:2] == ["add.Tensor", "t.default"]
    a, b = replay(program, (torch.zeros(2, 3),))
    assert a is b and a.shape == (3, 2) and a[0].eq(5).all()


def test_out_of_the_wrong_size_becomes_the_result() -> None:
    def f(x):
        t = torch.empty(0)
        torch.add(x, x, out=t)
        return t.mul_(2)

    program = import_program(f, (torch.ones(3),))
    assert targets(program) == ["empty.memory_format", "add.Tensor", "mul_.Tensor"]
    assert torch.equal(replay(program, (torch.ones(3),)), torch.full((3,), 4.0))


def test_batch_norm_writes_its_statistics_in_training_only() -> None:
    x = torch.rand(2, 3, 4, 4)
    for training, written in ((True, (3, 4)), (False, ())):
        model = torch.nn.BatchNorm2d(3).train(training)
        program = import_program(model, (x,))
        (norm,) = [c for c in calls(program) if "batch_norm" in c.target.data]
        assert norm.effects.writes() == written
        assert (norm.value is not None) == training


def test_lists_run_element_by_element() -> None:
    def f(x, y):
        torch._foreach_mul_([x, y[0]], 2.0)

    program = import_program(f, (torch.ones(2), torch.ones(2, 2)))
    assert (
        targets(program) == ["select.int", "mul_.Scalar", "mul_.Scalar"] or targets(program).count("mul_.Tensor") == 2
    )


def test_custom_operators_go_by_their_schema() -> None:
    def f(a, b, out):
        custom_ops.OPS.two_writes(a, b)
        custom_ops.OPS.mul_into(a, b, out=out)
        custom_ops.OPS.shift_all_([a, out], 1.0)
        return custom_ops.OPS.alias_id(out)

    program = import_program(f, tuple(torch.ones(3) for _ in range(3)))
    assert [c.effects.writes() for c in calls(program)] == [(0, 1), (2,), (0, 1), ()]
    assert all(c.value is None for c in calls(program))
    assert str(calls(program)[-1].aliases) == "#alias.results<view 0>"


def test_repeated_layers_are_expanded_once() -> None:
    from compiler.frontend.capture import capture
    from compiler.frontend.importer import Importer

    def f(x):
        for _ in range(20):
            x = torch.softmax(x @ x, -1)
        return x

    importer = Importer(capture(f, (torch.ones(3, 3),)))
    importer.program()
    assert importer.expander.hits >= 2 * 18


def test_an_operator_is_expanded_once_for_all_rows_of_a_pool() -> None:
    from compiler.frontend.capture import capture
    from compiler.frontend.importer import Importer

    def f(pool, row):
        for i in range(20):
            pool[i].add_(row)
        return pool.sum()

    importer = Importer(capture(f, (torch.ones(20, 3), torch.ones(3))))
    program = importer.program()
    assert importer.expander.hits == 19  # the adds; each view lies where no other does
    writes = [c for c in calls(program) if c.effects.writes()]
    assert [geometry(c.results[0].type).offset for c in writes] == [3 * i for i in range(20)]


def test_what_an_offset_decides_is_not_taken_over_from_another_row() -> None:
    graph = torch.fx.Graph()
    pool = graph.placeholder("pool")
    pairs = [graph.call_function(torch.ops.aten.slice.Tensor, (pool, 0, start, start + 2)) for start in (0, 2, 1)]
    graph.output(tuple(graph.call_function(torch.ops.aten.view_as_complex.default, (pair,)) for pair in pairs))
    with pytest.raises(CompileError, match="storage_offset .*view_as_complex_default_2"):
        import_program(torch.fx.GraphModule({}, graph), (torch.ones(8),))


# -- refusals -----------------------------------------------------------------------------------


def line_of(f, text: str) -> int:
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if text in line and "def " not in line)


def resize_argument(x):
    x.t_()
    return x + 1


def out_resizes_argument(x):
    y = x + 1
    torch.cat([y, y], out=x)


def random(x):
    return x.clone().normal_(generator=torch.Generator())


def mask_gather(x):
    return x[x > 0]


def item(x):
    return x * 2 if x.sum().item() > 0 else x


def outside(x):
    return x.as_strided((4,), (1,), 1)


@pytest.mark.parametrize(
    ("f", "at", "message"),
    [
        (resize_argument, "t_()", "metadata of an argument"),
        (out_resizes_argument, "out=x", "resizes an argument"),
        (random, "normal_", "generator that is passed in"),
        (mask_gather, "x[x > 0]", "data of a tensor"),
        (item, "item()", "data of a tensor"),
        (outside, "as_strided", "reaches byte 20"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_refusals_name_the_line(f, at, message) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        import_program(f, (torch.ones(2, 2) if f is resize_argument else torch.ones(4)[:4],))
    assert caught.value.location == f"{__file__}:{line_of(f, at)}"


def test_a_failing_program_says_where() -> None:
    def f(x):
        return x @ torch.ones(5, 5)

    with pytest.raises(CompileError, match="fails on the example inputs") as caught:
        import_program(f, (torch.ones(2, 3),))
    assert caught.value.location == f"{__file__}:{line_of(f, '@')}"


def test_higher_order_operators_are_refused_by_name() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.higher_order.out_dtype, (torch.ops.aten.mm.default, torch.int32, x, x)))
    with pytest.raises(UnsupportedError, match="higher-order operator out_dtype"):
        import_program(torch.fx.GraphModule({}, graph), (torch.ones(2, 2, dtype=torch.int8),))


def test_symbolic_sizes_import_as_dynamic_dimensions() -> None:
    class Grow(torch.nn.Module):
        def forward(self, x):
            n = x.shape[0]
            return x.new_zeros(n * 2 + 1), x.reshape(-1)[:n]

    exported = torch.export.export(
        Grow(), (torch.ones(4, 3),), strict=False, dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=64)}}
    )
    program = import_program(exported)
    program.module.verify()
    assert len(program.symbolic) == 1
    text = str(program.module)
    assert "memref<?x3xf32>" in text and f'fx.symbol "2*{program.symbolic[0]} + 1"' in text
