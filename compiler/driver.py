"""compiler-opt: read a program, run passes, write it in one of several forms.

Exit code 0: done. 1: the input was refused, each error as `file:line:col: error: message`, and nothing was
written. 2: the command itself is wrong.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compiler.errors import CompileError
from compiler.pipeline import DEFAULT, PASSES, TARGETS, Pipeline, UsageError

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from compiler.diagnostics import Diagnostic
    from compiler.validation.validator import Validator

_SPLIT = "// -----"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compiler-opt",
        description="Read a program (.mlir text or a .pt2 file), run passes, write the result.",
        epilog="exit codes: 0 done, 1 input refused, 2 wrong command",
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", help="file to read; - (the default) is standard input")
    add("-p", "--passes", metavar="PIPELINE", help="passes to run: 'name{option=value},name'; see --list-passes")
    add("-t", "--target", choices=TARGETS, default="mlir", help="form of the output (default: mlir); "
        f"other forms than mlir without -p run '{DEFAULT}'")  # fmt: skip
    add("-o", "--output", default="-", metavar="FILE", help="file to write; - (the default) is standard output")
    add(
        "--split-input-file", action="store_true", help=f"treat what stands between lines '{_SPLIT}' as separate inputs"
    )
    add("--verify-diagnostics", action="store_true", help="compare errors with `// expected-error {{text}}` comments")
    add(
        "--verify-each",
        action="store_true",
        help="verify after every pass, not only before the first and after the last",
    )
    add(
        "--validate",
        action="store_true",
        help="check every pass by running the program before and after it on random inputs",
    )
    add("--check-artifact", metavar="DIR", help="check a saved artifact, its tables against its HLO bytes, and stop")
    add("--print-ir-after-all", action="store_true", help="print the program after every pass to standard error")
    add("--print-op-generic", action="store_true", help="print the generic form of every operation")
    add("--print-debuginfo", action="store_true", help="print locations")
    add("--allow-unregistered-dialect", action="store_true", help="accept operations of dialects that are not known")
    add("--timing", action="store_true", help="print the time of every step to standard error")
    add("--trust", action="store_true", help="load a .pt2 file although loading it can run code from it, "
        "and let --validate run custom operators and operators that open files")  # fmt: skip
    add("--traceback", action="store_true", help="show where in the compiler an error was raised")
    add("--remarks", choices=("text", "json", "yaml"), help="print why copies stay to standard error")
    add("--list-passes", action="store_true", help="list the passes and stop")
    return parser


@dataclass
class _Run:
    """One invocation: what was asked for, and what was found on the way."""

    options: argparse.Namespace
    pipeline: Pipeline | None
    times: list[tuple[str, float]] = field(default_factory=list)

    @contextlib.contextmanager
    def timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.times.append((step, time.perf_counter() - start))

    def text(self, module: ModuleOp) -> str:
        from compiler.ir_text import to_text

        return to_text(module, generic=self.options.print_op_generic, locations=self.options.print_debuginfo)

    def validator(self, module: ModuleOp, examples: Sequence[torch.Tensor | None]) -> Validator:
        from compiler.validation.observe import has_memory
        from compiler.validation.outside import refuse_outside
        from compiler.validation.validator import Validator, entry

        with self.timed("validate"):
            if not self.options.trust:
                refuse_outside(module)
            found = Validator.of(module, examples)
            if has_memory(entry(module)):
                found.operators(module)
            return found

    def compile(self, module: ModuleOp, examples: Sequence[torch.Tensor | None] = ()) -> str | bytes:
        """Verify, run the passes, verify, write."""
        from compiler.emit import emit, has_handles
        from compiler.ir_text import make_context
        from compiler.verify import verify

        options = self.options
        with self.timed("verify"):
            verify(module)
        pipeline = self.pipeline
        if pipeline is None:
            pipeline = Pipeline.parse(DEFAULT if options.target != "mlir" and has_handles(module) else "")

        def after(each: ModulePass, result: ModuleOp, seconds: float) -> None:
            self.times.append((each.name, seconds))
            if options.print_ir_after_all:
                sys.stderr.write(f"// -----// IR after {each.spec()} //----- //\n{self.text(result)}")
            if options.verify_each:
                verify(result)

        context = make_context(options.allow_unregistered_dialect)
        validator = self.validator(module, examples) if options.validate else None

        def apply(each: ModulePass, result: ModuleOp) -> None:
            if validator is not None:
                validator.apply(each.name, result, lambda m: each.apply(context, m))
            elif has_handles(result):
                from compiler.analysis.table_verifier import verify_tables

                before = result.clone()
                each.apply(context, result)
                verify_tables(before, result)
            else:
                each.apply(context, result)

        pipeline.run(context, module, after, apply)
        if pipeline.passes and not options.verify_each:
            with self.timed("verify"):
                verify(module)
        if options.remarks:
            from compiler.remarks import collect, render

            sys.stderr.write(render(collect(module), options.remarks).rstrip("\n") + "\n")
        if validator is not None and options.target in ("stablehlo", "hlo-text", "hlo-proto"):
            with self.timed("validate"):
                from compiler.validation.validator import check_emitted

                check_emitted(validator, module)
        with self.timed(f"write {options.target}"):
            return self.text(module) if options.target == "mlir" else emit(module, options.target)

    def ir_file(self, text: str, name: str) -> tuple[list[str | bytes], list[str]]:
        """Outputs and complaints of a file of IR."""
        from compiler.diagnostics import expectations, mismatches
        from compiler.ir_text import make_context, parse

        outputs: list[str | bytes] = []
        complaints: list[str] = []
        for first_line, piece in _pieces(text, self.options.split_input_file):
            found: list[Diagnostic] = []

            def run(piece: str = piece, first_line: int = first_line) -> str | bytes:
                with self.timed("parse"):
                    # Leading empty lines make every position count from the start of the file.
                    module = parse(
                        "\n" * (first_line - 1) + piece, name, make_context(self.options.allow_unregistered_dialect)
                    )
                return self.compile(module)

            self.guarded(run, name, outputs, found)
            if not self.options.verify_diagnostics:
                complaints += [diagnostic.text for diagnostic in found]
                continue
            expected, faults = expectations(piece.split("\n"), first_line, name)
            complaints += faults + mismatches(expected, found, name)
        return outputs, complaints

    def exported_file(self, path: str) -> tuple[list[str | bytes], list[str]]:
        """Outputs and complaints of a `.pt2` file."""
        outputs: list[str | bytes] = []
        found: list[Diagnostic] = []

        def run() -> str | bytes:
            from compiler.frontend import import_pt2

            with self.timed("import"):
                program = import_pt2(path, trust=self.options.trust)
            return self.compile(program.module, [program.state.get(a.name) for a in program.arguments])

        self.guarded(run, path, outputs, found)
        return outputs, [diagnostic.text for diagnostic in found]

    def guarded(
        self, run: Callable[[], str | bytes], name: str, outputs: list[str | bytes], found: list[Diagnostic]
    ) -> None:
        """Run, and turn whatever is raised into one diagnostic."""
        from xdsl.utils.exceptions import DiagnosticException

        from compiler.diagnostics import Diagnostic

        try:
            outputs.append(run())
            return
        except CompileError as error:
            refusal, cause = error, error
        except UsageError:
            raise
        except DiagnosticException as error:
            refusal, cause = CompileError(str(error).strip().splitlines()[0] or type(error).__name__), error
        except RecursionError as error:
            refusal, cause = CompileError("nested too deeply"), error
        except MemoryError as error:
            refusal, cause = CompileError("out of memory"), error
        except Exception as error:
            said = " ".join(str(error).split())[:500]
            refusal = CompileError(
                f"internal error: {type(error).__name__}: {said}",
                hint="report this; --traceback shows where it was raised",
            )
            cause = error
        if self.options.traceback:
            import traceback

            traceback.print_exception(cause)
        found.append(Diagnostic.of(refusal, name))


def _pieces(text: str, split: bool) -> Iterator[tuple[int, str]]:
    """(first line number, text) of every separate input of a file."""
    if not split:
        yield 1, text
        return
    first, piece = 1, []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.strip() == _SPLIT:
            yield first, "\n".join(piece)
            first, piece = number + 1, []
        else:
            piece.append(line)
    yield first, "\n".join(piece)


def _read(path: str) -> bytes:
    if path == "-":
        stream = getattr(sys.stdin, "buffer", None)
        return stream.read() if stream is not None else sys.stdin.read().encode()
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: a name no file can have
        raise CompileError(f"cannot be read: {getattr(error, 'strerror', None) or error}", location=path) from None


def _decode(data: bytes, name: str) -> str:
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise CompileError(
            f"not UTF-8 text: byte 0x{data[error.start]:02x}", location=f"{name}:{line}:{column}"
        ) from None


def _write(path: str, parts: Sequence[str | bytes]) -> None:
    """All of it or nothing: a file appears under its name when it is complete."""
    binary = bool(parts) and isinstance(parts[0], bytes)
    if path == "-":
        text = f"{_SPLIT}\n".join(part for part in parts if isinstance(part, str))
        stream = getattr(sys.stdout, "buffer", None)
        if not binary:
            sys.stdout.write(text)
            sys.stdout.flush()
        elif stream is None:
            raise CompileError("the output is binary and standard output takes only text", hint="give a file: -o FILE")
        else:
            stream.write(b"".join(part for part in parts if isinstance(part, bytes)))
            stream.flush()
        return
    data = b"".join(p for p in parts if isinstance(p, bytes)) if binary else (
        f"{_SPLIT}\n".join(p for p in parts if isinstance(p, str)).encode()
    )  # fmt: skip
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as file:  # a device or a pipe is no file to replace
                file.write(data)
            return
        temporary = f"{target}.{os.getpid()}.part"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
            if os.path.exists(target):
                os.chmod(temporary, os.stat(target).st_mode & 0o7777)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except (OSError, ValueError) as error:
        raise CompileError(f"cannot be written: {getattr(error, 'strerror', None) or error}", location=path) from None


def _say(error: CompileError) -> None:
    where = f"{error.location}: " if error.location else "compiler-opt: "
    hint = f"\n  instead: {error.hint}" if error.hint else ""
    sys.stderr.write(f"{where}error: {error.message}{hint}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the driver and return its exit code."""
    try:
        options = _arguments().parse_args(argv)
    except SystemExit as stop:  # argparse has said why
        return stop.code if isinstance(stop.code, int) else 2
    if options.list_passes:
        width = max(map(len, PASSES))
        sys.stdout.write("".join(f"{name:{width}}  {entry.help}\n" for name, entry in PASSES.items()))
        return 0
    try:
        if options.check_artifact is not None:
            from compiler.validation.artifact import check_artifact

            sys.stdout.write(check_artifact(options.check_artifact))
            return 0
        pipeline = None if options.passes is None else Pipeline.parse(options.passes)
        run = _Run(options, pipeline)
        name = "<stdin>" if options.input == "-" else options.input
        data = b"" if name.endswith(".pt2") else _read(options.input)
        if name.endswith(".pt2") or data[:4] == b"PK\x03\x04":
            if options.verify_diagnostics or options.split_input_file:
                raise UsageError("--verify-diagnostics and --split-input-file are for text")
            if options.input == "-":
                raise UsageError("a .pt2 file is read by its name, not from standard input")
            outputs, complaints = run.exported_file(options.input)
        else:
            outputs, complaints = run.ir_file(_decode(data, name), name)
        if complaints:
            sys.stderr.write("".join(f"{complaint}\n" for complaint in complaints))
        else:
            if len(outputs) > 1 and isinstance(outputs[0], bytes):
                raise UsageError("several inputs have no common binary form")
            _write(options.output, outputs)
        if options.timing:
            total = sum(seconds for _, seconds in run.times)
            rows = [*run.times, ("total", total)]
            sys.stderr.write("".join(f"{seconds * 1e3:10.1f} ms  {step}\n" for step, seconds in rows))
        return 1 if complaints else 0
    except UsageError as error:
        sys.stderr.write(f"compiler-opt: error: {error}\n")
        return 2
    except CompileError as error:
        _say(error)
        return 1


def console() -> int:
    """Entry point of the command `compiler-opt`."""
    # Compilers make many objects that stay: the default threshold spends a quarter of the time in collections.
    gc.set_threshold(50_000, 20, 100)
    try:
        return main(sys.argv[1:])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(console())
