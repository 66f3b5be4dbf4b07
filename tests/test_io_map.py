"""The flat FX contract: owners of arguments, and results added for written ones."""

from __future__ import annotations

from compiler.export.io_map import io_map
from compiler.export.signature import Binding, OutputSource, Window

WHOLE = Window((4, 8), (8, 1))


def argument(name: str, written: bool = False, window: Window = WHOLE, element: str = "f32") -> Binding:
    return Binding(name, "input", 0, element, window, written)


FRESH = OutputSource("result", 0, "f32", WHOLE)


def view(index: int, window: Window = WHOLE, element: str = "f32", lazy: str = "") -> OutputSource:
    return OutputSource("argument_view", index, element, window, lazy)


def test_written_argument_is_added_after_the_original_results():
    assert io_map([argument("x"), argument("kv_cache", written=True)], [FRESH]) == ({1: 1}, 1)


def test_several_written_arguments_are_added_in_argument_order():
    arguments = [argument("a", True), argument("x"), argument("b", True)]
    assert io_map(arguments, [FRESH, FRESH]) == ({2: 0, 3: 2}, 2)


def test_a_returned_argument_is_its_own_result():
    assert io_map([argument("x", True)], [OutputSource("argument", 0)]) == ({0: 0}, 1)


def test_an_untouched_argument_that_is_returned_counts():
    assert io_map([argument("x")], [FRESH, OutputSource("argument", 0)]) == ({1: 0}, 2)


def test_the_first_result_owns_the_argument():
    plan = [OutputSource("argument", 0), OutputSource("argument", 0), OutputSource("output", 0), view(0)]
    assert io_map([argument("x", True)], plan) == ({0: 0}, 4)


def test_a_full_view_owns_the_argument_whatever_the_strides_of_single_elements():
    window = Window((1, 8), (8, 1))
    plan = [view(0, Window((1, 8), (77, 1)))]
    assert io_map([argument("x", True, window)], plan) == ({0: 0}, 1)


def test_partial_reordered_and_reinterpreting_views_own_nothing():
    for source in (
        view(0, Window((2, 8), (8, 1))),
        view(0, Window((4, 8), (1, 4))),
        view(0, Window((4, 8), (8, 1), 8)),
        view(0, WHOLE, "i32"),
        view(0, WHOLE, "f32", "neg"),
    ):
        assert io_map([argument("x", True)], [source]) == ({1: 0}, 1), source
        assert io_map([argument("x")], [source]) == ({}, 1), source


def test_views_of_one_written_parameter_each_count():
    halves = [argument("a", True, Window((2, 8), (8, 1))), argument("b", True, Window((2, 8), (8, 1), 16))]
    assert io_map(halves, [view(1, Window((2, 8), (8, 1), 16))]) == ({1: 0, 0: 1}, 1)


def test_a_program_without_results_still_has_its_written_arguments():
    assert io_map([argument("x", True)], []) == ({0: 0}, 0)
