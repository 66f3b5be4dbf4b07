"""Diagnostics of the driver, and their comparison with the `expected-error` comments of a test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import CompileError

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?", re.DOTALL)
_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|note|remark)(?P<regex>-re)?\s*"
    r"(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}"
)
_MARK = re.compile(r"expected-(?:error|warning|note|remark)")


@dataclass(frozen=True)
class Diagnostic:
    """One error, at a line of the input (0: at no line of it)."""

    text: str
    message: str
    line: int = 0

    @staticmethod
    def of(error: CompileError, file: str) -> Diagnostic:
        place = _PLACE.fullmatch(error.location)
        line = int(place["line"]) if place and place["file"] == file else 0
        node = f" (node {error.node})" if error.node else ""
        hint = f"\n  instead: {error.hint}" if error.hint else ""
        return Diagnostic(
            f"{error.location or file}: error: {error.message}{node}{hint}", error.message + node + hint, line
        )


@dataclass(frozen=True)
class Expectation:
    """A comment `// expected-error @where {{text}}`: a diagnostic with that text at that line (0: no line)."""

    comment_line: int
    line: int
    severity: str
    text: str
    regex: bool

    def meets(self, found: Diagnostic) -> bool:
        if self.severity != "error" or self.line != found.line:
            return False
        return bool(re.search(self.text, found.message)) if self.regex else self.text in found.message


def expectations(lines: Sequence[str], first_line: int, file: str) -> tuple[list[Expectation], list[str]]:
    """The expectations in a piece of a file, and what is wrong with the comments themselves.

    `@above` and `@below` skip lines that hold only expectations, so that several can be stacked.
    """
    holds = [bool(_MARK.search(line)) and line.lstrip().startswith("//") for line in lines]
    found: list[Expectation] = []
    faults: list[str] = []
    for index, line in enumerate(lines):
        matches = list(_EXPECTED.finditer(line))
        if len(matches) != len(_MARK.findall(line)):
            faults.append(
                f"{file}:{first_line + index}: error: malformed expectation, write `expected-error @+1 {{{{text}}}}`"
            )
        for match in matches:
            target: int | None = index
            where = match["where"] or "+0"
            if where == "unknown":
                target = None
            elif where in ("above", "below"):
                step = -1 if where == "above" else 1
                target = index + step
                while 0 <= target < len(lines) and holds[target]:
                    target += step
            else:
                target = index + int(where)
            if match["regex"]:
                try:
                    re.compile(match["text"])
                except re.error as error:
                    faults.append(f"{file}:{first_line + index}: error: bad regular expression: {error}")
                    continue
            found.append(
                Expectation(
                    first_line + index,
                    0 if target is None else first_line + target,
                    match["severity"],
                    match["text"],
                    bool(match["regex"]),
                )
            )
    return found, faults


def mismatches(expected: Sequence[Expectation], found: Sequence[Diagnostic], file: str) -> list[str]:
    """Complaints about diagnostics nobody expected and expectations nothing met; each is used once."""
    open_expectations = list(expected)
    complaints: list[str] = []
    for diagnostic in found:
        met = next((e for e in open_expectations if e.meets(diagnostic)), None)
        if met is None:
            complaints.append(f"{file}:{diagnostic.line or 1}: error: unexpected error: {diagnostic.text}")
        else:
            open_expectations.remove(met)
    for e in open_expectations:
        at = f"line {e.line}" if e.line else "no line of this file"
        complaints.append(f'{file}:{e.comment_line}: error: expected {e.severity} "{e.text}" at {at} was not produced')
    return complaints
