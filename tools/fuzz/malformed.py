"""`python -m tools.fuzz.malformed N`: N broken inputs for the driver and the loader.

Each must be refused: a message of at least one line, exit code 1, no traceback, no output file, within ten seconds of
processor time (a busy machine is not a hang; sixty seconds by the clock are) and a bounded amount of memory. A mutation
may by chance leave a right input; exit code 0 with a whole output is fine then.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

PROCESSOR_SECONDS = 10
SECONDS = 60.0
MEMORY = 3 << 30
"""Bytes that one broken input may make the process grow by."""


@dataclass(frozen=True)
class Seeds:
    """Right inputs to break: IR texts, a `.pt2` file, an artifact directory."""

    texts: tuple[str, ...]
    exported: Path
    artifact: Path


@dataclass(frozen=True)
class Outcome:
    """`fault` is "" when the input was refused as it should be (or was right after all)."""

    kind: str
    code: int | None
    message: str
    fault: str = ""
    seconds: float = 0.0
    """Of processor time, all of its process."""


def make_seeds(directory: Path) -> Seeds:
    """Compile some programs and export one; runs in a child, which may have an XLA client."""
    import torch

    import compiler
    from compiler import ir_text, reference
    from compiler.transforms.in_place_to_out_of_place import make_out_of_place
    from tools.fuzz.generate import Options, generate
    from tools.fuzz.instance import Instance
    from tools.fuzz.modes import imported

    texts: list[str] = []
    for seed in range(12):
        module = imported(Instance.of(generate(seed, Options(custom_ops=False)), captured=True)).module
        texts.append(ir_text.to_text(module, generic=seed % 3 == 0, locations=seed % 4 == 0))
        with contextlib.suppress(compiler.CompileError):
            make_out_of_place(reference.entry(module))
            texts.append(ir_text.to_text(module))

    class Cache(torch.nn.Module):
        kv: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kv", torch.zeros(4, 3))
            self.weight = torch.nn.Parameter(torch.ones(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kv: torch.Tensor = self.get_buffer("kv")
            kv[1:2].copy_(x @ self.weight)
            return kv.sum(0)

    exported = directory / "seed.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(Cache(), (torch.ones(1, 3),), strict=False), exported)
        compiler.compile(Cache(), (torch.ones(1, 3),)).save(directory / "artifact")
    for number, text in enumerate(texts):
        (directory / f"{number}.mlir").write_text(text)
    return Seeds(tuple(texts), exported, directory / "artifact")


# -- mutations ---------------------------------------------------------------------------------


def _characters(rng: random.Random, text: str) -> bytes:
    data = bytearray(text.encode())
    for _ in range(rng.choice((1, 1, 3, 20))):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.choice((1, 4, 40))]
            case 2:
                data[at:at] = data[at : at + rng.choice((1, 10, 60))]
            case _:
                data[at:at] = bytes(rng.choice(b'{}()<>[],:%#"=-') for _ in range(3))
        if not data:
            break
    return bytes(data)


def _numbers(rng: random.Random, text: str) -> bytes:
    """Sizes, offsets, operand numbers: negative, huge, off by one."""
    pieces: list[str] = []
    rest = text
    while rest:
        digits = 0
        while digits < len(rest) and rest[digits].isdigit():
            digits += 1
        if digits and rng.random() < 0.06:
            pieces.append(
                rng.choice(("-1", "0", str(2**31), str(2**63), str(2**64), "9" * 400, str(int(rest[:digits]) + 1)))
            )
        else:
            pieces.append(rest[:digits])
        pieces.append(rest[digits : digits + 1])
        rest = rest[digits + 1 :]
    return "".join(pieces).encode()


def _lines(rng: random.Random, text: str) -> bytes:
    """Statements dropped, repeated, moved: undefined and doubly defined values, uses before definitions, cycles."""
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(3):
            case 0:
                del lines[at]
            case 1:
                lines.insert(to, lines[at])
            case _:
                lines.insert(to, lines.pop(at))
        if not lines:
            break
    return "\n".join(lines).encode()


def _tokens(rng: random.Random, text: str) -> bytes:
    """One word of the program in place of another: other types, other operands, other attributes."""
    words = text.split(" ")
    for _ in range(rng.choice((1, 2, 5))):
        words[rng.randrange(len(words))] = rng.choice(words)
    return " ".join(words).encode()


def _large(rng: random.Random, text: str) -> bytes:
    deep = 20_000
    return rng.choice((
        lambda: ("builtin.module {" * deep + "}" * deep).encode(),
        lambda: ("module attributes {a = " + "[" * deep + "]" * deep + "} {}").encode(),
        lambda: (
            "func.func @main(%a: memref<2xf32> {alias.root = #alias.root<0, 8 bytes>}) -> ("
            + ", ".join(["memref<2xf32>"] * 50_000) + ") { func.return " + ", ".join(["%a"] * 50_000) + " : "
            + ", ".join(["memref<3xf32>"] * 50_000) + " }"
        ).encode(),
        lambda: text.replace("f32", "f" + "3" * 100_000).encode() + b"(",
        lambda: b"// \xff\xfe\n" + text.encode(),
        lambda: text.encode("utf-16"),
        lambda: text.encode() + b"\0" * 1000,
        lambda: b"#a = #b\n#b = #a\n" + text.encode(),
        lambda: b"#loc1 = loc(#loc2)\n#loc2 = loc(#loc1)\nbuiltin.module {} loc(#loc1)",
        lambda: (
            f"func.func @main(%a: memref<{10**6}x{10**6}x{10**6}xf64> {{alias.root = #alias.root<0, 8 bytes>}}) {{ func.return }}"
        ).encode(),
        lambda: b'func.func @main() { %0 = fx.constant dense<"0x' + b"00" * 100_000 + b'"> : memref<99999999999xf32>\n func.return }',
        lambda: b'"func.func"() ({ ^a: "cf.br"()[^a] : () -> () }) : () -> ()',
    ))()  # fmt: skip


TEXT: dict[str, Callable[[random.Random, str], bytes]] = {
    "characters": _characters, "numbers": _numbers, "lines": _lines, "tokens": _tokens, "large": _large,
}  # fmt: skip


def _broken_bytes(rng: random.Random, data: bytes) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        return b"" if rng.random() < 0.2 else bytes(rng.randrange(256) for _ in range(rng.choice((1, 100, 5000))))
    broken = bytearray(data)
    for _ in range(rng.choice((1, 5, 50))):
        broken[rng.randrange(len(broken))] = rng.randrange(256)
    return bytes(broken)


def _broken_json(rng: random.Random, data: bytes) -> bytes:
    """Another value somewhere in a JSON document."""
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 3))):
        node: Any = tree
        parent: Any = None
        key: Any = None
        while isinstance(node, dict | list) and node and rng.random() < 0.9:
            parent, key = node, rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
            node = node[key]
        if parent is None:
            continue
        if rng.random() < 0.25:
            del parent[key]
        else:
            parent[key] = rng.choice((
                None, -1, 0, 1, 2**31, 2**63, 10**400, 1.5, True, "", "x", "../../../../tmp/x", "/etc/passwd", [], {}, [[]],
                node, [node], {"a": node}, "\ud800", ["f32"] * 1000,
            ))  # fmt: skip
    return json.dumps(tree).encode()


_ENDLESS = (
    "9**9**9", "Pow(9, Pow(9, 9))", "2**(2**40)", "Float('1e99999999')", "Rational('1e9999999')", "1 << 10**9", "9^9^9",
    "Integer(10)**Integer(10)**Integer(10)", "(s0 + s1 + s2 + 1)**64", "((9**60)**60)**60", "Float('1', precision=10**9)",
)  # fmt: skip


def _endless(rng: random.Random, data: bytes) -> bytes:
    """A symbolic size whose value nobody could wait for, in the place of one in a JSON document."""
    tree = json.loads(data)
    stack, sizes = [tree], list[dict[str, Any]]()
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if "as_int" in node:
                sizes.append(node)
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    if sizes:
        chosen = rng.choice(sizes)
        del chosen["as_int"]
        chosen["as_expr"] = {"expr_str": rng.choice(_ENDLESS), "hint": None}
    return json.dumps(tree).encode()


def _broken_zip(rng: random.Random, source: Path, target: Path) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        action = rng.choice(("bytes", "bytes", "json", "json", "endless", "drop", "rename", "twice"))
        for name in names:
            data = old.read(name)
            if name == chosen and action == "drop":
                continue
            if name == chosen and action == "bytes" and data:
                data = _broken_bytes(rng, data)
            if name.endswith(".json") and action == "json" and rng.random() < 0.7:
                data = _broken_json(rng, data)
            if name.endswith(".json") and action == "endless":
                data = _endless(rng, data)
            new.writestr(name if name != chosen or action != "rename" else "../" + name, data)
            if name == chosen and action == "twice":
                new.writestr(name + rng.choice((".pt", "_", "/x")), _broken_bytes(rng, data or b"x"))


# -- one input ---------------------------------------------------------------------------------


def try_one(seed: int, seeds: Seeds, directory: Path) -> Outcome:
    """Make the broken input of a seed and give it to the program that reads such inputs."""
    rng = random.Random(seed)
    family = rng.choices(("text", "pt2", "artifact"), (0.6, 0.15, 0.25))[0]
    output = directory / "output"
    if family == "text":
        kind = rng.choices(list(TEXT), (3, 3, 3, 3, 2))[0]
        path = directory / "broken.mlir"
        path.write_bytes(TEXT[kind](rng, rng.choice(seeds.texts)))
        target = rng.choice(("mlir", "mlir", "stablehlo", "hlo-proto", "aliases-json"))
        passes = rng.choice(([], [], ["-p", "in-place-to-out-of-place"], ["-p", "print-alias"]))
        return _drive(f"text/{kind}", [str(path), "-t", target, "-o", str(output), *passes], output)
    if family == "pt2":
        path = directory / "broken.pt2"
        if rng.random() < 0.4:
            path.write_bytes(_broken_bytes(rng, seeds.exported.read_bytes()))
        else:
            _broken_zip(rng, seeds.exported, path)
        return _drive("pt2", [str(path), "-o", str(output)], output)
    copy = directory / "artifact"
    shutil.copytree(seeds.artifact, copy)
    path = rng.choice(sorted(p for p in copy.rglob("*") if p.is_file()))
    action = rng.choice(("bytes", "json", "drop", "directory"))
    if action == "json":
        path = copy / "aliases.json"
        path.write_bytes(_broken_json(rng, path.read_bytes()))
    elif action == "bytes":
        path.write_bytes(_broken_bytes(rng, path.read_bytes()))
    else:
        path.unlink()
        if action == "directory":
            path.mkdir()
    return _load(f"artifact/{action}", copy)


def _drive(kind: str, argv: list[str], output: Path) -> Outcome:
    from compiler.driver import main

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = main(argv)
    said = errors.getvalue()
    left = [p for p in output.parent.iterdir() if p.name.startswith("output")]
    fault = ""
    if code not in (0, 1):
        fault = f"exit code {code}"
    elif "Traceback" in said or "internal error" in said:
        fault = "an internal error"
    elif code == 1 and (not said.strip() or "error" not in said):
        fault = "no message"
    elif code == 1 and left:
        fault = "output although refused"
    elif code == 1 and len(said) > 4000:
        fault = "a message of more than 4000 characters"
    return Outcome(kind, code, said[:400], fault)


def _load(kind: str, directory: Path) -> Outcome:
    """Load an artifact; one that loads must run, or refuse to."""
    import torch

    import compiler

    try:
        executable = compiler.load(directory)
        with torch.no_grad():
            executable(torch.ones(1, 3))
    except compiler.CompileError as error:
        return Outcome(kind, 1, str(error)[:400], "" if str(error).strip() else "no message")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rsplit('/', 1)[-1]}:{place.name}"
        return Outcome(kind, 1, f"{error}"[:400], f"{type(error).__name__} in {where}")
    return Outcome(kind, 0, "")


def in_child(seed: int, seeds: Seeds) -> Outcome:
    """`try_one` in a process that is stopped when it takes too long and cannot grow without bound."""
    with tempfile.TemporaryDirectory() as name:
        pipe, end = os.pipe()
        process = os.fork()
        if not process:
            code = 1
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
                resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
                os.write(end, json.dumps(try_one(seed, seeds, Path(name)).__dict__).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(end)
        start, data = time.monotonic(), b""
        while True:
            left = start + SECONDS - time.monotonic()
            ready, _, _ = select.select([pipe], [], [], max(left, 0))
            if not ready:
                os.kill(process, signal.SIGKILL)
                break
            part = os.read(pipe, 1 << 16)
            if not part:
                break
            data += part
        os.close(pipe)
        _, status, used = os.wait4(process, 0)
    if data:
        return replace(Outcome(**json.loads(data)), seconds=used.ru_utime + used.ru_stime)
    if time.monotonic() - start >= SECONDS:
        return Outcome("?", None, "", f"no answer within {SECONDS:g} s")
    died = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
    return Outcome("?", None, "", f"the process died: {died}")


def run(count: int, seed: int, console: Console) -> Counter[str]:
    """Try `count` inputs; faults by what they are."""
    import jaxlib.xla_client  # noqa: F401  # loaded once, for every child
    import torch

    import compiler.emit
    import compiler.frontend.capture
    import compiler.runtime.executable
    import compiler.verify  # noqa: F401
    import tools.fuzz.modes  # noqa: F401

    torch.set_num_threads(1)
    faults: Counter[str] = Counter()
    kinds: Counter[tuple[str, int | None]] = Counter()
    slowest = Outcome("none", None, "")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        process = os.fork()
        if not process:
            code = 1
            try:
                make_seeds(directory)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        if os.waitpid(process, 0)[1]:
            raise RuntimeError("the right inputs could not be made")
        texts = tuple(p.read_text() for p in sorted(directory.glob("*.mlir")))
        seeds = Seeds(texts, directory / "seed.pt2", directory / "artifact")
        for number in track(range(seed, seed + count), console=console, transient=True, description="malformed"):
            found = in_child(number, seeds)
            kinds[found.kind, found.code] += 1
            slowest = max(slowest, found, key=lambda outcome: outcome.seconds)
            if found.fault:
                faults[f"{found.kind}: {found.fault}"] += 1
                console.print(
                    f"seed {number}: {found.kind}: {found.fault}: {found.message}", markup=False, soft_wrap=True
                )
    for (kind, code), times in sorted(kinds.items(), key=str):
        console.print(f"{times:6}  {kind}: exit code {code}", highlight=False)
    console.print(f"the slowest, {slowest.kind}, took {slowest.seconds:.1f} s of processor time", highlight=False)
    return faults


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when every input was refused as it should be."""
    parser = argparse.ArgumentParser(prog="malformed", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    console = Console()
    faults = run(options.count, options.seed, console)
    for fault, times in faults.most_common():
        console.print(f"{times:6}  {fault}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"{options.count} malformed inputs: {sum(faults.values())} faults", highlight=False)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
