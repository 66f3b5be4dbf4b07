"""One program through one mode, compared with eager PyTorch; the verdict is plain data."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

from compiler.errors import CompileError
from tools.fuzz.modes import Mode
from tools.fuzz.observe import observe
from tools.fuzz.program import Program

CALLS = ((0, False), (1, False), (1, True))
"""(world, misaligned) of the calls of one prepared program: a second call with other values shows what the first left
behind, a third has arguments that do not start on a 64 byte boundary."""


@dataclass(frozen=True)
class Verdict:
    """What became of a program.

    Attributes:
        kind: "agreed", "wrong", "refused", or "crashed" (an exception that is no refusal, a signal, a hang).
        reason: one line that programs with the same fault have in common, for counting.
        detail: more of it, for a person.
    """

    kind: str
    reason: str = ""
    detail: str = ""


def check(program: Program, mode: Mode) -> Verdict:
    """Run a program and judge it."""
    try:
        run = mode.prepare(program)
        for number, (world, misaligned) in enumerate(CALLS):
            right = observe(program.function(), program.make_arguments(world, misaligned=misaligned))
            got = observe(run, program.make_arguments(world, misaligned=misaligned))
            found = right.differences(got)
            if found and not program.order_dependent:
                return Verdict("wrong", f"call {number + 1}: {_general(found[0])}", f"call {number + 1}: " + "\n".join(found))
    except CompileError as error:
        if program.order_dependent:
            return Verdict("agreed", "refused, as it should be")
        return Verdict("refused", _general(str(error.message)), str(error))
    except AssertionError as error:
        return Verdict("wrong", _general(str(error)) or "an assertion", traceback.format_exc())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rsplit('/', 1)[-1]}:{last.name}"
        return Verdict("crashed", f"{type(error).__name__} in {place}: {_general(str(error))}", traceback.format_exc())
    return Verdict("agreed")


def _general(message: str) -> str:
    """A message without what differs from program to program."""
    first = message.strip().splitlines()[0] if message.strip() else ""
    first = re.sub(r"\[[^\]]*\]|\([^)]*\)", "..", first)
    return re.sub(r"\d+", "#", first)[:110]
