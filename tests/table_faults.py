"""Damage to the tables of functions of values, and to what they return, for tests/test_seeded_faults.py.

`DAMAGE` changes what the tables mean, each in the smallest way; `HARMLESS` changes how they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp

from dialects.alias import Bindings, OutputSource, Plan, Window
from dialects.fx import ExtractOp, InsertOp, ReinterpretOp, ValueCallOp
from dialects.types import ELEMENTS, Geometry
from tests.table_programs import (
    NOT_LAST,
    bindings,
    change_output,
    final,
    moved,
    output_of,
    plan,
    returned,
    set_binding,
    set_returned,
    set_source,
    set_table,
    table,
)

# -- changes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """`reason` is found in what the verifier says."""

    program: str
    change: Callable[[FuncOp], None]
    reason: str = ""


DAMAGE: dict[str, Change] = {}
HARMLESS: dict[str, Change] = {}


def damage(program: str, reason: str) -> Callable[[Callable[[FuncOp], None]], Callable[[FuncOp], None]]:
    def register(change: Callable[[FuncOp], None]) -> Callable[[FuncOp], None]:
        DAMAGE[change.__name__] = Change(program, change, reason)
        return change

    return register


def harmless(program: str) -> Callable[[Callable[[FuncOp], None]], Callable[[FuncOp], None]]:
    def register(change: Callable[[FuncOp], None]) -> Callable[[FuncOp], None]:
        HARMLESS[change.__name__] = Change(program, change)
        return change

    return register


# -- which output is whose -------------------------------------------------------------------------


@damage("twins", NOT_LAST)
def outputs_of_one_type_are_exchanged_where_they_are_returned(function: FuncOp) -> None:
    one, two = output_of(function, 0), output_of(function, 1)
    values = returned(function)
    values[one], values[two] = values[two], values[one]
    set_returned(function, values)


@damage("twins", NOT_LAST)
def entries_of_one_type_are_exchanged(function: FuncOp) -> None:
    (one, first), (two, second) = table(function)
    set_table(function, [(one, second), (two, first)])


@damage("twins", NOT_LAST)
def parameters_of_one_type_are_exchanged(function: FuncOp) -> None:
    one, two = (bindings(function)[n].parameter for n in (0, 1))
    set_binding(function, 0, parameter=two)
    set_binding(function, 1, parameter=one)


@damage("twins", "second entry of the same output or parameter")
def one_output_goes_to_two_parameters(function: FuncOp) -> None:
    (one, first), (_, second) = table(function)
    set_table(function, [(one, first), (one, second)])


@damage("twins", "second entry of the same output or parameter")
def two_outputs_go_to_one_parameter(function: FuncOp) -> None:
    (one, first), (two, _) = table(function)
    set_table(function, [(one, first), (two, first)])


@damage("twins", "ends as its first value|the alias table says otherwise")
def an_entry_is_missing(function: FuncOp) -> None:
    set_table(function, table(function)[1:])


@damage("twins", "ends as its first value")
def an_entry_is_missing_and_nobody_says_that_it_is_written(function: FuncOp) -> None:
    set_table(function, table(function)[1:])
    set_binding(function, 0, written=False)


@damage("twins", "nobody writes the memory of that parameter")
def an_entry_of_a_parameter_that_is_only_read(function: FuncOp) -> None:
    reader = bindings(function)[2].parameter
    if reader < 0:
        raise AssertionError("x is read")
    set_table(function, [*table(function), (len(returned(function)), reader)])
    set_returned(function, [*returned(function), function.body.block.args[reader]])
    set_binding(function, 2, written=True)


@damage("twins", "is called not written|the alias table says otherwise")
def an_argument_is_not_called_written(function: FuncOp) -> None:
    set_binding(function, 1, written=False)


@damage("twins", "is called written, and the alias table says otherwise")
def an_argument_is_called_written_that_is_only_read(function: FuncOp) -> None:
    set_binding(function, 2, written=True)


@damage("twins", "there are 4 outputs and 3 parameters")
def an_entry_of_an_output_that_is_none(function: FuncOp) -> None:
    (_, first), *rest = table(function)
    set_table(function, [(99, first), *rest])


@damage("twins", "the output has type")
def an_output_of_another_shape_with_as_many_bytes(function: FuncOp) -> None:
    """16 floats are 16 floats."""
    window = Window(Geometry((16,), (1,), 0))
    change_output(function, ExtractOp, TensorType(ELEMENTS["f32"][0], (16,)), {"window": window})


@damage("halves", "the output has type")
def an_output_of_another_element_type_with_as_many_bytes(function: FuncOp) -> None:
    change_output(function, ReinterpretOp, TensorType(ELEMENTS["f16"][0], (2, 3)), {})


# -- which value is the last -----------------------------------------------------------------------


@damage("twins", NOT_LAST)
def the_value_before_the_last_write(function: FuncOp) -> None:
    values = returned(function)
    values[output_of(function, 0)] = final(function, 0).base
    set_returned(function, values)


@damage("twins", NOT_LAST)
def the_value_before_any_write(function: FuncOp) -> None:
    values = returned(function)
    values[output_of(function, 1)] = function.body.block.args[bindings(function)[1].parameter]
    set_returned(function, values)


@damage("twins", NOT_LAST)
def a_window_is_put_back_one_row_late(function: FuncOp) -> None:
    op = final(function, 0)
    op.properties["window"] = Window(op.window.data._replace(offset=op.window.data.offset - 4))


@damage("twins", NOT_LAST)
def a_window_is_put_back_with_another_stride(function: FuncOp) -> None:
    op = final(function, 1)
    op.properties["window"] = Window(op.window.data._replace(strides=(1,)))


@damage("twins", NOT_LAST)
def a_window_is_read_at_another_place(function: FuncOp) -> None:
    op = next(op for op in function.body.block.ops if isinstance(op, ExtractOp) and op.window.data.offset)
    op.properties["window"] = Window(op.window.data._replace(offset=op.window.data.offset - 1))


@damage("twins", NOT_LAST)
def a_window_is_put_into_the_other_cache(function: FuncOp) -> None:
    op = next(op for op in function.body.block.ops if isinstance(op, InsertOp) and op.base is not None)
    op.operands = [op.value, function.body.block.args[bindings(function)[1].parameter]]


@damage("twins", "does not hold what the program returns")
def operands_of_a_call_are_exchanged(function: FuncOp) -> None:
    op = next(op for op in function.body.block.ops if isinstance(op, ValueCallOp) and "sub" in op.target.data)
    op.operands = list(op.operands)[::-1]


@damage("lazy", NOT_LAST)
def a_write_is_not_conjugated(function: FuncOp) -> None:
    op = final(function, 0)
    op.results[0].replace_all_uses_with(op.operands[0])


# -- where arguments are -----------------------------------------------------------------------------


@damage("overlapping", "which holds other memory")
def a_binding_starts_elsewhere(function: FuncOp) -> None:
    bound = bindings(function)
    set_binding(function, 1, geometry=bound[1].geometry._replace(offset=bound[1].geometry.offset + 1))


@damage("overlapping", "which holds other memory")
def an_argument_is_bound_to_the_memory_of_another(function: FuncOp) -> None:
    set_binding(function, 1, parameter=bindings(function)[2].parameter)


@damage("twins", "is bound as another window")
def a_binding_is_transposed(function: FuncOp) -> None:
    set_binding(function, 0, geometry=bindings(function)[0].geometry._replace(strides=(1, 4)))


@damage("halves", "is bound as another window")
def a_binding_has_another_element_type_of_as_many_bytes(function: FuncOp) -> None:
    set_binding(function, 0, element="f16")


@damage("lazy", "is bound as another window")
def a_binding_has_a_lazy_bit_too_many(function: FuncOp) -> None:
    set_binding(function, 0, lazy="conj")


@damage("between", "its binding does not say so")
def a_write_between_the_elements_is_not_told(function: FuncOp) -> None:
    set_binding(function, 0, around=False)


@damage("twins", "is called")
def names_are_exchanged(function: FuncOp) -> None:
    one, two = (bindings(function)[n].name for n in (0, 1))
    set_binding(function, 0, name=two)
    set_binding(function, 1, name=one)


@damage("overlapping", "is written, and no entry of the alias table brings it its last value|ends as its first value")
def a_written_argument_is_in_no_parameter(function: FuncOp) -> None:
    set_binding(function, 1, parameter=-1, written=False)


@damage("twins", "arguments and .* bindings")
def a_binding_is_missing(function: FuncOp) -> None:
    function.attributes["alias.bindings"] = Bindings(tuple(bindings(function)[:-1]))


# -- what outputs are made of ------------------------------------------------------------------------


@damage("twins", "starts at another byte of argument")
def a_view_starts_one_element_late(function: FuncOp) -> None:
    source = plan(function)[0]
    set_source(function, 0, moved(source, offset=source.geometry.offset + 1))


@damage("twins", "is another window than the program returns")
def a_view_has_another_stride(function: FuncOp) -> None:
    set_source(function, 0, moved(plan(function)[0], strides=(4,)))


@damage("twins", "is another window than the program returns")
def a_view_has_another_size(function: FuncOp) -> None:
    set_source(function, 0, moved(plan(function)[0], sizes=(3,)))


@damage("twins", "is another window than the program returns")
def a_view_has_another_element_type(function: FuncOp) -> None:
    set_source(function, 0, plan(function)[0]._replace(element="i32"))


@damage("twins", "and the program returns other memory")
def a_view_is_of_another_argument(function: FuncOp) -> None:
    set_source(function, 0, plan(function)[0]._replace(index=1))


@damage("twins", "which is another object than the program returns")
def an_output_is_another_argument(function: FuncOp) -> None:
    set_source(function, 1, plan(function)[1]._replace(index=0))


@damage("overlapping", "and the program returns other memory")
def a_view_is_of_an_argument_beside_the_storage(function: FuncOp) -> None:
    set_source(function, 1, plan(function)[1]._replace(index=2))


@damage("overlapping", "starts at another byte of argument")
def a_view_counts_from_the_argument_and_not_from_its_parameter(function: FuncOp) -> None:
    source = plan(function)[0]
    own = bindings(function)[source.index].geometry.offset
    set_source(function, 0, moved(source, offset=source.geometry.offset - own))


@damage("twins", "is fresh memory, and the program returns memory of an argument")
def a_view_becomes_a_copy(function: FuncOp) -> None:
    source = plan(function)[2]
    set_source(function, 2, source._replace(kind="result", index=0))


@damage("twins", "which is written into a parameter|is fresh memory")
def an_output_is_made_of_the_final_value_of_an_argument(function: FuncOp) -> None:
    set_source(function, 5, plan(function)[5]._replace(index=output_of(function, 0)))


@damage("twins", "and the program returns other memory")
def a_fresh_result_becomes_a_view_of_an_argument(function: FuncOp) -> None:
    set_source(function, 5, plan(function)[5]._replace(kind="argument_view", index=2))


@damage("twins", "starts at element 0, the program's output at 1")
def a_window_on_a_result_starts_elsewhere(function: FuncOp) -> None:
    set_source(function, 3, moved(plan(function)[3], offset=0))


@damage("twins", "outputs share a result exactly when they share memory|reaches byte")
def an_output_is_in_another_result(function: FuncOp) -> None:
    set_source(function, 4, plan(function)[4]._replace(index=plan(function)[5].index))


@damage("twins", "outputs share a result exactly when they share memory")
def outputs_of_one_memory_are_in_two_results(function: FuncOp) -> None:
    source = plan(function)[4]
    number = len(returned(function))
    set_returned(function, [*returned(function), returned(function)[source.index]])
    set_source(function, 4, source._replace(index=number))


@damage("same objects", "which is another object than the program returns")
def one_object_becomes_two(function: FuncOp) -> None:
    set_source(function, 1, plan(function)[0])


@damage("same objects", "which is another object than the program returns")
def two_objects_become_one(function: FuncOp) -> None:
    set_source(function, 2, OutputSource("output", 0))


@damage("same objects", "which is another object than the program returns")
def an_output_is_another_earlier_one(function: FuncOp) -> None:
    sources = plan(function)
    set_source(function, 4, OutputSource("output", 0) if sources[4].kind != "output" else sources[0])


@damage("same objects", "is no earlier one")
def an_output_is_a_later_one(function: FuncOp) -> None:
    set_source(function, 1, OutputSource("output", 2))


@damage("lazy", "is another window than the program returns")
def a_lazy_bit_of_an_output_is_lost(function: FuncOp) -> None:
    number = next(n for n, s in enumerate(plan(function)) if s.lazy)
    set_source(function, number, plan(function)[number]._replace(lazy=""))


@damage("twins", "outputs and .* entries in the output plan")
def an_output_is_missing(function: FuncOp) -> None:
    function.attributes["alias.plan"] = Plan(tuple(plan(function)[:-1]))


@damage("twins", "is another window|is another object|returns other memory|starts at")
def outputs_stand_in_another_order(function: FuncOp) -> None:
    function.attributes["alias.plan"] = Plan(tuple(plan(function)[::-1]))


@damage("twins", "is no output of the program and no final value of a parameter")
def a_result_that_nobody_wants(function: FuncOp) -> None:
    set_returned(function, [*returned(function), function.body.block.args[0]])


# -- what changes nothing ----------------------------------------------------------------------------


@harmless("twins")
def entries_in_another_order(function: FuncOp) -> None:
    set_table(function, table(function)[::-1])


@harmless("twins")
def results_in_another_order(function: FuncOp) -> None:
    """With the tables that say so."""
    count = len(returned(function))
    set_returned(function, returned(function)[::-1])
    set_table(function, [(count - 1 - output, parameter) for output, parameter in table(function)])
    for number, source in enumerate(plan(function)):
        if source.kind == "result":
            set_source(function, number, source._replace(index=count - 1 - source.index))


@harmless("overlapping")
def a_view_of_the_other_argument_on_the_storage(function: FuncOp) -> None:
    """Offsets count from the parameter, which both are in."""
    source = plan(function)[1]
    set_source(function, 1, source._replace(index=1 - source.index))


@harmless("twins")
def a_value_is_read_twice(function: FuncOp) -> None:
    op = next(op for op in function.body.block.ops if isinstance(op, ExtractOp))
    again = op.clone()
    function.body.block.insert_op_after(again, op)
    op.value.replace_all_uses_with(again.value)
