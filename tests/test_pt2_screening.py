"""Archives made to run code, or to exhaust the machine, when they are loaded: each is refused with one error, and nothing runs."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import compiler
from compiler.driver import main
from compiler.frontend.expressions import is_arithmetic
from compiler.frontend.pt2 import load_exported

MODEL, INPUTS = "models/model.json", "data/sample_inputs/model.pt"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"
VICTIM = "antigravity_of_fx2hlo_tests"
"""A module whose import, or whose function, is the code that must not run."""

Files = dict[str, bytes]


class Step(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kv", torch.zeros(4, 3))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        kv = self.get_buffer("kv")
        kv[1:2].copy_(x)
        return {"[a": kv.sum(0), "name": mask & 1}


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> Files:
    path = tmp_path_factory.mktemp("sound") / "model.pt2"
    torch.export.save(
        torch.export.export(Step(), (torch.ones(1, 3), torch.ones(2, dtype=torch.int64)), strict=False), path
    )
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists when code from the archive has run."""
    mark = tmp_path / "ran"
    (tmp_path / f"{VICTIM}.py").write_text(f"open({str(mark)!r}, 'w')\ndef run():\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    return mark


def write(path: Path, files: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(f"model/{name}", data)
    return path


def json_of(entry: str, change: Callable[[Any], None]) -> Callable[[Files, Path], None]:
    def apply(files: Files, ran: Path) -> None:
        document = json.loads(files[entry].replace(b"RAN", str(ran).encode()))
        change(document)
        files[entry] = json.dumps(document).replace("RAN", str(ran)).encode()

    return apply


def structure(context: Any, kind: str = "builtins.dict") -> Callable[[Files, Path], None]:
    leaf = {"type": None, "context": None, "children_spec": []}

    def change(model: Any) -> None:
        spec = json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf]}])
        model["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = spec

    return json_of(MODEL, change)


def renamed(new: str) -> Callable[[Files, Path], None]:
    """The input `x` by another name, wherever it is named."""

    def apply(files: Files, ran: Path) -> None:
        files[MODEL] = files[MODEL].replace(b'"x"', json.dumps(new.replace("RAN", str(ran))).encode())

    return apply


def call(target: str, operand: dict[str, Any]) -> Callable[[Files, Path], None]:
    def change(model: Any) -> None:
        graph = model["graph_module"]["graph"]
        graph["tensor_values"]["evil"] = graph["tensor_values"]["x"]
        graph["nodes"].insert(0, {
            "target": target, "inputs": [{"name": "", "arg": operand, "kind": 1}],
            "outputs": [{"as_tensor": {"name": "evil"}}], "metadata": {}, "name": "evil", "is_hop_single_tensor_return": None,
        })  # fmt: skip

    return json_of(MODEL, change)


class Payload:
    def __reduce__(self) -> Any:
        return (__import__, (VICTIM,))


def moved(old: str, new: str, data: bytes | None = None) -> Callable[[Files, Path], None]:
    def apply(files: Files, _: Path) -> None:
        found = files.pop(old)
        files[new] = found if data is None else data

    return apply


def another_model(name: str, **parts: bytes) -> Callable[[Files, Path], None]:
    """A second program beside the first, with entries of its own."""

    def apply(files: Files, _: Path) -> None:
        stem = name.removesuffix(".json")
        files |= {f"models/{name}": files[MODEL], f"data/sample_inputs/{stem}.pt": files[INPUTS]}
        files |= {f"data/{kind}/{stem}.pt": data for kind, data in parts.items()}

    return apply


def no_bytes(files: Files, _: Path) -> None:
    weights = json.loads(files[WEIGHTS])
    weights["config"]["kv"]["tensor_meta"] |= {"sizes": [{"as_int": 10**11}], "strides": [{"as_int": 1}]}
    files |= {WEIGHTS: json.dumps(weights).encode(), "data/weights/weight_0": b""}


def large_inputs(files: Files, ran: Path) -> None:
    inner = ran.with_name("inner.zip")
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b" " * (80 << 20))
    files[INPUTS] = inner.read_bytes()


EVIL: dict[str, tuple[Callable[[Files, Path], None], str]] = {
    "default of a placeholder": (renamed("x=open('RAN', 'w')"), "which is no identifier"),
    "lines after a name": (renamed("x):\n  pass\nopen('RAN', 'w')\ndef g(x"), "which is no identifier"),
    "enumeration in a structure": (
        structure(json.dumps([{"__enum__": True, "fqn": f"{VICTIM}:A", "name": "a"}])), f"imports {VICTIM}:A"),
    "enumeration after a space": (
        structure(" " + json.dumps([{"__enum__": True, "fqn": f"{VICTIM}:A", "name": "a"}])), f"imports {VICTIM}:A"),
    "default of a dict": (
        structure({"default_factory_module": VICTIM, "default_factory_name": "run", "dict_context": ["a"]},
                  "collections.defaultdict"), f"imports {VICTIM}.run"),
    "function of a module": (call("torch.os.system", {"as_string": "touch RAN"}), "operator 'torch.os.system'"),
    "function as an operand": (
        call("torch.ops.higher_order.wrap", {"as_operator": "torch.os.system"}), "operator 'torch.os.system'"),
    "class by its name": (
        call("torch.export.custom_ops._call_custom_autograd_function_in_pre_dispatch", {"as_string": f"{VICTIM}.run"}),
        "operator 'torch.export.custom_ops"),
    "nobody verifies": (json_of(MODEL, lambda m: m.update(verifiers=[])), "no check of its operators"),
    "pickled inputs under capitals": (moved(INPUTS, "data/Sample_Inputs/model.pt", pickle.dumps(Payload())), "more than tensors"),
    "pickled weights of a nested name": (another_model("a/b.json", weights=pickle.dumps(Payload())), "would run code"),
    "pickled constants of a nested name": (another_model("a/b.json", constants=pickle.dumps(Payload())), "would run code"),
    "program by another suffix": (another_model("b.jsox"), "would run code"),
    "two spellings": (lambda files, _: files.update({INPUTS.upper(): b""}), "names an entry twice"),
    "tensor without bytes": (no_bytes, "which has no bytes"),
    "range of a far symbol": (
        json_of(MODEL, lambda m: m.update(range_constraints={"u999999999999": {"min_val": 0, "max_val": 9}})), "no symbol"),
    "inputs that unpack to more": (large_inputs, "many times as large"),
    "no object": (lambda files, _: files.update({MODEL: b"[]"}), "is no JSON object"),
    "deep": (lambda files, _: files.update({MODEL: b"[" * 100_000}), "RecursionError"),
}  # fmt: skip


@pytest.mark.parametrize("kind", EVIL)
def test_evil_archives_are_refused(
    entries: Files, ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    change, message = EVIL[kind]
    files = dict(entries)
    change(files, ran)
    path = write(tmp_path / "model.pt2", files)
    start = time.process_time()
    with pytest.raises(compiler.CompileError) as caught:
        compiler.compile(path)
    assert message in str(caught.value)
    assert main([str(path), "-o", str(tmp_path / "output")]) == 1
    assert time.process_time() - start < 10
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err and not said.out
    assert not ran.exists() and VICTIM not in sys.modules and not (tmp_path / "output").exists()


@pytest.mark.parametrize("entry", ["extra/notes.txt", MODEL, "data/weights/weight_0", "data/sample_inputs/other.pt"])
def test_an_archive_that_unpacks_to_many_times_its_size_is_refused(entries: Files, tmp_path: Path, entry: str) -> None:
    path = write(tmp_path / "model.pt2", {**entries, entry: b" " * (80 << 20)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(compiler.CompileError, match="many times as large"):
        load_exported(path)


def test_a_compressed_archive_of_the_usual_kind_loads(entries: Files, tmp_path: Path) -> None:
    extra = {"extra/notes.json": b'{"name": "my notes", "target": "x y", "use_pickle": true}'}
    load_exported(write(tmp_path / "model.pt2", entries | extra, zipfile.ZIP_DEFLATED))


def test_ordinary_programs_are_let_through(tmp_path: Path) -> None:
    """Containers, dunder operators, autocast and `no_grad` regions, control flow, names that mean something to the screen."""

    class Program(torch.nn.Module):
        def forward(self, name: Any, *, target: torch.Tensor, in_spec: torch.Tensor) -> Any:
            with torch.no_grad():
                bits = (target & 3 | target ^ 1) << 1
            looped = torch.cond(bits.sum() > 0, torch.neg, torch.abs, (bits,))
            return OrderedDict(config=looped + in_spec, name=name["__enum__"] * 2)

    path = tmp_path / "modèle.pt2"
    one = torch.ones(2, dtype=torch.int64)
    arguments = ({"__enum__": one, "{": one},)
    named = {"target": one, "in_spec": torch.empty(0, 2, dtype=torch.int64).sum(0)}
    torch.export.save(torch.export.export(Program(), arguments, named, strict=False), path)
    found = compiler.compile(path)(*arguments, **named)
    torch.testing.assert_close(found, Program()(*arguments, **named))


def test_a_pipe_is_no_archive_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "model.pt2")
    assert main([str(tmp_path / "model.pt2")]) == 1
    assert "is not a file" in capsys.readouterr().err


def test_maxima_of_many_sizes_are_refused() -> None:
    assert is_arithmetic(f"Max({', '.join(f's{i}' for i in range(20))})")
    assert is_arithmetic(" + ".join(f"Max(s{i}, 2)" for i in range(100)))
    assert not is_arithmetic(f"Max({', '.join(f's{i}' for i in range(1000))})")
    assert not is_arithmetic("Max(Min(" + "), Min(".join(f"s{i}, s{i + 1}" for i in range(20)) + "))")


def test_an_archive_over_several_disks_is_none(entries: Files, tmp_path: Path) -> None:
    path = write(tmp_path / "model.pt2", entries)
    data = bytearray(Path(path).read_bytes())
    end = data.rindex(b"PK\x05\x06")
    # In front of the last record, the one of 64-bit archives that tells how many disks there are.
    data[end:end] = b"PK\x06\x07" + (0).to_bytes(4, "little") + end.to_bytes(8, "little") + (2).to_bytes(4, "little")
    Path(path).write_bytes(data)
    with pytest.raises(compiler.CompileError, match="no .pt2 archive"):
        load_exported(path)
