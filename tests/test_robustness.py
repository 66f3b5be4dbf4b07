"""What other processes, signals, threads and hostile files cannot do to an artifact or an executable."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import compiler
from compiler.driver import main
from compiler.errors import CompileError
from compiler.export import artifact
from compiler.export.decoder import DecodeError, check_module
from compiler.validation.artifact import check_artifact
from tests.stablehlo_programs import cache_step

ROOT = Path(__file__).parents[1]

# -- signals and processes -----------------------------------------------------------------------

SAVERS = """
import os, random, signal, sys, time
import torch
from compiler.export import artifact
from compiler.validation.artifact import check_artifact
from tests.stablehlo_programs import Binding, OutputSource, TensorType, contiguous, executable, signature

directory, way = sys.argv[1:]
count = 40_000
kind, window = TensorType("f32", (count,)), contiguous(count)

def program(value):
    # The program, its HLO and its state all carry one number, so that a mixture of two of them shows.
    s = signature([Binding("s", "buffer", 0, "f32", window), Binding("t", "buffer", 1, "f32", window)],
                  [OutputSource("result", 0, "f32", window)], [kind, kind], [kind])
    body = f'''
    %n = stablehlo.constant dense<{value}.0> : tensor<{count}xf32>
    %r = stablehlo.add %0, %n : tensor<{count}xf32>
    return %r : tensor<{count}xf32>'''
    return executable(s, body, state={"s": torch.full((count,), float(value)), "t": torch.full((count,), float(value))})

def whole():
    found = artifact.read(directory)
    check_artifact(directory)
    (value,) = set(found.state["s"].tolist()) | set(found.state["t"].tolist())
    assert f"dense<{value:.6e}>" in found.stablehlo or f"dense<{int(value)}.0>" in found.stablehlo, found.stablehlo
    return value

def child(one, seed):
    pid = os.fork()
    if pid == 0:
        if way == "interrupt":
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            while True:
                one.save(directory)
        except KeyboardInterrupt:
            os._exit(0)
        finally:
            os._exit(1)
    return pid

programs = [program(value) for value in (1, 2, 3)]
programs[0].save(directory)
random.seed(7)
seen = set()
signals = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT, "together": signal.SIGKILL}
for trial in range(8):
    children = [child(one, trial) for one in (programs[1:] if way == "together" else [programs[trial % 3]])]
    time.sleep(random.uniform(0.001, 0.15))
    if way == "together":
        for _ in range(20):
            seen.add(whole())
    for pid in children:
        while os.waitpid(pid, os.WNOHANG) == (0, 0):  # again, should Python drop an interrupt inside a callback
            os.kill(pid, signals[way])
            time.sleep(0.01)
    seen.add(whole())
programs[0].save(directory)
left = [name for name in os.listdir(os.path.dirname(directory)) if name != os.path.basename(directory)]
assert not left, left
print(len(seen))
"""


@pytest.mark.parametrize("way", ["kill", "interrupt", "together"])
def test_an_artifact_is_whole_whatever_happens_to_those_who_save_it(tmp_path: Path, way: str) -> None:
    """Savers are killed or interrupted at random moments, alone and two at a time in one directory."""
    done = subprocess.run(
        [sys.executable, "-c", SAVERS, str(tmp_path / "a"), way], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1, "no saver came to an end, so nothing was tried"


def test_a_save_removes_what_killed_ones_left_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a"
    alive, lock = artifact._beside(target)
    abandoned = [tmp_path / ".a.0123456789abcdef", tmp_path / ".a.0123456789abcdef.old"]
    others = [tmp_path / name for name in (".a.backup", ".b.0123456789abcdef", ".a.0123456789abcdef0")]
    for path in (*abandoned, *others):
        (path / "state").mkdir(parents=True)
        (path / "state" / "0.bin").write_bytes(b"x")
    link = tmp_path / ".a.00000000000000ff"
    link.symlink_to(others[0])
    cache_step().save(target)
    assert sorted(tmp_path.iterdir()) == sorted([target, alive, link, *others])
    assert all((path / "state" / "0.bin").exists() for path in others)
    os.close(lock)
    cache_step().save(target)
    assert sorted(tmp_path.iterdir()) == sorted([target, link, *others])


# -- threads -------------------------------------------------------------------------------------


def test_threads_share_an_executable() -> None:
    """Each call sees its own arguments and writes its own caches, whoever calls beside it."""

    def step(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache[1:].add_(x)
        return cache.sum(0) + x[0]

    run = compiler.compile(step, (torch.ones(3, 64), torch.zeros(4, 64)))
    faults: list[Any] = []

    def caller(value: float) -> None:
        cache, want = torch.zeros(4, 64), torch.zeros(4, 64)
        for n in range(100):
            x = torch.full((3, 64), value + n)
            if not torch.equal(run(x, cache), step(x, want)) or not torch.equal(cache, want):
                faults.append((value, n))

    threads = [threading.Thread(target=caller, args=(1000.0 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_threads_compile_at_once() -> None:
    """PyTorch traces in one thread at a time, also for torch.compile and for who asks for the text of a stage."""
    faults: list[BaseException] = []

    def work(value: float) -> None:
        class Step(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("total", torch.zeros(4))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.get_buffer("total")[1:] += value
                return x * value + self.get_buffer("total")

        try:
            for _ in range(3):
                one, other, x = Step(), Step(), torch.ones(2, 4)
                run = compiler.compile(one, (x,))
                assert torch.equal(run(x), other(x)) and torch.equal(one.get_buffer("total"), other.get_buffer("total"))
                assert "aten.add_" in run.ir("import")
                torch.compile(lambda y: y * 2, backend="eager")(x)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


FORKED = """
import os, signal, torch, compiler

def fork(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            work()
            os._exit(0)
        except compiler.CompileError as error:
            print(error, flush=True)
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

x = torch.randn(300, 300)
work = lambda: compiler.compile(lambda a: (a @ a).sin() @ a, (x,))(x)
assert fork(work) == 0, "before XLA has started"
step = compiler.compile(lambda a: a @ a, (x,))
step(x)
assert fork(lambda: step(x)) == 3
assert fork(work) == 3
step(x)
"""


def test_a_forked_process_is_told_that_it_cannot_run() -> None:
    """The threads of XLA are not there; without a word it would wait for them for ever."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("XLA has started before this process was forked") == 2


# -- hostile directories ---------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total += x
            return self.total * 2

    compiler.compile(Step(), (torch.ones(4),)).save(tmp_path / "a")
    check_artifact(tmp_path / "a")
    return tmp_path / "a"


def edit(saved: Path, change: Any) -> None:
    index = json.loads((saved / "aliases.json").read_text())
    change(index)
    (saved / "aliases.json").write_text(json.dumps(index))


def refused(saved: Path) -> str:
    """Both readers refuse; the message of the first."""
    with pytest.raises(CompileError):
        check_artifact(saved)
    with pytest.raises(CompileError) as caught:
        compiler.load(saved)
    return str(caught.value)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "state/../../secret", "state/0.bin\0", "state/x.bin"])
def test_a_path_cannot_leave_the_directory(saved: Path, name: str) -> None:
    secret = saved.parent / "secret"
    secret.write_bytes(bytes(16))

    def change(index: Any) -> None:
        entry = index["state"][0]
        digest = {"bytes": 16, "sha256": hashlib.sha256(bytes(16)).hexdigest()}
        index["files"][name] = digest
        entry["file"] = name

    edit(saved, change)
    assert "is not the name of a state file" in refused(saved)


def test_a_link_cannot_leave_the_directory(saved: Path) -> None:
    outside = saved.parent / "outside.bin"
    (saved / "state" / "0.bin").rename(outside)
    (saved / "state" / "0.bin").symlink_to(outside)
    assert "leads out of the artifact" in refused(saved)


@pytest.mark.parametrize("name", ["aliases.json", "model.hlo_module.pb", "state/0.bin"])
def test_a_pipe_in_an_artifact_is_refused_and_not_waited_for(saved: Path, name: str) -> None:
    (saved / name).unlink()
    os.mkfifo(saved / name)
    reading = f"import compiler, compiler.driver\ncompiler.driver.main(['--check-artifact', {str(saved)!r}])\ncompiler.load({str(saved)!r})"
    done = subprocess.run(
        [sys.executable, "-c", reading], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1 and "is not a regular file" in done.stderr, done.stderr


class _Trap:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["TRAP"],)


def test_loading_executes_nothing(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle where state belongs is bytes of state; where the index belongs, it is refused."""
    trap = saved.parent / "trap"
    monkeypatch.setenv("TRAP", str(trap))
    data = pickle.dumps(_Trap())
    assert len(data) >= 16
    data += bytes(-len(data) % 64)
    (saved / "state" / "0.bin").write_bytes(data)
    edit(saved, lambda index: index["files"].update(
        {"state/0.bin": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}))  # fmt: skip
    compiler.load(saved)
    (saved / "aliases.json").write_bytes(data)
    refused(saved)
    assert not trap.exists()


# -- the independent reader ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i["aliases"].clear(), "the alias table is"),
        (lambda i: i["parameters"].reverse(), "parameters are"),
        (lambda i: i["arguments"][1].update(written=False), "against the alias table"),
        (lambda i: i["arguments"][0].update(parameter=7), "in parameter 7"),
        (lambda i: i["arguments"][0].update(offset=9), "reaches byte"),
        (lambda i: i["plan"][0].update(index=1), "written into a parameter"),
        (lambda i: i["plan"][0].update(offset=40), "reaches byte"),
        (lambda i: i["io_map"].update({"0": 0}), "is an argument's memory"),
        (lambda i: i.update(original_output_count=3), "original_output_count"),
        (lambda i: i["files"].pop("model.stablehlo.mlir"), "files there differ"),
        (lambda i: i["files"]["model.hlo_module.pb"].update(sha256="0"), "not the file that was saved"),
        (lambda i: i.pop("plan"), "malformed: KeyError"),
        (lambda i: i.update(extra=1), "unknown key 'extra'"),
        (lambda i: i["arguments"][0].update(kind="evil"), "'evil' is none of"),
        (lambda i: i["io_map"].clear(), "io_map does not name"),
        (lambda i: i.update(inputs={"registered": "nobody.Knows", "context": None, "children": []}), "inputs"),
    ],
)
def test_check_artifact_finds_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, message: str) -> None:
    cache_step().save(tmp_path / "a")
    assert main(["--check-artifact", str(tmp_path / "a")]) == 0
    assert capsys.readouterr().out.endswith("sound\n")
    index = json.loads((tmp_path / "a" / "aliases.json").read_text())
    if "parameters" in message:
        index["parameters"][0]["shape"] = [8, 4]
    change(index)
    (tmp_path / "a" / "aliases.json").write_text(json.dumps(index))
    assert main(["--check-artifact", str(tmp_path / "a")]) == 1
    said = capsys.readouterr()
    assert message in said.err and not said.out


def test_check_artifact_refuses_a_key_that_occurs_twice(saved: Path) -> None:
    text = (saved / "aliases.json").read_text()
    (saved / "aliases.json").write_text(text.replace("{", '{"version": 1,', 1))
    assert "a key occurs twice" in refused(saved)


def test_damaged_hlo_bytes_end_in_one_error() -> None:
    """Every cut and every flipped bit of a module is read to the end or refused; nothing else is raised."""
    data = cache_step().hlo_proto
    check_module(data)
    outcomes: set[str] = set()
    for position in range(0, len(data), 3):
        for damaged in (
            data[:position],
            data[:position] + bytes([data[position] ^ (1 << position % 8)]) + data[position + 1 :],
        ):
            try:
                check_module(damaged)
                outcomes.add("read")
            except DecodeError:
                outcomes.add("refused")
    assert "refused" in outcomes
