"""Faults put into our own passes and tables are found, each with the name of the pass that has it.

Faults of passes (tests/seeded_faults.py) are found by running the program before and after, those that no example reaches
(tests/edge_faults.py) by running each of its calls alone, those of the runtime (tests/call_faults.py) by calls of the
executable; those of tables also by the table verifier, which runs nothing, and so are tables damaged afterwards
(tests/table_faults.py).
"""

from __future__ import annotations

import pytest
from xdsl.context import Context

import compiler
from compiler import compilation
from compiler.analysis.table_verifier import verify_tables
from compiler.errors import CompileError, ValidationError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.pipeline import Pipeline
from compiler.reference import entry
from compiler.validation.validator import Validator
from tests.call_faults import CALL_FAULTS, examples
from tests.edge_faults import EDGES
from tests.seeded_faults import FAULTS, PROGRAMS, Patch
from tests.table_faults import DAMAGE, HARMLESS
from tests.table_programs import TABLE_PROGRAMS, forms


def run(program: str, stages: str) -> None:
    function, make = PROGRAMS[program]
    if not stages:
        compiler.compile(function, make(), validate=True)
        return
    captured = capture(function, make())
    imported = import_graph(captured)
    known = {item.name: item.tensor for item in captured.inputs}
    validator = Validator.of(imported.module, [known[a.name] for a in imported.arguments])
    for each in Pipeline.parse(stages).passes:
        validator.apply(each.name, imported.module, lambda module, each=each: each.apply(Context(), module))


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, monkeypatch: Patch) -> None:
    seeded = FAULTS[name]
    seeded.plant(monkeypatch)
    with pytest.raises(ValidationError) as caught:
        run(seeded.program, seeded.stages)
    assert caught.value.pass_name == seeded.pass_name, str(caught.value)


@pytest.mark.parametrize("name", EDGES)
def test_fault_that_no_example_reaches_is_found(name: str, monkeypatch: Patch) -> None:
    seeded = EDGES[name]
    compiler.compile(seeded.program, seeded.examples, validate=True)
    seeded.plant(monkeypatch)
    with pytest.raises(ValidationError) as caught:
        compiler.compile(seeded.program, seeded.examples, validate=True)
    assert caught.value.pass_name == "lower", str(caught.value)


@pytest.mark.parametrize("name", CALL_FAULTS)
def test_fault_of_a_call_is_found(name: str, monkeypatch: Patch) -> None:
    seeded = CALL_FAULTS[name]
    compiler.compile(seeded.program(), examples(), target=seeded.target, validate=True)
    seeded.plant(monkeypatch)
    with pytest.raises(ValidationError) as caught:
        compiler.compile(seeded.program(), examples(), target=seeded.target, validate=True)
    assert caught.value.pass_name == seeded.pass_name, str(caught.value)


@pytest.mark.parametrize("name", [n for n, f in FAULTS.items() if f.pass_name == "in-place-to-out-of-place"])
def test_the_table_verifier_alone_finds_it(name: str, monkeypatch: Patch) -> None:
    """Nothing runs: the two forms are compared as symbols."""
    seeded = FAULTS[name]
    function, make = PROGRAMS[seeded.program]
    before = import_graph(capture(function, make())).module
    after = before.clone()
    seeded.plant(monkeypatch)
    with pytest.raises(CompileError):
        compilation.make_out_of_place(entry(after))
        verify_tables(before, after)


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_found_where_nothing_is_wrong(program: str) -> None:
    run(program, "")
    run(program, "eliminate-clones,remove-dead-values,in-place-to-out-of-place,remove-dead-values,decompose")


@pytest.mark.parametrize("program", TABLE_PROGRAMS)
def test_true_tables_are_proved(program: str) -> None:
    before, after = forms(program)
    assert verify_tables(before, after)


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_tables_are_found_without_a_run(name: str) -> None:
    damage = DAMAGE[name]
    before, after = forms(damage.program)
    damage.change(entry(after))
    with pytest.raises(CompileError, match="the alias tables are not true: .*" + damage.reason):
        verify_tables(before, after)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_no_meaning_is_accepted(name: str) -> None:
    harmless = HARMLESS[name]
    before, after = forms(harmless.program)
    harmless.change(entry(after))
    assert verify_tables(before, after)


def test_there_are_enough_faults() -> None:
    assert len(FAULTS) >= 20
    assert len(DAMAGE) >= 30
