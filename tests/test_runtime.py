"""Calls: in place where memory allows it, right where it does not, and refused when a guard breaks."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import compiler
from compiler.errors import CompileError, GuardError
from compiler.export.elements import DTYPES
from compiler.export.signature import Alias, Binding, OutputSource, Signature, TensorType, Window
from compiler.program import Leaf
from compiler.runtime.executable import Executable
from compiler.runtime.statistics import full_copies, memory_stats, optimized_hlo
from tests.stablehlo_programs import aligned, cache_step, contiguous, executable, leaves_of, signature


def numbers(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).view(sizes)


# -- in place ------------------------------------------------------------------------------------


def test_a_cache_is_written_where_it_is():
    step, x, cache = cache_step(), numbers(4, 8), aligned(4, 8)
    address = cache.data_ptr()
    for n in range(1, 4):
        version = cache._version
        y = step(x, cache)
        assert torch.equal(y, x * 2) and torch.equal(cache, x * n)
        assert cache.data_ptr() == address and step.copied_bytes == 0 and cache._version == version + 1
    assert step.io_map == {1: 1} and step.original_output_count == 1
    assert x._version == 0


def test_misaligned_memory_is_copied_back():
    step, x, cache = cache_step(), numbers(4, 8), aligned(4, 8, shift=4)
    for n in range(1, 3):
        step(x, cache)
        assert torch.equal(cache, x * n) and step.copied_bytes == 128 and cache._version == n


def test_changes_between_calls_are_seen():
    step, x, cache = cache_step(), numbers(4, 8), aligned(4, 8)
    step(x, cache)
    cache.zero_()
    x.fill_(3)
    y = step(x, cache)
    assert torch.equal(cache, torch.full((4, 8), 3.0)) and torch.equal(y, torch.full((4, 8), 6.0))
    other = aligned(4, 8)
    step(x, other)
    assert torch.equal(other, x) and torch.equal(cache, x)


def test_nothing_keeps_an_argument_alive():
    step, x, cache = cache_step(), numbers(4, 8), aligned(4, 8)
    step(x, cache)
    owner = weakref.ref(cache)
    del cache
    gc.collect()
    assert owner() is None
    assert all(memory._held is None for memory in step._memories[1:])


def test_gaps_between_elements_are_not_written_by_a_copy_back():
    """Columns 0 and 1 of a 4x4 table at an odd address; the program writes all the 14 elements it was given."""
    window = Window((4, 2), (4, 1))
    flat = TensorType("f32", (14,))
    s = signature(
        [Binding("x", "input", 0, "f32", window, written=True)],
        [OutputSource("argument", 0)],
        [flat],
        [flat],
        [Alias(0, 0)],
    )
    body = """
    %one = stablehlo.constant dense<1.0> : tensor<14xf32>
    %r = stablehlo.add %0, %one : tensor<14xf32>
    return %r : tensor<14xf32>"""
    table = aligned(4, 4, shift=4)
    columns = table[:, :2]
    run = executable(s, body)
    assert run(columns) is columns
    assert torch.equal(table[:, :2], torch.ones(4, 2)) and torch.equal(table[:, 2:], torch.zeros(4, 2))
    assert run.copied_bytes == 32


@pytest.mark.parametrize("shift", [0, 4])
def test_bytes_between_elements_that_the_program_writes_are_its_own(shift: int):
    """The program writes one element between those it was given; others may use the rest of the table meanwhile."""

    def program(columns: torch.Tensor) -> torch.Tensor:
        columns.as_strided((), (), columns.storage_offset() + 6).fill_(5.0)
        columns.add_(1.0)
        return columns

    def make() -> torch.Tensor:
        return aligned(4, 4, shift=shift)

    run = compiler.compile(program, (make()[:, :2],))
    for table in (make(), make()):
        columns = table[:, :2]
        assert run(columns) is columns
        expected = torch.zeros(4, 4)
        expected[:, :2] = 1.0
        expected[1, 2] = 5.0
        assert torch.equal(table, expected)
        assert run.copied_bytes == (34 if shift else 0)  # of the bytes of 5.0, two are those of 0.0


def interleaved() -> Executable:
    """f(even, odd): even.add_(1), where the two are the even and odd columns of one table in one parameter each."""
    window = Window((4, 2), (4, 2))
    flat = TensorType("f32", (15,))
    s = signature(
        [
            Binding("even", "input", 0, "f32", window, written=True),
            Binding("odd", "input", 1, "f32", window, written=True),
        ],
        [],
        [flat, flat],
        [flat, flat],
        [Alias(0, 0), Alias(1, 1)],
        out_tree=(),
    )
    body = """
    %one = stablehlo.constant dense<1.0> : tensor<15xf32>
    %two = stablehlo.constant dense<2.0> : tensor<15xf32>
    %a = stablehlo.add %0, %one : tensor<15xf32>
    %b = stablehlo.add %1, %two : tensor<15xf32>
    return %a, %b : tensor<15xf32>, tensor<15xf32>"""
    return executable(s, body)


def test_written_stretches_that_interleave_do_not_disturb_each_other():
    run = interleaved()
    apart = aligned(4, 4), aligned(4, 4)
    run(apart[0][:, ::2], apart[1][:, ::2])
    assert run.copied_bytes == 0
    # Extents of the two windows overlap, though no element is in both: judged by extents, as at compile time.
    with pytest.raises(GuardError, match="'even' and 'odd' overlap"):
        table = aligned(4, 4)
        run(table[:, ::2], table[:, 1::2])


@pytest.mark.parametrize("around", [False, True])
def test_a_stretch_that_reaches_over_a_neighbour_is_run_on_a_copy(around: bool):
    """The parameter begins 16 bytes before its window, where another written argument ends."""
    window, stretch = contiguous(4, offset=4), TensorType("f32", (8,))
    s = signature(
        [
            Binding("left", "input", 0, "f32", contiguous(4), written=True),
            Binding("right", "input", 1, "f32", window, written=True, around=around),
        ],
        [],
        [TensorType("f32", (4,)), stretch],
        [TensorType("f32", (4,)), stretch],
        [Alias(0, 0), Alias(1, 1)],
        out_tree=(),
    )
    body = """
    %one = stablehlo.constant dense<1.0> : tensor<4xf32>
    %two = stablehlo.constant dense<2.0> : tensor<8xf32>
    %a = stablehlo.add %0, %one : tensor<4xf32>
    %b = stablehlo.add %1, %two : tensor<8xf32>
    return %a, %b : tensor<4xf32>, tensor<8xf32>"""
    run, memory = executable(s, body), aligned(8)
    if around:
        with pytest.raises(GuardError, match="around the elements of argument 'right', where argument 'left' is now"):
            run(memory[:4], memory[4:])
        return
    run(memory[:4], memory[4:])
    assert memory.tolist() == [1.0] * 4 + [2.0] * 4 and run.copied_bytes == 32
    run(aligned(4), memory[4:])  # here the stretch is free
    assert memory.tolist() == [3.0] * 4 + [4.0] * 4 and run.copied_bytes == 0


def test_a_stretch_that_leaves_its_storage_is_run_on_a_copy():
    stretch = TensorType("f32", (8,))
    s = signature(
        [Binding("x", "input", 0, "f32", contiguous(4, offset=4), written=True)],
        [],
        [stretch],
        [stretch],
        [Alias(0, 0)],
        out_tree=(),
    )
    run = executable(s, "%r = stablehlo.add %0, %0 : tensor<8xf32>\nreturn %r : tensor<8xf32>")
    x = torch.ones(4)
    run(x)
    assert x.tolist() == [2.0] * 4 and run.copied_bytes == 16


@pytest.mark.parametrize("shift", [0, 4])
def test_two_arguments_in_one_parameter(shift: int):
    """f(row, flat): row.add_(1) where row is the second row of flat; flat sees it."""
    flat = TensorType("f32", (8,))
    s = signature(
        [
            Binding("row", "input", 0, "f32", contiguous(4, offset=4), written=True),
            Binding("flat", "input", 0, "f32", contiguous(8)),
        ],
        [OutputSource("argument", 1), OutputSource("argument_view", 1, "f32", Window((2,), (4,), 1))],
        [flat],
        [flat],
        [Alias(0, 0)],
    )
    body = """
    %c = stablehlo.constant dense<[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]> : tensor<8xf32>
    %r = stablehlo.add %0, %c : tensor<8xf32>
    return %r : tensor<8xf32>"""
    run, memory = executable(s, body), aligned(8, shift=shift)
    same, column = run(memory[4:], memory)
    assert same is memory and memory.tolist() == [0.0] * 4 + [1.0] * 4
    assert column.tolist() == [0.0, 1.0] and column.data_ptr() == memory.data_ptr() + 4
    assert run.copied_bytes == (0 if not shift else 16 + 32)
    assert run.io_map == {0: 1, 2: 0}
    assert run.alias_table[0].arguments == ("row", "flat")
    with pytest.raises(GuardError, match="'row' and 'flat' shared memory"):
        run(aligned(4), memory)
    with pytest.raises(GuardError, match="16 bytes apart, they are 0"):
        run(memory[:4], memory)
    assert memory.tolist() == [0.0] * 4 + [1.0] * 4


def test_a_window_that_overlaps_itself_is_copied_back():
    """unfold(0, 3, 1) of six elements, and an expanded dimension."""
    window, flat = Window((4, 3, 5), (1, 1, 0)), TensorType("f32", (6,))
    s = signature(
        [Binding("x", "input", 0, "f32", window, written=True)], [], [flat], [flat], [Alias(0, 0)], out_tree=()
    )
    run = executable(s, "%r = stablehlo.add %0, %0 : tensor<6xf32>\nreturn %r : tensor<6xf32>")
    memory = aligned(6, shift=4)
    memory.copy_(numbers(6))
    run(memory.unfold(0, 3, 1).unsqueeze(2).expand(4, 3, 5))
    assert torch.equal(memory, numbers(6) * 2) and run.copied_bytes


# -- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", sorted(DTYPES))
@pytest.mark.parametrize("shift", [0, 16])
def test_every_element_type_in_and_out(element: str, shift: int):
    dtype, kind, window = DTYPES[element], TensorType(element, (6,)), contiguous(6)
    s = signature(
        [Binding("x", "input", 0, element, window), Binding("kept", "input", 1, element, window, written=True)],
        [OutputSource("result", 0, element, window)],
        [kind, kind],
        [kind, kind],
        [Alias(1, 1)],
    )
    body = f"""
    %r = stablehlo.reverse %0, dims = [0] : tensor<6x{element}>
    %k = stablehlo.reverse %1, dims = [0] : tensor<6x{element}>
    return %r, %k : tensor<6x{element}>, tensor<6x{element}>"""
    run = executable(s, body)
    x, kept = aligned(6, dtype=dtype, shift=shift), aligned(6, dtype=dtype, shift=shift)
    values = torch.tensor([0, 1, 0, 1, 1, 0], dtype=torch.float32)
    x.copy_(values.to(dtype)), kept.copy_(values.to(dtype))
    y = run(x, kept)
    assert y.dtype is dtype and torch.equal(y.to(torch.complex128), values.flip(0).to(torch.complex128))
    assert torch.equal(kept.to(torch.complex128), values.flip(0).to(torch.complex128))
    assert run.copied_bytes == (0 if not shift else 6 * dtype.itemsize)


def test_bf16_state_travels_as_integers_and_keeps_its_bits():
    kind = TensorType("ui16", (4,))
    s = signature(
        [Binding("x", "input", 0, "bf16", contiguous(4), written=True)],
        [OutputSource("result", 1, "bf16", contiguous(4))],
        [kind],
        [kind, kind],
        [Alias(0, 0)],
    )
    body = "%r = stablehlo.reverse %0, dims = [0] : tensor<4xui16>\nreturn %r, %0 : tensor<4xui16>, tensor<4xui16>"
    run = executable(s, body)
    x = aligned(4, dtype=torch.bfloat16)
    bits = torch.tensor([0x7FC1, 0x0001, 0xFF81, 0x3F80], dtype=torch.int32).to(torch.uint16)
    x.view(torch.uint16).copy_(bits)
    y = run(x)
    assert x.view(torch.uint16).tolist() == bits.tolist()[::-1] and y.view(torch.uint16).tolist() == bits.tolist()
    assert y.dtype is torch.bfloat16 and run.copied_bytes == 0


@pytest.mark.parametrize("sizes", [(), (0, 3), (1,)])
def test_scalars_and_empty_tensors(sizes: tuple[int, ...]):
    kind, window = TensorType("f32", sizes), contiguous(*sizes)
    text = f"tensor<{''.join(f'{n}x' for n in sizes)}f32>"
    s = signature(
        [Binding("x", "input", 0, "f32", window, written=True)],
        [OutputSource("result", 1, "f32", window)],
        [kind],
        [kind, kind],
        [Alias(0, 0)],
    )
    run = executable(
        s, f"%r = stablehlo.add %0, %0 : {text}\n%z = stablehlo.negate %0 : {text}\nreturn %r, %z : {text}, {text}"
    )
    x = torch.ones(sizes)
    for n in (2, 4):
        y = run(x)
        assert torch.equal(x, torch.full(sizes, float(n))) and torch.equal(y, torch.full(sizes, -n / 2))


# -- outputs -------------------------------------------------------------------------------------


def test_outputs_share_memory_as_planned():
    kind = TensorType("f32", (4, 6))
    plan = [
        OutputSource("result", 0, "f32", contiguous(4, 6)),
        OutputSource("result", 0, "f32", Window((6, 4), (1, 6))),
        OutputSource("output", 1),
        OutputSource("result", 0, "i32", Window((3,), (6,), 1)),
        OutputSource("result", 0, "complex<f32>", Window((2, 3), (3, 1), 3), "conj"),
        OutputSource("result", 1, "f32", contiguous(4, 6)),
        OutputSource("argument", 0),
        OutputSource("argument_view", 0, "ui8", Window((4,), (1,), 4)),
        OutputSource("argument_view", 0, "f32", Window((2,), (1,), 3), "neg"),
    ]
    s = signature([Binding("x", "input", 0, "f32", contiguous(4, 6))], plan, [kind], [kind, kind])
    run = executable(s, "%r = stablehlo.add %0, %0 : tensor<4x6xf32>\nreturn %r, %r : tensor<4x6xf32>, tensor<4x6xf32>")
    x = numbers(4, 6).clone()
    whole, transposed, same, integers, conjugate, other, argument, raw, negative = run(x)
    assert torch.equal(whole, x * 2) and torch.equal(transposed, x.t() * 2) and transposed.stride() == (1, 6)
    assert same is transposed and argument is x
    assert torch.equal(integers, whole.view(torch.int32)[:3, 1])
    assert conjugate.is_conj() and conjugate[0, 0] == complex(12, -14)
    assert raw.tolist() == x.view(-1).view(torch.uint8)[4:8].tolist()
    assert negative.is_neg() and negative.tolist() == [-3.0, -4.0]
    memory = whole.untyped_storage().data_ptr()
    assert {t.untyped_storage().data_ptr() for t in (transposed, integers, conjugate)} == {memory}
    whole.zero_()
    assert not transposed.any() and torch.equal(other, x * 2) and torch.equal(x, numbers(4, 6))
    x.fill_(7)
    assert raw._version == negative._version == x._version == 1
    assert negative.tolist() == [-7.0, -7.0]
    assert torch.equal(run(x)[5], x * 2) and not whole.any()


def test_a_result_that_is_a_parameter_has_its_own_memory():
    kind = TensorType("f32", (4, 8))
    s = signature(
        [Binding("x", "input", 0, "f32", contiguous(4, 8))],
        [OutputSource("result", 0, "f32", contiguous(4, 8))],
        [kind],
        [kind],
    )
    x = aligned(4, 8)
    y = executable(s, "return %0 : tensor<4x8xf32>")(x)
    assert torch.equal(x, y) and x.data_ptr() != y.data_ptr()


def test_results_outlive_the_executable():
    step = cache_step()
    y = step(numbers(4, 8), aligned(4, 8))
    del step
    gc.collect()
    assert torch.equal(y, numbers(4, 8) * 2)


def test_lazy_bits_of_an_argument_are_part_of_the_signature():
    kind = TensorType("complex<f32>", (4,))
    s = signature(
        [Binding("x", "input", 0, "complex<f32>", contiguous(4), written=True, lazy="conj")],
        [OutputSource("argument", 0), OutputSource("argument_view", 0, "complex<f32>", contiguous(4))],
        [kind],
        [kind],
        [Alias(0, 0)],
    )
    run = executable(s, "%r = stablehlo.add %0, %0 : tensor<4xcomplex<f32>>\nreturn %r : tensor<4xcomplex<f32>>")
    for shift in (0, 8):
        memory = aligned(4, dtype=torch.complex64, shift=shift)
        memory.fill_(1 + 2j)
        same, plain = run(memory.conj())
        assert same[0] == 2 - 4j and plain[0] == 2 + 4j and not plain.is_conj() and memory[0] == 2 + 4j
    with pytest.raises(GuardError, match="lazy"):
        run(memory)


def test_structures_and_constants():
    kind, window = TensorType("f32", (4,)), contiguous(4)
    x, mask = torch.ones(4), torch.full((4,), 2.0)
    tensors = [x, mask]
    index = {id(t): n for n, t in enumerate(tensors)}
    in_tree, in_leaves = leaves_of((([x, 3, float("nan")],), {"scale": None, "mask": mask}), lambda t: index[id(t)])
    out_tree = pytree.tree_structure({"sum": 0, "rest": (1, [2])})
    s = Signature(
        (Binding("x", "input", 0, "f32", window), Binding("mask", "input", 1, "f32", window)),
        (),
        (OutputSource("result", 0, "f32", window),),
        (kind, kind),
        (kind,),
        in_tree,
        in_leaves,
        out_tree,
        (Leaf(0), Leaf(constant=5), Leaf(0)),
    )
    run = executable(s, "%r = stablehlo.add %0, %1 : tensor<4xf32>\nreturn %r : tensor<4xf32>")
    out = run([x, 3, float("nan")], mask=mask, scale=None)
    assert list(out) == ["sum", "rest"] and out["rest"][0] == 5 and out["rest"][1][0] is out["sum"]
    assert torch.equal(out["sum"], x + mask)
    nan = float("nan")
    for args, kwargs, message in (
        (([x, 4, nan],), {"scale": None, "mask": mask}, "constant 3, got 4"),
        (([x, 3.0, nan],), {"scale": None, "mask": mask}, "constant 3, got 3.0"),
        (([x, True, nan],), {"scale": None, "mask": mask}, "constant 3, got True"),
        (([x, 3, 1.0],), {"scale": None, "mask": mask}, "constant nan"),
        (([x, 3, nan],), {"scale": mask, "mask": mask}, "constant None, got a tensor"),
        (((x, 3, nan),), {"scale": None, "mask": mask}, "another structure"),
        (([x, 3, nan], mask), {"scale": None}, "another structure"),
    ):
        with pytest.raises(GuardError, match=message):
            run(*args, **kwargs)


# -- guards --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.zeros(4, 8, dtype=torch.float64), "dtype torch.float32, got torch.float64"),
        (lambda: torch.zeros(4, 9), r"shape \(4, 8\), got \(4, 9\)"),
        (lambda: torch.zeros(8, 4).t(), r"strides \(8, 1\), got \(1, 4\)"),
        (lambda: torch.zeros(4, 8, device="meta"), "meta"),
        (lambda: torch.zeros(4, 8).to_sparse(), "sparse"),
        (lambda: torch._neg_view(torch.zeros(4, 8)), "lazy"),
        (lambda: 3, "expected a tensor, got int"),
        (lambda: torch.zeros(4, 8, requires_grad=True), "requires a gradient"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_runs(make: Any, message: str):
    step, cache = cache_step(), aligned(4, 8)
    with pytest.raises(GuardError, match=message) as caught:
        step(make(), cache)
    assert "'x'" in str(caught.value) and caught.value.hint or isinstance(make(), int)
    assert isinstance(caught.value, RuntimeError)
    assert not cache.any() and cache._version == 0


def test_arguments_without_memory_are_named():
    step, cache, x = cache_step(), aligned(4, 8), torch.ones(4, 8)
    with pytest.raises(GuardError, match="'x' has no memory: it belongs to a transform"):
        torch.vmap(lambda row: step(row, cache))(torch.ones(3, 4, 8))
    step(x, cache)
    x.untyped_storage().resize_(0)
    with pytest.raises(GuardError, match="the memory of argument 'x' was freed"):
        step(x, cache)
    assert torch.equal(cache, torch.ones(4, 8))
    assert x.untyped_storage().nbytes() == 0


def test_run_takes_one_tensor_for_each_argument():
    step, cache, x = cache_step(), aligned(4, 8), torch.ones(4, 8)
    for wrong, message in (([x], "expected 2 tensors, got 1"), ([x, cache, x], "got 3"), ([x, None], "got NoneType")):
        with pytest.raises(GuardError, match=message):
            step.run(wrong)  # pyright: ignore
    step.run([x, cache])
    assert torch.equal(cache, torch.ones(4, 8))


def test_gradients_may_be_there_when_nobody_records():
    step, cache = cache_step(), aligned(4, 8)
    x = torch.ones(4, 8, requires_grad=True)
    with torch.no_grad():
        step(x, cache)
    with torch.inference_mode():
        step(x, cache)
        step(torch.ones(4, 8), torch.zeros(4, 8))
    assert torch.equal(cache, torch.full((4, 8), 2.0))


def test_strides_that_reach_no_element_do_not_matter():
    kind = TensorType("f32", (1, 8))
    s = signature(
        [Binding("x", "input", 0, "f32", contiguous(1, 8))],
        [OutputSource("result", 0, "f32", contiguous(1, 8))],
        [kind],
        [kind],
    )
    run = executable(s, "%r = stablehlo.add %0, %0 : tensor<1x8xf32>\nreturn %r : tensor<1x8xf32>")
    assert torch.equal(run(numbers(8, 8)[::8]), numbers(1, 8) * 2)
    assert torch.equal(run(torch.ones(8, 1).t()), torch.full((1, 8), 2.0))


@pytest.mark.parametrize("shift", [0, 4, 31])
def test_overlap_with_a_written_argument_is_refused(shift: int):
    step, memory = cache_step(), torch.zeros(64)
    with pytest.raises(GuardError, match="'x' and 'kv_cache' overlap in memory.*'kv_cache' is written"):
        step(memory[:32].view(4, 8), memory[shift : shift + 32].view(4, 8))
    step(memory[:32].view(4, 8), memory[32:].view(4, 8))


def test_reading_arguments_may_overlap():
    kind, window = TensorType("f32", (4,)), contiguous(4)
    s = signature(
        [Binding("a", "input", 0, "f32", window), Binding("b", "input", 1, "f32", window)],
        [OutputSource("result", 0, "f32", window)],
        [kind, kind],
        [kind],
    )
    run, x = executable(s, "%r = stablehlo.add %0, %1 : tensor<4xf32>\nreturn %r : tensor<4xf32>"), numbers(6)
    assert torch.equal(run(x[:4], x[:4]), x[:4] * 2) and torch.equal(run(x[:4], x[2:]), x[:4] + x[2:])


def test_operator_intercepting_subclasses_are_refused():
    class Logged(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    step = cache_step()
    with pytest.raises(GuardError, match="is a Logged"):
        step(torch.Tensor._make_subclass(Logged, torch.zeros(4, 8)), aligned(4, 8))


# -- module state --------------------------------------------------------------------------------


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.register_buffer("total", aligned(4))
        self.weight = torch.nn.Parameter(torch.full((4,), 2.0))
        self.last = torch.zeros(4)


def counter(module: torch.nn.Module | None, **more: Any) -> Executable:
    """forward(x): self.inner.total.add_(x * weight); self.last = x + constant; return self.inner.total"""
    kind, window = TensorType("f32", (4,)), contiguous(4)
    s = signature(
        [
            Binding("weight", "parameter", 0, "f32", window),
            Binding("inner.total", "buffer", 1, "f32", window, written=True),
            Binding("constant_0", "constant", 2, "f32", window),
            Binding("x", "input", 3, "f32", window),
        ],
        [OutputSource("argument", 1), OutputSource("result", 1, "f32", window)],
        [kind] * 4,
        [kind, kind],
        [Alias(0, 1)],
        rebound=(("last", 1),),
    )
    s = Signature(**{**s.__dict__, "out_tree": pytree.tree_structure(0), "out_leaves": (Leaf(0),)})
    body = """
    %p = stablehlo.multiply %3, %0 : tensor<4xf32>
    %t = stablehlo.add %1, %p : tensor<4xf32>
    %l = stablehlo.add %3, %2 : tensor<4xf32>
    return %t, %l : tensor<4xf32>, tensor<4xf32>"""
    constants = {"constant_0": torch.full((4,), 10.0)}
    return executable(s, body, state=constants, owner=module, **more)


def test_module_state_is_looked_up_at_every_call():
    module = Counter()
    run, x = counter(module), torch.ones(4)
    with torch.no_grad():
        assert run(x) is module.inner.total and module.inner.total.tolist() == [2.0] * 4
        assert module.last.tolist() == [11.0] * 4
        module.weight = torch.nn.Parameter(torch.full((4,), 3.0))
        run(x)
        assert module.inner.total.tolist() == [5.0] * 4
        old, module.inner.total = module.inner.total, aligned(4)
        run(x)
        assert module.inner.total.tolist() == [3.0] * 4 and old.tolist() == [5.0] * 4
        del module.inner.total
        with pytest.raises(GuardError, match="'inner.total'"):
            run(x)
    with pytest.raises(GuardError, match="'weight' requires a gradient"):
        counter(Counter())(x)


def test_training_flags_are_guarded():
    module = Counter().eval()
    run = counter(module, training={"": False, "inner": False})
    with torch.no_grad():
        run(torch.ones(4))
        module.inner.train()
        with pytest.raises(GuardError, match="'inner' was captured with training=False"):
            run(torch.ones(4))
    assert module.inner.total.tolist() == [2.0] * 4


def test_state_can_be_bound():
    run, x = counter(None), torch.ones(4)
    with pytest.raises(GuardError, match="bind"):
        run(x)
    with pytest.raises(CompileError, match="'weight'"):
        run.bind({"inner.total": torch.zeros(4)})
    with pytest.raises(GuardError, match="'weight': expected shape"):
        run.bind({"inner.total": torch.zeros(4), "weight": torch.zeros(5)})
    module = Counter()
    with torch.no_grad():
        assert run.bind(module)(x) is module.inner.total
    assert module.inner.total.tolist() == [2.0] * 4


# -- the rest ------------------------------------------------------------------------------------


def test_calls_from_several_threads_are_serialised():
    step, x, cache = cache_step(), torch.ones(4, 8), aligned(4, 8)
    threads = [threading.Thread(target=lambda: [step(x, cache) for _ in range(25)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(cache, torch.full((4, 8), 100.0))


def test_an_executable_describes_itself():
    step = cache_step(stages={"import": "func", "lazy": lambda: "later"})
    assert step.argument_names == ("x", "kv_cache") and step.unused_arguments == ()
    row = step.alias_table[0]
    assert (row.output, row.parameter, row.arguments, row.kind) == (1, 1, ("kv_cache",), "must-alias")
    assert (row.element, row.shape, row.bytes) == ("f32", (4, 8), 128)
    assert "must-alias" in step.hlo_text() and "stablehlo.add" in step.stablehlo()
    assert step.ir("import") == "func" and step.ir("lazy") == "later"
    with pytest.raises(CompileError, match="no stage 'nothing'.*'import', 'lazy'"):
        step.ir("nothing")


def test_statistics_tell_in_place_from_copied():
    step = cache_step()
    assert full_copies(step, 64, fusion=False) == 0 and memory_stats(step, fusion=False).alias == 128
    assert "HloModule" in optimized_hlo(step)
    kind = TensorType("f32", (4, 8))
    s = signature(
        [Binding("x", "input", 0, "f32", contiguous(4, 8))],
        [OutputSource("result", 0, "f32", contiguous(4, 8))],
        [kind],
        [kind],
    )
    passes = executable(s, "return %0 : tensor<4x8xf32>")
    assert full_copies(passes, 64) == 1 and full_copies(passes, 129) == 0


def test_unused_arguments_are_guarded_and_returned():
    kind, window = TensorType("f32", (4,)), contiguous(4)
    s = signature(
        [Binding("x", "input", 0, "f32", window), Binding("spare", "input", -1, "f32", window)],
        [OutputSource("argument", 1), OutputSource("argument_view", 1, "f32", Window((2,), (1,), 2))],
        [kind],
        [],
    )
    run, spare = executable(s, "return"), numbers(6)[2:]
    same, view = run(torch.ones(4), spare)
    assert same is spare and view.tolist() == [4.0, 5.0] and run.unused_arguments == ("spare",)
    with pytest.raises(GuardError, match="'spare'"):
        run(torch.ones(4), torch.ones(5))


@pytest.mark.parametrize("window", [contiguous(5), contiguous(4, offset=1), contiguous(1, offset=2**40)])
def test_views_of_an_argument_that_nothing_reads_stay_inside_its_memory(window: Window):
    """It has no parameter whose size would tell, and nothing may be written before it is known."""
    plain = compiler.compile(lambda x, y: (y.add_(1), x[1:])[1], (torch.ones(4), torch.ones(2)))
    assert plain.signature.bindings[0].parameter < 0
    plan = (OutputSource("argument_view", 0, "f32", window),)
    changed = Executable(Signature(**{**plain.signature.__dict__, "plan": plan}), plain.hlo_proto, plain.stablehlo)
    y = torch.ones(2)
    with pytest.raises(GuardError, match="'x' has 16 bytes of memory"):
        changed(torch.ones(4), y)
    assert y.tolist() == [1, 1]


def test_a_view_around_an_argument_that_nothing_reads():
    """It lies in the memory of another one."""

    def program(x: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (3,), 0)

    whole, other = torch.arange(8.0), torch.arange(10.0, 18.0)
    executable = compiler.compile(program, (whole[2:4], whole))
    assert executable(other[2:4], other).tolist() == [10, 13]


def test_hlo_and_signature_must_agree():
    step = cache_step()
    s = Signature(**{**step.signature.__dict__, "aliases": ()})
    with pytest.raises(CompileError, match="disagree on the alias table"):
        Executable(s, step.hlo_proto)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"aliases": (Alias(3, 1),)}, "no output 3"),
        ({"aliases": (Alias(1, 1), Alias(0, 1))}, "parameter 1 is aliased twice"),
        ({"plan": (OutputSource("result", 2, "f32", contiguous(4, 8)),)}, "result 2, which is none"),
        ({"plan": (OutputSource("result", 0, "f32", contiguous(4, 9)),)}, "reaches 144 bytes into result 0"),
        ({"plan": (OutputSource("argument_view", 0, "f32", contiguous(4, 8, offset=1)),)}, "into parameter 0"),
        ({"plan": (OutputSource("output", 0),)}, "output 0, which is none"),
        ({"results": (TensorType("f32", (4, 8)), TensorType("i32", (4, 8)))}, "is i32"),
        ({"in_leaves": (Leaf(0), Leaf(0))}, "'kv_cache' is an input without"),
        ({"out_leaves": (Leaf(1),)}, "names output 1"),
        ({"rebound": (("a", 9),)}, "names output 9"),
    ],
)
def test_inconsistent_signatures_are_refused(change: dict[str, Any], message: str):
    with pytest.raises(CompileError, match=message):
        Signature(**{**cache_step().signature.__dict__, **change})
