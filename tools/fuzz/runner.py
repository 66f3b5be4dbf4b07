"""Runs many programs through a mode, each in a forked child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from tools import fork_server
from tools.fuzz.check import check
from tools.fuzz.generate import Options, generate
from tools.fuzz.modes import MODES
from tools.fuzz.program import Program
from tools.fuzz.verdict import Verdict

SECONDS = 60.0
"""How long one program may take."""


@dataclass(frozen=True)
class Judged:
    """A program, by its seed or itself, with what became of it."""

    item: int | Program
    verdict: Verdict
    seconds: float = 0.0


def run(
    items: Sequence[int | Program], mode: str, options: Options, *, children: int = 1, seconds: float = SECONDS
) -> Iterator[Judged]:
    """The verdicts of all items, in the order in which they come."""

    def judge(item: int | Program) -> dict[str, object]:
        return asdict(check(generate(item, options) if isinstance(item, int) else item, MODES[mode]))

    for found in fork_server.run(items, judge, children=children, seconds=seconds):
        died = found.death
        verdict = Verdict("crashed", died.reason, died.detail) if died else Verdict(**found.answer)
        yield Judged(found.item, verdict, found.seconds)
