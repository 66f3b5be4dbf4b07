"""Saving and loading: whole or not there, equal to the original, independent of it, closed to anything malformed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils import _pytree as pytree

import compiler
from compiler.errors import CompileError, GuardError
from compiler.export import artifact
from compiler.export.hlo_schema import Module
from compiler.export.signature import Alias, Binding, OutputSource, Signature, TensorType, Window
from compiler.export.strict_json import Node
from compiler.export.trees import tree_from_json, tree_to_json
from compiler.program import Leaf
from compiler.runtime.executable import Executable
from compiler.validation.artifact import check_artifact
from tests.stablehlo_programs import aligned, cache_step, contiguous, executable, signature

ROOT = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("replay_artifact", ROOT / "tools" / "replay_artifact.py")
assert _spec is not None and _spec.loader is not None
replay_artifact = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(replay_artifact)
Replay, replay = replay_artifact.Replay, replay_artifact.replay


def tied() -> tuple[Executable, dict[str, torch.Tensor]]:
    """f(x): pool[1].add_(x) and return pool[1], x + table[:, 0] + bias; `row` is pool[1], `tied` is table."""
    pool, table, bias = aligned(2, 4), torch.arange(12.0).view(4, 3), torch.full((4,), 0.5)
    state = {"pool": pool, "row": pool[1], "table": table, "tied": table, "bias": bias}
    flat = TensorType("f32", (8,))
    line, whole = TensorType("f32", (4,)), TensorType("f32", (12,))
    s = signature(
        [
            Binding("pool", "buffer", 0, "f32", contiguous(2, 4), written=True),
            Binding("row", "buffer", 0, "f32", contiguous(4, offset=4), written=True),
            Binding("table", "parameter", 1, "f32", contiguous(4, 3)),
            Binding("tied", "parameter", -1, "f32", contiguous(4, 3)),
            Binding("bias", "constant", 2, "f32", contiguous(4)),
            Binding("x", "input", 3, "f32", contiguous(4)),
        ],
        [
            OutputSource("argument_view", 0, "f32", contiguous(4, offset=4)),
            OutputSource("result", 1, "f32", contiguous(4)),
        ],
        [flat, whole, line, line],
        [flat, line],
        [Alias(0, 0)],
    )
    body = """
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %long = stablehlo.pad %3, %zero, low = [4], high = [0], interior = [0]
        : (tensor<4xf32>, tensor<f32>) -> tensor<8xf32>
    %new = stablehlo.add %0, %long : tensor<8xf32>
    %c = stablehlo.slice %1 [0:12:3] : (tensor<12xf32>) -> tensor<4xf32>
    %d = stablehlo.add %c, %2 : tensor<4xf32>
    %y = stablehlo.add %3, %d : tensor<4xf32>
    return %new, %y : tensor<8xf32>, tensor<4xf32>"""
    return executable(s, body, state=state), state


# -- round trips ---------------------------------------------------------------------------------


def test_state_keeps_sharing_offsets_and_moves(tmp_path: Path):
    run, state = tied()
    x = torch.ones(4)
    run(x)
    run.save(tmp_path / "a")
    loaded = Executable.load(tmp_path / "a")
    assert sorted(p.name for p in (tmp_path / "a" / "state").iterdir()) == ["0.bin", "1.bin", "2.bin"]
    held = loaded._state.available()
    assert (
        held["row"].data_ptr() == held["pool"].data_ptr() + 16 and held["tied"].data_ptr() == held["table"].data_ptr()
    )
    for n in (2, 3):
        for program in (run, loaded):
            row, y = program(x)
            assert row.tolist() == [float(n)] * 4 and y.tolist() == [1.5, 4.5, 7.5, 10.5]
            assert program.copied_bytes == 0
    assert state["pool"].data_ptr() != held["pool"].data_ptr()
    loaded.save(tmp_path / "a")
    assert Executable.load(tmp_path / "a")(x)[0].tolist() == [4.0] * 4


def test_a_loaded_executable_tells_the_same(tmp_path: Path):
    run, _ = tied()
    run.save(tmp_path / "a")
    loaded = Executable.load(tmp_path / "a")
    assert loaded.signature == run.signature and loaded.hlo_proto == run.hlo_proto
    assert loaded.stablehlo() == run.stablehlo() and loaded.io_map == run.io_map == {2: 0, 3: 1}
    assert loaded.alias_table == run.alias_table and loaded.unused_arguments == ("tied",)
    with pytest.raises(CompileError, match="not part of an artifact"):
        loaded.ir("import")
    with pytest.raises(GuardError, match="'x': expected shape"):
        loaded(torch.ones(5))


def test_omitted_weights_are_bound(tmp_path: Path):
    run, state = tied()
    run.save(tmp_path / "a", weights="omit")
    assert [p.name for p in (tmp_path / "a" / "state").iterdir()] == ["0.bin"]  # the constant, which nobody else has
    loaded = Executable.load(tmp_path / "a")
    with pytest.raises(GuardError, match="'pool', 'row', 'table' and 1 more.*\n.*bind"):
        loaded(torch.ones(4))
    with pytest.raises(CompileError, match="no tensor for the state 'pool'"):
        loaded.save(tmp_path / "b")
    loaded.bind({name: state[name] for name in ("pool", "row", "table", "tied")})
    row, _ = loaded(torch.ones(4))
    assert row.data_ptr() == state["row"].data_ptr() and state["row"].tolist() == [1.0] * 4
    with pytest.raises(CompileError, match="neither"):
        run.save(tmp_path / "b", weights="some")  # pyright: ignore
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("lazy", ["", "conj", "neg"])
def test_dtypes_and_lazy_bits_of_state(tmp_path: Path, lazy: str):
    kind = TensorType("complex<f32>", (4,))
    window = Window((2, 2), (1, 2))
    s = signature(
        [Binding("z", "buffer", 0, "complex<f32>", window, lazy=lazy)], [OutputSource("argument", 0)], [kind], []
    )
    memory = torch.arange(8).to(torch.complex64)[4:].view(2, 2).t() * 1j
    value = {"": memory, "conj": memory.conj(), "neg": torch._neg_view(memory)}[lazy]
    executable(s, "return", state={"z": value}).save(tmp_path / "a")
    found = Executable.load(tmp_path / "a")()
    assert torch.equal(found, value) and found.stride() == value.stride()
    assert (found.is_conj(), found.is_neg()) == (value.is_conj(), value.is_neg())
    assert torch.equal(replay(tmp_path / "a"), value)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_structures_survive(tmp_path: Path):
    pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
    values = ([0, (1,)], {"b": 2, "a": OrderedDict([(3, 4)])}, torch.return_types.max((5, 6)), 7)
    tree = pytree.tree_structure(values)
    constants = [None, True, 3, 0.1, 2 - 1j, torch.bfloat16, "text"]
    leaves = tuple(Leaf(constant=c) for c in constants)
    document = json.loads(json.dumps(tree_to_json(tree, leaves, "argument")))
    again, found = tree_from_json(Node(document, "tree"), "argument")
    assert again == tree and [leaf.constant for leaf in found] == constants
    pair = pytree.tree_structure([Pair(1, 2)])
    document = tree_to_json(pair, (Leaf(0), Leaf(1)), "output")
    again, _ = tree_from_json(Node(document, "tree"), "output")
    assert pytree.tree_unflatten([5, 6], again) == [Pair(5, 6)]
    with pytest.raises(CompileError, match="no container type is registered as 'os.system'"):
        tree_from_json(Node({"registered": "os.system", "context": "true", "children": []}, "tree"), "output")
    with pytest.raises(CompileError, match="cannot be saved"):
        tree_to_json(pytree.tree_structure([0]), (Leaf(constant=object()),), "output")


def test_loading_needs_no_ir(tmp_path: Path):
    cache_step().save(tmp_path / "a")
    code = f"""
import sys, torch
from compiler.runtime.executable import Executable
x, kv = torch.ones(4, 8), torch.zeros(4, 8)
assert Executable.load({str(tmp_path / "a")!r})(x, kv).sum() == 64 and kv.sum() == 32
assert not any(name.split(".")[0] in ("xdsl", "dialects", "jax") for name in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr


# -- a second executor ---------------------------------------------------------------------------


def test_replay_agrees(tmp_path: Path):
    run, _ = tied()
    run.save(tmp_path / "a")
    program, x = Replay(tmp_path / "a"), torch.arange(4.0)
    for _ in range(3):
        for ours, theirs in zip(run(x), program(x), strict=True):
            assert torch.equal(ours, theirs)
    assert program.state["row"].data_ptr() == program.state["pool"].data_ptr() + 16


def test_replay_needs_the_alias_table(tmp_path: Path):
    cache_step().save(tmp_path / "a")
    x, cache = torch.ones(4, 8), torch.zeros(4, 8)
    assert torch.equal(replay(tmp_path / "a", x, cache), x * 2) and torch.equal(cache, x)
    index = json.loads((tmp_path / "a" / "aliases.json").read_text())
    index["aliases"] = []
    (tmp_path / "a" / "aliases.json").write_text(json.dumps(index))
    replay(tmp_path / "a", x, cache)
    assert torch.equal(cache, x)


def test_replay_is_a_program_and_knows_nothing_of_the_compiler(tmp_path: Path):
    tied()[0].save(tmp_path / "a", weights="omit")
    tool = ROOT / "tools" / "replay_artifact.py"
    done = subprocess.run(
        [sys.executable, str(tool), str(tmp_path / "a"), "--random"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "parameter 0: f32[8] holds pool, row" in done.stdout and "output 0 must alias parameter 0" in done.stdout
    source = tool.read_text()
    assert "from compiler" not in source and "import compiler" not in source and "dialects" not in source


# -- whole or not there --------------------------------------------------------------------------


def test_an_interrupted_save_leaves_the_old_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run, _ = tied()
    run.save(tmp_path / "a")
    before = {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()}
    original = artifact._put

    def interrupted(path: Path, data: bytes) -> dict[str, Any]:
        if path.name == "1.bin":
            path.write_bytes(bytes(data)[:1])
            raise KeyboardInterrupt
        return original(path, data)

    run(torch.ones(4))
    for name, replacement in (
        ("_put", interrupted),
        ("_replace", lambda new, target: (_ for _ in ()).throw(OSError("full"))),
    ):
        with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, CompileError)):
            patch.setattr(artifact, name, replacement)
            run.save(tmp_path / "a")
        assert {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()} == before
        assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("exchange", [True, False])
def test_savers_to_one_directory_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool):
    if not exchange:
        monkeypatch.setattr(artifact, "_exchange", lambda one, other: False)
        cache_step().save(tmp_path / "a")
        tied()[0].save(tmp_path / "a")
        assert len(Executable.load(tmp_path / "a").parameters) == 4 and [p.name for p in tmp_path.iterdir()] == ["a"]
        return
    programs = [cache_step(), tied()[0]]

    def save(program: Executable) -> None:
        for _ in range(10):
            program.save(tmp_path / "a")

    threads = [threading.Thread(target=save, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Executable.load(tmp_path / "a").parameters) in (2, 4)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_other_peoples_files_are_not_replaced(tmp_path: Path):
    (tmp_path / "a").mkdir()
    cache_step().save(tmp_path / "a")  # empty: fine
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    with pytest.raises(CompileError, match="no artifact"):
        cache_step().save(tmp_path / "b")
    (tmp_path / "c").write_text("a file")
    with pytest.raises(CompileError, match="not a directory"):
        cache_step().save(tmp_path / "c")
    assert (tmp_path / "b" / "thesis.txt").read_text() == "mine"


# -- malformed -----------------------------------------------------------------------------------


def at(*path: Any) -> Callable[[Any, Any], None]:
    """An edit: the value at a path in the index becomes another."""

    def change(document: Any, value: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (at("format"), "zip", "the format is not"),
        (at("version"), 2, "version 2"),
        (at("extra"), 1, "unknown key 'extra'"),
        (at("weights"), "all", "'all' is none of"),
        (at("parameters"), {}, "expected a list, found dict"),
        (at("parameters", 0, "element"), "f31", "'f31' is none of"),
        (at("parameters", 0, "shape", 0), -8, "-8 is not between 0"),
        (at("parameters", 0, "shape", 0), 8.0, "expected an integer, found float"),
        (at("parameters", 0, "shape", 0), True, "expected an integer, found bool"),
        (at("parameters", 0, "shape", 0), 2**70, "is not between"),
        (at("parameters", 0, "shape", 0), 9, "its parameter 0 is f32"),
        (at("parameters", 3, "shape", 0), 5, "disagree on parameters"),
        (at("arguments", 0, "offset"), 1, "reaches 36 bytes into parameter 0"),
        (at("arguments", 0, "parameter"), 9, "bound to parameter 9"),
        (at("arguments", 0, "name"), "row", "two arguments are called 'row'"),
        (at("arguments", 0, "stride"), [1], "1 strides for 2 sizes"),
        (at("arguments", 0, "written"), 1, "expected true or false"),
        (at("aliases", 0, "kind"), "may-alias", "none of 'must-alias'"),
        (at("aliases", 0, "output"), 5, "no output 5"),
        (at("aliases"), [], "disagree on the alias table"),
        (at("plan", 1, "index"), 7, "result 7, which is none"),
        (at("plan", 0, "kind"), "argument", "unknown key"),
        (at("plan", 0, "offset"), 5, "into parameter 0"),
        (at("inputs"), {"tuple": [{"tuple": []}, {"dict": []}]}, "'x' is an input without"),
        (at("inputs"), {"pickle": []}, "no container"),
        (at("outputs"), {"output": 6}, "names output 6"),
        (at("outputs"), {"constant": {"torch": "load"}}, "expected a constant"),
        (at("io_map"), {"0": 0}, "does not follow"),
        (at("original_output_count"), 3, "the program has 2"),
        (at("rebound"), {"a": 5}, "names output 5"),
        (at("state", 0, "file"), "../secret.bin", "not the name of a state file"),
        (at("state", 0, "file"), "state/../../0.bin", "not the name of a state file"),
        (at("state", 0, "file"), "state/7.bin", "is not listed"),
        (at("state", 0, "offset"), 99, "bytes into"),
        (at("state", 0, "size"), [2**62, 2**62], "bytes into|geometry|strides"),
        (at("state", 0, "name"), "nobody", "'nobody' is no state"),
        (at("state"), [], "there is no tensor for"),
        (at("files", "state/0.bin", "sha256"), "00", "is damaged"),
        (at("files", "state/0.bin", "bytes"), 1, "is damaged"),
        (at("files"), {}, "is not listed"),
    ],
)
def test_a_malformed_index_is_refused(tmp_path: Path, place: Callable[[Any, Any], None], value: Any, message: str):
    saved(tmp_path / "a")
    index = json.loads((tmp_path / "a" / "aliases.json").read_text())
    place(index, value)
    (tmp_path / "a" / "aliases.json").write_text(json.dumps(index))
    with pytest.raises(CompileError, match=message):
        Executable.load(tmp_path / "a")


_saved: dict[str, bytes] = {}


def saved(directory: Path) -> None:
    """The artifact of `tied`, made once."""
    if not _saved:
        tied()[0].save(directory)
        _saved.update({str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()})
    for name, data in _saved.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b"[]", "expected an object"),
        (b"{", "not valid JSON"),
        (b'{"format": NaN}', "no JSON number"),
        (b'{"format": 1, "format": 2}', "twice"),
        (b"\xff\xfe", "not text"),
        (b"[" * 100000, "not valid JSON"),
        (b'{"format": "fx2hlo-artifact", "version": 1}', "'weights' is missing"),
    ],
)
def test_an_index_that_is_no_index_is_refused(tmp_path: Path, text: bytes, message: str):
    saved(tmp_path / "a")
    (tmp_path / "a" / "aliases.json").write_bytes(text)
    with pytest.raises(CompileError, match=message):
        Executable.load(tmp_path / "a")


@pytest.mark.parametrize("name", ["aliases.json", "model.hlo_module.pb", "model.stablehlo.mlir", "state/1.bin"])
def test_missing_cut_and_changed_files_are_refused(tmp_path: Path, name: str):
    saved(tmp_path / "a")
    path = tmp_path / "a" / name
    data = path.read_bytes()
    if name != "aliases.json":
        for damaged in (data[:-1], data + b"x", bytes([data[0] ^ 1]) + data[1:]):
            path.write_bytes(damaged)
            with pytest.raises(CompileError, match="damaged"):
                Executable.load(tmp_path / "a")
    path.unlink()
    with pytest.raises(CompileError, match="cannot be read"):
        Executable.load(tmp_path / "a")
    (tmp_path / "outside").write_bytes(data)
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(CompileError, match="leads out of"):
        Executable.load(tmp_path / "a")
    with pytest.raises(CompileError, match="not a directory"):
        Executable.load(tmp_path / "nowhere")


def test_an_alias_table_that_would_abort_the_process_is_refused(tmp_path: Path):
    """Consistently forged: the index, the checksum and the module all name a parameter that is not there."""
    saved(tmp_path / "a")
    module = Module.FromString((tmp_path / "a" / "model.hlo_module.pb").read_bytes())
    module.input_output_alias.entries[0].parameter_number = 9
    index = json.loads((tmp_path / "a" / "aliases.json").read_text())
    index["files"]["model.hlo_module.pb"] = artifact._put(
        tmp_path / "a" / "model.hlo_module.pb", module.SerializeToString()
    )
    index["aliases"][0]["parameter"] = 9
    (tmp_path / "a" / "aliases.json").write_text(json.dumps(index))
    with pytest.raises(CompileError, match="no parameter 9"):
        Executable.load(tmp_path / "a")


def test_signatures_compare_by_value():
    one, other = cache_step().signature, cache_step().signature
    assert one == other and Signature(**{**one.__dict__, "rebound": (("a", 0),)}) != other


class Outcome(NamedTuple):
    total: torch.Tensor
    note: str


pytree._register_namedtuple(Outcome, serialized_type_name="tests.Outcome")


@pytest.mark.parametrize(
    "result",
    [
        lambda c: (None, c, 3, c * 2), lambda c: None, lambda c: {"n": 1.5, "c": [c[1:], c]}, lambda c: (c + 1, (), c),
        lambda c: Outcome(c, "kept"),
    ],
)  # fmt: skip
def test_results_that_are_no_tensors_are_sound(tmp_path: Path, result: Callable[[torch.Tensor], Any]):
    def step(cache: torch.Tensor) -> Any:
        cache.add_(1)
        return result(cache)

    compiler.compile(step, (torch.zeros(3),)).save(tmp_path / "a")
    assert check_artifact(tmp_path / "a").endswith("sound\n")
    index = json.loads((tmp_path / "a" / "aliases.json").read_text())
    index["original_output_count"] += 1
    (tmp_path / "a" / "aliases.json").write_text(json.dumps(index))
    with pytest.raises(CompileError, match="original_output_count"):
        check_artifact(tmp_path / "a")


def test_what_is_no_state_is_not_bound():
    run, state = tied()
    for wrong in (None, [1], 3):
        with pytest.raises(CompileError, match="is no state"):
            run.bind(wrong)  # pyright: ignore
    with pytest.raises(CompileError, match="no state 'unknown'"):
        run.bind({**state, "unknown": torch.ones(4)})
    run.bind({**state, "second_name": state["pool"]})


def test_a_place_where_nothing_can_be_saved(tmp_path: Path):
    run, _ = tied()
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "a", "a\0b", None, "/proc/nowhere/a"):
        with pytest.raises(CompileError, match="nothing can be saved"):
            run.save(place)  # pyright: ignore
    for nowhere in (None, 5):
        with pytest.raises(CompileError, match="is no path"):
            compiler.load(nowhere)  # pyright: ignore
