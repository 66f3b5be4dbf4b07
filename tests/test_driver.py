"""compiler-opt as a user meets it: options, exit codes, files, and every way to give it rubbish."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.driver import main
from compiler.pipeline import PASSES, Pipeline, UsageError
from compiler.transforms.remove_dead_values import RemoveDeadValues

ROOT = Path(__file__).resolve().parent.parent
GOOD = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.value_call "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.value_call "aten.neg.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    file = tmp_path / "good.mlir"
    file.write_text(GOOD)
    return str(file)


def write(tmp_path: Path, data: bytes | str, name: str = "in.mlir") -> str:
    file = tmp_path / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(file)


# -- results -----------------------------------------------------------------------------------


def test_prints_the_program(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good]) == 0
    said = capsys.readouterr()
    assert said.out.count("aten.neg.default") == 2
    assert said.err == ""


def test_a_byte_order_mark_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())]) == 0
    assert capsys.readouterr().out.count("aten.neg.default") == 2


def test_runs_passes(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, "-p", "remove-dead-values"]) == 0
    assert capsys.readouterr().out.count("aten.neg.default") == 1


def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(GOOD.encode())))
    assert main([]) == 0
    assert "@f" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("nonsense"))
    assert main(["-"]) == 1
    assert capsys.readouterr().err.startswith("<stdin>:1:1: error: ")


def test_text_of_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path, GOOD.replace("\n", "\r\n"))]) == 0
    assert "\r" not in capsys.readouterr().out


def test_writes_a_file(good: str, tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    out.write_text("old")
    out.chmod(0o640)
    assert main([good, "-o", str(out)]) == 0
    assert "@f" in out.read_text()
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good.mlir", "out.mlir"]


def test_writes_through_a_link(good: str, tmp_path: Path) -> None:
    (tmp_path / "real.mlir").write_text("old")
    (tmp_path / "link.mlir").symlink_to(tmp_path / "real.mlir")
    assert main([good, "-o", str(tmp_path / "link.mlir")]) == 0
    assert (tmp_path / "link.mlir").is_symlink()
    assert "@f" in (tmp_path / "real.mlir").read_text()


def test_writes_to_a_device(good: str) -> None:
    assert main([good, "-o", os.devnull]) == 0
    assert not os.path.isfile(os.devnull)


def test_nothing_is_written_when_an_input_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.mlir"
    out.write_text("old")
    source = write(tmp_path, GOOD + "// -----\nfx.foo\n// -----\n" + GOOD + "// -----\nfx.bar\n")
    assert main([source, "--split-input-file", "-o", str(out)]) == 1
    assert out.read_text() == "old"
    said = capsys.readouterr()
    assert said.out == ""
    # Both errors, each at its line in the whole file.
    assert [line.removeprefix(source) for line in said.err.splitlines()] == [
        ":7:1: error: Operation fx.foo is not registered",
        ":15:1: error: Operation fx.bar is not registered",
    ]


def test_unwritable_output(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, "-o", str(tmp_path / "no" / "where.mlir")]) == 1
    assert "where.mlir: error: cannot be written: No such file or directory" in capsys.readouterr().err
    assert main([good, "-o", str(tmp_path)]) == 1
    assert "error: cannot be written: Is a directory" in capsys.readouterr().err


def test_aliases_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(
        tmp_path,
        'func.func @main(%p: tensor<4xf32>) -> tensor<4xf32> attributes {alias.bindings = #alias.bindings<"p" buffer in 0 '
        '"f32" [2] strides [2] offset 1 written>, alias.table = #alias.table<0 = 0>, alias.plan = #alias.plan<argument 0, '
        'result 0 "f32" lazy "neg" [1] strides [1], output 1>} { func.return %p : tensor<4xf32> }',
    )
    assert main([source, "-t", "aliases-json"]) == 0
    window = {"element": "f32", "sizes": [2], "strides": [2], "offset": 1}
    argument = {"name": "p", "kind": "buffer", "parameter": 0, "written": True, "lazy": "", "window": window}
    assert json.loads(capsys.readouterr().out) == {
        "arguments": [argument],
        "alias_table": [{"output": 0, "parameter": 0}],
        "outputs": [
            {"kind": "argument", "index": 0},
            {
                "kind": "result",
                "index": 0,
                "window": {"element": "f32", "sizes": [1], "strides": [1], "offset": 0},
                "lazy": "neg",
            },
            {"kind": "output", "index": 1},
        ],
    }


@pytest.mark.parametrize("target", ["stablehlo", "hlo-text", "hlo-proto", "aliases-json"])
def test_targets_of_values_refuse_memory(tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, "func.func @f(%x: memref<4xf32>) {\n  func.return\n}\n")
    assert main([source, "-p", "", "-t", target]) == 1
    assert "still has memory" in capsys.readouterr().err


def test_timing_goes_to_standard_error(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, "--timing", "-p", "remove-dead-values"]) == 0
    said = capsys.readouterr()
    assert "ms" not in said.out
    steps = [line.split(" ms  ")[1] for line in said.err.splitlines()]
    assert steps == ["parse", "verify", "remove-dead-values", "verify", "write mlir", "total"]


def test_unregistered_dialect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, '%0 = "foo.bar"() {a = 1 : i64} : () -> i32\n')
    assert main([source]) == 1
    assert f"{source}:1:1: error: Operation foo.bar is not registered" in capsys.readouterr().err
    assert main([source, "--allow-unregistered-dialect"]) == 0
    assert '"foo.bar"() {a = 1 : i64} : () -> i32' in capsys.readouterr().out


# -- usage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such-option"], "unrecognized arguments"),
        (["-t", "llvm"], "invalid choice"),
        (["-p"], "expected one argument"),
        (["a.mlir", "b.mlir"], "unrecognized arguments"),
        (["-p", "no-such-pass"], "no pass is called 'no-such-pass' (--list-passes shows them)"),
        (["-p", "remove-dead-values{speed=3}"], "pass remove-dead-values: Provided arguments"),
        (["-p", "remove-dead-values{"], "in the pipeline"),
        (["-p", "remove-dead-values,,"], "in the pipeline"),
        (["-p", "{}"], "in the pipeline"),
        (["-p", "\x00"], "in the pipeline"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_help_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--verify-diagnostics" in capsys.readouterr().out
    assert main(["--list-passes"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PASSES)


def test_pipeline_round_trip() -> None:
    pipeline = Pipeline.parse("remove-dead-values,remove-dead-values")
    assert pipeline.passes == (RemoveDeadValues(), RemoveDeadValues())
    assert Pipeline.parse(str(pipeline)) == pipeline
    assert Pipeline.parse("") == Pipeline(())
    with pytest.raises(UsageError):
        Pipeline.parse("nothing")


# -- rubbish -----------------------------------------------------------------------------------

RUBBISH: dict[str, bytes] = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "binary": bytes(range(256)),
    "zeros": b"\0" * 1000,
    "not_utf8": b"func.func @f() {\n  // \xff\n}",
    "utf16": GOOD.encode("utf-16"),
    "truncated": GOOD[:120].encode(),
    "unclosed_text": b'fx.symbol "abc',
    "unknown_op": b"fx.foo",
    "unknown_type": b'"fx.empty"() : () -> !foo.bar',
    "undefined": b"func.func @f() { func.return %x : tensor<2xf32> }",
    "defined_twice": b"%0 = fx.empty : tensor<2xf32>\n%0 = fx.empty : tensor<2xf32>",
    "wrong_count": b"%0, %1 = fx.empty : tensor<2xf32>",
    "deep_regions": b'"builtin.module"() ({' * 3000 + b"}) : () -> ()" * 3000,
    "deep_list": b'fx.call "a.b.c"(' + b"[" * 5000 + b"]" * 5000 + b") effects<> results<> : () -> ()",
    "deep_type": b'"fx.empty"() : () -> ' + b"tensor<" * 3000,
    "deep_parentheses": b"(" * 100000,
    "huge_integer": b'fx.call "a.b.c"(' + b"9" * 10000 + b") effects<> results<> : () -> ()",
    "huge_operand": b'fx.call "a.b.c"() effects<read 99999999999999999999999999> results<> : () -> ()',
    "huge_dimension": b"fx.constant dense<1> : tensor<99999999999999999999xi64> : tensor<99999999999999999999xi64>",
    "huge_constant": b"fx.constant dense<1> : tensor<999999999xi64> : tensor<999999999xi64>",
    "huge_literal": b"fx.constant dense<" + b"9" * 5000 + b"> : tensor<1xi64> : tensor<1xi64>",
    "too_wide": b"fx.constant dense<300> : tensor<1xi8> : tensor<1xi8>",
    "bad_hex": b'fx.constant dense<"0xZZ"> : tensor<1xi8> : tensor<1xi8>',
    "bad_shape": b"fx.constant dense<[1, 2]> : tensor<3xi8> : tensor<3xi8>",
    "odd_element": b"%0 = fx.empty : tensor<4xi7>\n%1 = fx.reinterpret %0 : tensor<4xi7> -> tensor<4xi9>",
    "vector_base": b'%0 = "fx.empty"() : () -> vector<4xf32>',
    "dynamic_window": b"%0 = fx.empty : tensor<?xf32>\n%1 = fx.extract %0 <[2] strides [1]> : tensor<?xf32> -> tensor<2xf32>",
    "negative_size": b"%0 = fx.empty : tensor<-4xf32>",
    "odd_layout": b"func.func @f(%x: memref<4xf32, affine_map<(d0) -> (d0 * 2)>>) { func.return }",
    "odd_root": b"func.func @f(%x: memref<4xi7> {alias.root = #alias.root<0, 16 bytes>}) { func.return }",
    "negative_table": b"func.func @f() attributes {alias.table = #alias.table<-1 = 0>} { func.return }",
    "bad_location": b"%0 = fx.empty : tensor<2xf32> loc(#loc1)",
    "two_modules_and_text": b"module {}\nmodule {}\nx",
    "attribute_alias_unknown": b'"fx.empty"() {a = #nope} : () -> tensor<2xf32>',
    "zip": b"PK\x03\x04 and then nothing",
}


@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_is_refused_in_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, RUBBISH[name])
    code = main([source])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert code == 1
    assert said.out == ""
    first, *rest = said.err.splitlines()
    assert first.startswith(f"{source}:") and ": error: " in first
    assert all(line.startswith("  ") for line in rest)
    assert len(said.err) < 1000
    assert "internal error" not in said.err


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "missing.mlir")
    assert main([missing]) == 1
    assert capsys.readouterr().err == f"{missing}: error: cannot be read: No such file or directory\n"
    assert main([str(tmp_path)]) == 1
    assert "error: cannot be read: Is a directory" in capsys.readouterr().err
    assert main([str(tmp_path / ("x" * 5000))]) == 1
    assert "File name too long" in capsys.readouterr().err
    assert main(["\0"]) == 1
    assert "error: cannot be read" in capsys.readouterr().err


PIECES = ["", "0", "-1", "99999999999", "%x", "<", ">", "[", "(", '"', ",", "read 7", "view 0", "f16", "\n"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_programs_end_in_an_orderly_way(data: st.DataObject, tmp_path: Path) -> None:
    """A program with a few pieces replaced, removed or repeated is accepted or refused, and nothing else."""
    text = (ROOT / "lit_tests/dialects/fx/round_trip.mlir").read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        piece = data.draw(st.sampled_from([*PIECES, text[start:end] * 2]))
        text = text[:start] + piece + text[end:]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        code = main([write(tmp_path, text), "-p", "remove-dead-values"])
    assert code in (0, 1), err.getvalue()
    assert "Traceback" not in err.getvalue() and "internal error" not in err.getvalue(), err.getvalue()


# -- the command -------------------------------------------------------------------------------


def test_the_command_itself(good: str, tmp_path: Path) -> None:
    """Exit codes and streams of the real process, from another directory."""
    tool = [sys.executable, str(ROOT / "tools" / "compiler-opt")]

    def run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*tool, *arguments], cwd=tmp_path, capture_output=True, text=True, **more)  # type: ignore[call-overload]

    assert run(good).returncode == 0
    assert run("missing.mlir").returncode == 1
    assert run("-t", "llvm").returncode == 2
    assert run("-", input=GOOD).stdout == run(good).stdout


def test_closed_pipe(tmp_path: Path) -> None:
    """`compiler-opt | head` ends without a traceback."""
    source = write(tmp_path, "".join(f"func.func @f{i}() {{ func.return }}\n" for i in range(3000)))
    done = subprocess.run(
        f"{sys.executable} {ROOT}/tools/compiler-opt {source} | head -n 1", shell=True, capture_output=True, text=True
    )
    assert done.stdout == "builtin.module {\n"
    assert done.stderr == ""
