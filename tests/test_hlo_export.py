"""From StableHLO to bytes that an older XLA reads: repairs, refusals, and that nothing else changes."""

from __future__ import annotations

import pytest
from jaxlib.mlir import ir

from compiler.errors import CompileError
from compiler.export.hlo import finish, hlo_text, interface, to_hlo, verify
from compiler.export.hlo_schema import MUST_ALIAS, Module
from compiler.export.signature import Alias, TensorType
from compiler.lowering.builder import make_context
from compiler.runtime.client import compile_hlo
from tests.stablehlo_programs import export, stablehlo

F32 = TensorType("f32", (4, 8))
COLUMNS = TensorType("f32", (8, 4))
BODY = """
    %t = stablehlo.transpose %1, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %n = stablehlo.add %0, %t : tensor<4x8xf32>
    %e = chlo.erf %n : tensor<4x8xf32> -> tensor<4x8xf32>
    return %e, %n : tensor<4x8xf32>, tensor<4x8xf32>"""


def sample(aliases: tuple[Alias, ...] = (Alias(1, 0),)) -> str:
    return stablehlo([F32, COLUMNS], [F32, F32], BODY, aliases)


def collective(groups: str) -> str:
    return f"""module @m attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32}} {{
      func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
        %s = "stablehlo.all_reduce"(%x) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %c : tensor<f32>
        }}) {{replica_groups = {groups}}} : (tensor<4xf32>) -> tensor<4xf32>
        return %s : tensor<4xf32>
      }}
    }}"""


def test_ids_layouts_and_aliases_are_repaired():
    data = export(sample())
    module = Module.FromString(data)
    ids = [i.id for c in module.computations for i in c.instructions]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    layouts = {
        tuple(i.shape.layout.minor_to_major) for c in module.computations for i in c.instructions if i.shape.dimensions
    }
    assert layouts == {(1, 0)}
    assert [entry.kind for entry in module.input_output_alias.entries] == [MUST_ALIAS]
    assert interface(data) == ((F32, COLUMNS), (F32, F32), (Alias(1, 0),))
    assert "must-alias" in hlo_text(data) and " erf(" not in hlo_text(data)
    assert finish(data) == data


def test_the_module_that_is_exported_stays_as_it_is():
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(sample())
        before = str(module)
        to_hlo(module)
        assert str(module) == before and "chlo.erf" in before


def test_names_are_recorded_and_counted():
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(sample())
        text = hlo_text(to_hlo(module, ["cache", "x"], ["y", "new_cache"]))
        assert 'neff_input_names="cache"' in text and 'neff_output_names="y,new_cache"' in text
        with pytest.raises(CompileError, match="1 input names for 2"):
            to_hlo(module, ["cache"])


def test_listed_replica_groups_are_where_every_reader_looks():
    module = Module.FromString(export(collective("dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>")))
    (reduce,) = [i for c in module.computations for i in c.instructions if i.opcode == "all-reduce"]
    assert [list(group.replica_ids) for group in reduce.replica_groups] == [[0, 1], [2, 3]]
    assert not reduce.HasField("collective_device_list")


def test_replica_groups_by_mesh_axes_are_refused():
    mesh = '#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [<name = "d", size = 4>]>, '
    with pytest.raises(CompileError, match="one by one"):
        export(collective(mesh + 'axes = [#stablehlo.axis_ref<name = "d">]>'))


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ((Alias(7, 0),), "no output 7"),
        ((Alias(0, 5),), "no parameter 5"),
        ((Alias(0, -1),), "no parameter -1"),
        ((Alias(0, 1),), "is tensor<8x4xf32>"),
        ((Alias(0, 0), Alias(1, 0)), "parameter 0 is aliased twice"),
        ((Alias(0, 0), Alias(0, 1)), "output 0 is aliased twice"),
    ],
)
def test_wrong_alias_tables_are_refused_before_xla_sees_them(aliases: tuple[Alias, ...], message: str):
    with pytest.raises(CompileError, match=message):
        export(sample(aliases))


@pytest.mark.parametrize(
    "field, value, message", [("parameter_number", 5, "no parameter 5"), ("parameter_number", 1, "is f32")]
)
def test_a_bad_table_in_the_bytes_never_reaches_the_compiler(field: str, value: int, message: str):
    module = Module.FromString(export(sample()))
    setattr(module.input_output_alias.entries[0], field, value)
    with pytest.raises(CompileError, match=message):
        compile_hlo(module.SerializeToString())


def test_dynamic_shapes_are_refused_by_dimension():
    text = "func.func public @main(%x: tensor<4x?xf32>) -> tensor<4x?xf32> { return %x : tensor<4x?xf32> }"
    with pytest.raises(CompileError, match="parameter 0 .* dimension 1 is not static"):
        export(text)


def test_a_module_without_main_is_refused():
    with pytest.raises(CompileError, match="no function `main`"):
        export("func.func public @other(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")


def test_verify_notices_a_module_that_says_something_else():
    one, other = export(sample()), export(sample().replace("stablehlo.add", "stablehlo.subtract"))
    verify(one, one)
    with pytest.raises(CompileError, match="differs"):
        verify(one, other)
    wide = Module.FromString(one)
    entry = wide.computations[-1].instructions[0]
    entry.id += 2**32
    with pytest.raises(CompileError, match="malformed"):
        verify(one, wide.SerializeToString())


def test_wrong_shapes_are_found_on_the_way_back():
    module = Module.FromString(export(sample()))
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "add":
                instruction.shape.dimensions[:] = [8, 4]
    with pytest.raises(CompileError, match="malformed|cannot be loaded"):
        compile_hlo(module.SerializeToString())


@pytest.mark.parametrize("data", [b"", b"\x00\x01nonsense", b"\xff" * 40])
def test_bytes_that_are_no_module_are_refused(data: bytes):
    with pytest.raises(CompileError, match="not an HLO module"):
        finish(data)


def test_one_result_is_not_a_tuple():
    body = "%s = stablehlo.add %0, %0 : tensor<4x8xf32>\nreturn %s : tensor<4x8xf32>"
    data = export(stablehlo([F32], [F32], body, [Alias(0, 0)]))
    assert interface(data) == ((F32,), (F32,), (Alias(0, 0),))
    compile_hlo(data)
