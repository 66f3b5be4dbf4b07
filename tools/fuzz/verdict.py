"""What became of a program, as plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What became of a program.

    Attributes:
        kind: "agreed", "wrong", "missed" (right, and less than could be had), "refused", or "crashed" (an exception that
            is no refusal, a signal, a hang).
        reason: one line that programs with the same fault have in common, for counting.
        detail: more of it, for a person.
    """

    kind: str
    reason: str = ""
    detail: str = ""


KINDS = ("agreed", "wrong", "crashed", "missed", "refused")


def general(message: str) -> str:
    """A message without what differs from program to program."""
    first = message.strip().splitlines()[0] if message.strip() else ""
    first = re.sub(r"\[[^\]]*\]|\([^)]*\)", "..", first)
    return re.sub(r"\d+", "#", first)[:110]
