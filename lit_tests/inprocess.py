"""A lit test format that runs `%opt ... | filecheck ...` inside the lit worker.

Starting an interpreter and importing the compiler takes longer than a small test of the IR; here each
worker imports it once and calls it as a function. A RUN line is taken when it reads
`[not] %tool ARGS [2>&1] [| filecheck ARGS]`. A test with any other RUN line goes through lit's shell, as does
every test under `--param shell`. REQUIRES, UNSUPPORTED and XFAIL keep their meaning.
"""

from __future__ import annotations

import contextlib
import io
import os
import pkgutil
import re
import shlex
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import lit.formats
import lit.Test
import lit.TestRunner

# lit puts `%dbg(RUN: at line N)` before each command.
_RUN = re.compile(
    r"(?:%dbg\([^)]*\)\s*)?(?P<negated>not\s+)?(?P<tool>%[\w-]+)\b(?P<arguments>(?:'[^']*'|\"[^\"]*\"|[^|;&<>'\"])*)"
    r"(?P<merged>2>&1)?\s*(?:\|\s*filecheck\b(?P<check>(?:'[^']*'|\"[^\"]*\"|[^|;&<>'\"])*))?"
)


@dataclass(frozen=True)
class _Said:
    code: int
    piped: str
    rest: str


def _call(tool: Callable[[list[str]], int | None], argv: list[str], merged: bool) -> _Said:
    """Run a tool as a shell would: exit code, what a pipe carries, and what goes to the terminal."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out if merged else err):
        try:
            code = tool(argv)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int | None) else 1
        except Exception:
            traceback.print_exc()
            code = 1
    return _Said(code or 0, out.getvalue(), err.getvalue())


def _filecheck(argv: list[str], text: str) -> str | None:
    """The complaint of filecheck about `text`, or None."""
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options

    said = io.StringIO()
    with tempfile.NamedTemporaryFile("w", suffix=".out") as file:
        file.write(text)
        file.flush()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = Matcher.from_opts(parse_argv_options(["filecheck", *argv, "--input-file", file.name])).run()
            except SystemExit as stop:  # a malformed check file
                code = stop.code or 1
            except RuntimeError as error:  # bad arguments
                code = str(error)
    return f"filecheck: {code}\n{said.getvalue()}\ninput was:\n{text}" if code else None


class InProcess(lit.formats.ShTest):
    """`tools` maps a substitution to `module:function`: lit pickles the format, which functions of a config forbid."""

    def __init__(self, tools: Mapping[str, str]):
        super().__init__()
        self.tools = dict(tools)

    def execute(self, test: lit.Test.Test, litConfig: object) -> lit.Test.Result:
        script: Any = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(script, lit.Test.Result):  # unsupported, or no RUN line
            return script
        runs = [_RUN.fullmatch(getattr(line, "command", "")) for line in script]
        known = [run for run in runs if run and run["tool"] in self.tools]
        if "shell" in getattr(litConfig, "params", {}) or len(known) < len(runs):
            shell: Any = super().execute(test, litConfig)
            return shell
        for run in known:
            complaint = self._line(run, test)
            if complaint:
                return lit.Test.Result(lit.Test.FAIL, f"{run[0]}\n{complaint}\n")
        return lit.Test.Result(lit.Test.PASS)

    def _line(self, run: re.Match[str], test: lit.Test.Test) -> str | None:
        """Run one line: what went wrong, or None."""
        path = test.getSourcePath()
        scratch = f"{test.getExecPath()}.tmp"
        os.makedirs(os.path.dirname(scratch), exist_ok=True)

        def words(text: str) -> list[str]:
            return [w.replace("%s", path).replace("%t", scratch) for w in shlex.split(text)]

        said = _call(pkgutil.resolve_name(self.tools[run["tool"]]), words(run["arguments"]), bool(run["merged"]))
        if bool(said.code) != bool(run["negated"]):
            return f"exit code {said.code}\n{said.rest}{said.piped}"
        return None if run["check"] is None else _filecheck(words(run["check"]), said.piped)
