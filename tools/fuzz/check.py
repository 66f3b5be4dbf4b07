"""One program through one mode, judged; the verdict is plain data."""

from __future__ import annotations

import traceback

from compiler.errors import CompileError, ValidationError
from tools.fuzz.modes import Mode
from tools.fuzz.program import Program
from tools.fuzz.verdict import Verdict, general


def check(program: Program, mode: Mode) -> Verdict:
    """Run a program and judge it."""
    try:
        return mode.judge(program)
    except ValidationError as error:
        return Verdict("wrong", general(str(error.message)), str(error))
    except CompileError as error:
        if mode.is_refused(program):
            return Verdict("agreed", "refused, as it should be")
        return Verdict("refused", general(str(error.message)), str(error))
    except AssertionError as error:
        return Verdict("wrong", general(str(error)) or "an assertion", traceback.format_exc())
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rsplit('/', 1)[-1]}:{last.name}"
        return Verdict("crashed", f"{type(error).__name__} in {place}: {general(str(error))}", traceback.format_exc())
