"""The decoder accepts a sound artifact and rejects each one that was damaged on purpose, with its reason.

The damage is consistent: checksums in the index are those of the damaged bytes. What is wrong with the index alone is in
tests/test_robustness.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import compiler
from compiler.driver import main
from compiler.export.hlo_schema import Module

HLO = "model.hlo_module.pb"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact with two aliased caches of different shapes, a reduction, a scatter and three results."""

    def step(k: torch.Tensor, v: torch.Tensor, row: torch.Tensor, position: torch.Tensor) -> Any:
        k.index_copy_(0, position, row)
        v.add_(1)
        return k.sum(0)

    inputs = (torch.zeros(8, 4), torch.zeros(6, 4), torch.ones(1, 4), torch.tensor([3], dtype=torch.int32))
    directory = tmp_path_factory.mktemp("sound") / "artifact"
    compiler.compile(step, inputs, target="neuron").save(directory)
    return directory


def entry(module: Any) -> Any:
    return next(c for c in module.computations if c.id == module.entry_computation_id)


def of_opcode(module: Any, opcode: str) -> Any:
    return next(i for i in entry(module).instructions if i.opcode == opcode)


def root(module: Any) -> Any:
    return next(i for i in entry(module).instructions if i.id == entry(module).root_id)


def aliases(module: Any) -> Any:
    return module.input_output_alias.entries


def duplicate_id(module: Any) -> None:
    first, second = entry(module).instructions[:2]
    second.id = first.id


def large_ids(module: Any) -> None:
    root(module).id = entry(module).root_id = 5 << 32


def operand_from_nowhere(module: Any) -> None:
    root(module).operand_ids[0] = 9999


def operand_from_below(module: Any) -> None:
    of_opcode(module, "add").operand_ids[0] = entry(module).root_id


def control_edge_from_nowhere(module: Any) -> None:
    root(module).control_predecessor_ids.append(4321)


def call_of_nothing(module: Any) -> None:
    of_opcode(module, "scatter").called_computation_ids[0] = 77


def two_computations_with_one_id(module: Any) -> None:
    module.computations[1].id = module.computations[0].id


def no_root(module: Any) -> None:
    entry(module).root_id = 8888


def no_entry(module: Any) -> None:
    module.entry_computation_id = 4444


def other_layout(module: Any) -> None:
    of_opcode(module, "scatter").shape.layout.minor_to_major[:] = [0, 1]


def layout_of_a_result(module: Any) -> None:
    module.host_program_shape.result.tuple_shapes[1].layout.minor_to_major[:] = [0, 1]


def dynamic_size(module: Any) -> None:
    module.host_program_shape.parameters[0].is_dynamic_dimension[:] = [True, False]


def negative_size(module: Any) -> None:
    of_opcode(module, "add").shape.dimensions[0] = -6


def shape_of_a_parameter(module: Any) -> None:
    of_opcode(module, "parameter").shape.dimensions[0] += 1


def parameter_twice(module: Any) -> None:
    parameters = [i for i in entry(module).instructions if i.opcode == "parameter"]
    parameters[1].parameter_number = parameters[0].parameter_number


def result_that_the_root_does_not_give(module: Any) -> None:
    module.host_program_shape.result.tuple_shapes[0].element_type = 3


def element_type_of_no_tensor(module: Any) -> None:
    module.host_program_shape.parameters[2].element_type = 99


def no_opcode(module: Any) -> None:
    of_opcode(module, "scatter").opcode = ""


def unknown_opcode(module: Any) -> None:
    of_opcode(module, "scatter").opcode = "frobnicate"


def operand_removed(module: Any) -> None:
    del of_opcode(module, "add").operand_ids[1]


def sum_of_other_elements(module: Any) -> None:
    of_opcode(module, "add").shape.element_type = 4  # s32


def sum_of_wider_elements(module: Any) -> None:
    of_opcode(module, "add").shape.element_type = 12  # f64


def sum_of_another_shape(module: Any) -> None:
    of_opcode(module, "add").shape.dimensions[:] = [6, 8]


def sum_and_root_of_another_shape(module: Any) -> None:
    """What the program says, the root and the operand agree; the instruction cannot give it."""
    add = of_opcode(module, "add")
    shapes = (*root(module).shape.tuple_shapes, *module.host_program_shape.result.tuple_shapes)
    for shape in (add.shape, *(s for s in shapes if s.dimensions[:] == [6, 4])):
        shape.dimensions[:] = [6, 8]


def reshape_that_loses_elements(module: Any) -> None:
    add = of_opcode(module, "add")
    add.opcode = "reshape"
    del add.operand_ids[1]
    add.shape.dimensions[:] = [6, 2]


def root_of_other_operands(module: Any) -> None:
    ids = root(module).operand_ids
    ids[0], ids[1] = ids[1], ids[0]


def root_of_fewer_operands(module: Any) -> None:
    del root(module).operand_ids[0]


def instructions_of_one_name(module: Any) -> None:
    for instruction in entry(module).instructions:
        instruction.name = "x"


def computations_of_one_name(module: Any) -> None:
    module.computations[0].name = module.computations[1].name = module.entry_computation_name


def another_entry_name(module: Any) -> None:
    module.entry_computation_name = "other"


def memory_space(module: Any) -> None:
    of_opcode(module, "add").shape.layout.MergeFromString(b"\x40\x05")  # field 8, memory_space: 5


def memory_space_of_a_result(module: Any) -> None:
    module.host_program_shape.result.tuple_shapes[0].layout.MergeFromString(b"\x40\x05")


def groups_in_the_newer_field(module: Any) -> None:
    of_opcode(module, "add").collective_device_list.replica_groups.add(replica_ids=[0])


def schedule(module: Any) -> None:
    module.schedule = b"\x0a\x00"


def donor(module: Any) -> None:
    module.buffer_donor = b"\x0a\x02\x10\x02"  # one entry: parameter 2


def may_alias(module: Any) -> None:
    aliases(module)[0].kind = 1


def alias_of_a_parameter_that_is_none(module: Any) -> None:
    aliases(module)[0].parameter_number = 9


def alias_of_a_result_that_is_none(module: Any) -> None:
    aliases(module)[0].output_shape_index[:] = [9]


def alias_of_another_type(module: Any) -> None:
    one, two = aliases(module)
    one.parameter_number, two.parameter_number = two.parameter_number, one.parameter_number


def alias_of_part_of_a_parameter(module: Any) -> None:
    aliases(module)[0].parameter_shape_index.append(0)


def one_parameter_aliased_twice(module: Any) -> None:
    aliases(module).add().CopyFrom(aliases(module)[0])


def alias_without_an_index(module: Any) -> None:
    aliases(module)[0].ClearField("output_shape_index")


def alias_that_the_index_does_not_have(module: Any) -> None:
    del aliases(module)[0]


DAMAGE: list[tuple[Callable[[Any], None], str]] = [
    (duplicate_id, "has the id"),
    (large_ids, "has the id 21474836480"),
    (operand_from_nowhere, "uses 9999, which is not defined before it"),
    (operand_from_below, "which is not defined before it"),
    (control_edge_from_nowhere, "uses 4321, which is not defined before it"),
    (call_of_nothing, "calls computation 77, which is not defined before it"),
    (two_computations_with_one_id, "has the id 1"),
    (no_root, "the root of computation"),
    (no_entry, "the entry computation is not there"),
    (other_layout, "has a layout that is not row-major"),
    (layout_of_a_result, "result 1 has a layout that is not row-major"),
    (dynamic_size, "parameter 0 has a dynamic dimension"),
    (negative_size, "has a negative size"),
    (shape_of_a_parameter, "the parameters of the entry computation are not those of the program shape"),
    (parameter_twice, "two parameters have the number"),
    (result_that_the_root_does_not_give, "the root is not what the program shape says"),
    (element_type_of_no_tensor, "parameter 2 has element type type 99"),
    (no_opcode, "has no opcode"),
    (unknown_opcode, "has the unknown opcode frobnicate"),
    (operand_removed, "of opcode add, has 1 operands, not 2"),
    (sum_of_other_elements, "gives s32[6,4], which add of (f32[6,4], f32[6,4]) does not"),
    (sum_of_wider_elements, "gives f64[6,4], which add of"),
    (sum_of_another_shape, "gives f32[6,8], which add of"),
    (sum_and_root_of_another_shape, "gives f32[6,8], which add of"),
    (reshape_that_loses_elements, "gives f32[6,2], which reshape of (f32[6,4]) does not"),
    (root_of_other_operands, "which tuple of"),
    (root_of_fewer_operands, "which tuple of"),
    (instructions_of_one_name, "have one name"),
    (computations_of_one_name, "two computations have one name"),
    (another_entry_name, "not other"),
    (memory_space, "has a layout with a memory space, tiles or padding"),
    (memory_space_of_a_result, "result 0 has a layout with a memory space"),
    (groups_in_the_newer_field, "has collective_device_list, which older readers skip"),
    (schedule, "it has a schedule"),
    (donor, "it has buffer donors"),
    (may_alias, "is no must-alias"),
    (alias_of_a_parameter_that_is_none, "parameter 9 of 4"),
    (alias_of_a_result_that_is_none, "output 9 of 3"),
    (alias_of_another_type, "alias entry: output"),
    (alias_of_part_of_a_parameter, "a part of a parameter"),
    (one_parameter_aliased_twice, "stands in two entries"),
    (alias_without_an_index, "output index []"),
    (alias_that_the_index_does_not_have, "the alias table is"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE, ids=lambda x: x.__name__ if callable(x) else "")
def test_damaged_bytes_are_rejected(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Any], None], reason: str
) -> None:
    assert main(["--check-artifact", str(sound)]) == 0
    assert capsys.readouterr().out.endswith("sound\n")
    module = Module.FromString((sound / HLO).read_bytes())
    damage(module)
    data = module.SerializeToString(deterministic=True)
    for path in sound.rglob("*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / HLO).write_bytes(data)
    index = json.loads((tmp_path / "aliases.json").read_text())
    index["files"][HLO] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (tmp_path / "aliases.json").write_text(json.dumps(index))
    assert main(["--check-artifact", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert reason in said.err
    assert not said.out


@pytest.mark.parametrize("stride", [[1, 8], [4, 2], [8, 1]])
def test_strides_that_the_memory_does_not_have_are_rejected(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], stride: list[int]
) -> None:
    for path in sound.rglob("*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    index = json.loads((tmp_path / "aliases.json").read_text())
    (cache,) = (entry for entry in index["arguments"] if entry["size"] == [8, 4])
    cache["stride"] = stride
    (tmp_path / "aliases.json").write_text(json.dumps(index))
    assert main(["--check-artifact", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "the strides of 'k' do not give" in said or "reaches byte" in said


def _entry_is_gone(module: Any, index: Any) -> None:
    del aliases(module)[0]
    del index["aliases"][0]


def _read_only_argument_has_an_entry(module: Any, index: Any) -> None:
    """`row` has an output of its type, the sum made a row."""
    for shape in (of_opcode(module, "reduce").shape, root(module).shape.tuple_shapes[0]):
        shape.dimensions[:] = [1, 4]
        shape.layout.minor_to_major[:] = [1, 0]
    module.host_program_shape.result.tuple_shapes[0].CopyFrom(root(module).shape.tuple_shapes[0])
    index["results"][0]["shape"] = [1, 4]
    aliases(module).add(output_shape_index=[0], parameter_number=2, kind=2)
    index["aliases"].append({"output": 0, "parameter": 2, "kind": "must-alias"})


def _nobody_writes(module: Any, index: Any) -> None:
    next(a for a in index["arguments"] if a["name"] == "k")["written"] = False


def _two_arguments_in_one_parameter(module: Any, index: Any) -> None:
    row, k = (next(a for a in index["arguments"] if a["name"] == name) for name in ("row", "k"))
    row["parameter"] = k["parameter"]


def _output_is_a_final_value(module: Any, index: Any) -> None:
    index["plan"][0]["index"] = index["aliases"][0]["output"]


def _entries_in_another_order(module: Any, index: Any) -> None:
    one, two = aliases(module)
    kept = type(one)()
    kept.CopyFrom(one)
    one.CopyFrom(two)
    two.CopyFrom(kept)
    index["aliases"].reverse()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_entry_is_gone, "argument 'k' is written, against the alias table"),
        (_read_only_argument_has_an_entry, "argument 'row' is not written, against the alias table"),
        (_nobody_writes, "argument 'k' is not written, against the alias table"),
        (_two_arguments_in_one_parameter, "argument 'row' is not written, against the alias table"),
        (_output_is_a_final_value, "which is written into a parameter"),
        (_entries_in_another_order, ""),
    ],
    ids=lambda x: x.__name__ if callable(x) else "",
)
def test_bytes_and_index_are_damaged_alike(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Any, Any], None], reason: str
) -> None:
    """Each agrees with the other; what the program does is told against either. An order says nothing."""
    for path in sound.rglob("*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    module = Module.FromString((sound / HLO).read_bytes())
    index = json.loads((tmp_path / "aliases.json").read_text())
    damage(module, index)
    data = module.SerializeToString(deterministic=True)
    (tmp_path / HLO).write_bytes(data)
    index["files"][HLO] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (tmp_path / "aliases.json").write_text(json.dumps(index))
    assert main(["--check-artifact", str(tmp_path)]) == (1 if reason else 0)
    said = capsys.readouterr()
    assert reason in said.err if reason else said.out.endswith("sound\n")


def test_there_are_enough() -> None:
    assert len({damage for damage, _ in DAMAGE}) >= 20


def test_a_module_that_crashes_xla_is_refused_when_it_is_loaded(sound: Path, tmp_path: Path) -> None:
    """A reduction without operands: XLA's conversion to StableHLO looks at the first one, and there is none."""
    for path in sound.rglob("*"):
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    module = Module.FromString((sound / HLO).read_bytes())
    del of_opcode(module, "reduce").operand_ids[:]
    data = module.SerializeToString(deterministic=True)
    (tmp_path / HLO).write_bytes(data)
    index = json.loads((tmp_path / "aliases.json").read_text())
    index["files"][HLO] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (tmp_path / "aliases.json").write_text(json.dumps(index))
    with pytest.raises(compiler.CompileError, match="opcode reduce, has 0 operands"):
        compiler.load(tmp_path)
