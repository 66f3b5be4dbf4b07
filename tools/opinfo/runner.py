"""Runs units of work in forked children: a crash or a hang is one verdict, not the end of the run.

The parent has PyTorch, jaxlib and the compiler imported and never makes an XLA client: a process forked after one
exists hangs. Each child takes a batch of units, says which one it starts, and reports its verdicts as a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
import torch._decomp
import torch._refs  # loaded once, for every child

import compiler.compilation  # noqa: F401
from compiler.lowering import load_rules
from tools.opinfo.check import Verdict, check
from tools.opinfo.core_samples import CORE
from tools.opinfo.samples import DTYPES, LIMIT, OTHER, dtypes, entries

SECONDS = 120.0
"""How long one unit may take."""

BATCH = 24
"""Units of a child: it ends with the memory that XLA's executables hold."""

DTYPE = {str(dtype).removeprefix("torch."): dtype for dtype in (*DTYPES, *OTHER)}


@dataclass(frozen=True)
class Unit:
    """The samples of one entry, dtype and variant."""

    entry: str
    variant: str
    dtype: str


def units(names: Sequence[str]) -> list[Unit]:
    """All units of these entries and overloads."""
    known = entries()
    found: list[Unit] = []
    for name in names:
        if name in CORE:
            forms, kinds = ["overload"], CORE[name][0]
        else:
            entry = known[name]
            has = {"function": True, "in-place": entry.get_inplace() is not None, "out": entry.supports_out}
            forms, kinds = [variant for variant, there in has.items() if there], dtypes(entry)
        found += [Unit(name, form, str(dtype).removeprefix("torch.")) for form in forms for dtype in kinds]
    return found


def run(
    work: Sequence[Unit], *, children: int = 2, seconds: float = SECONDS, limit: int = LIMIT
) -> Iterator[tuple[Unit, list[Verdict], float]]:
    """The verdicts of all units and the seconds they took, in the order in which they come."""
    torch.set_num_threads(1)  # a thread pool does not survive a fork
    load_rules()
    pending = [work[k : k + BATCH] for k in range(0, len(work), BATCH)][::-1]
    running: list[_Child] = []
    try:
        while pending or running:
            while pending and len(running) < children:
                running.append(_Child(pending.pop(), seconds, limit))
            ready, _, _ = select.select([child.pipe for child in running], [], [], 0.5)
            for child in list(running):
                if child.pipe in ready:
                    yield from child.read()
                if not child.finished and time.monotonic() > child.deadline:
                    child.kill()
                if child.finished:
                    running.remove(child)
                    left, verdict = child.outcome()
                    if verdict is not None:
                        yield child.work[child.position], [verdict], seconds
                    if left:
                        pending.append(left)
    finally:
        for child in running:
            child.kill()
            child.outcome()


class _Child:
    """A forked process on a batch of units."""

    def __init__(self, work: Sequence[Unit], seconds: float, limit: int):
        self.work, self.seconds = work, seconds
        self.position = 0
        self.finished = self.hung = False
        self.deadline = time.monotonic() + seconds
        self._rest = b""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pipe, end = os.pipe()
        self.process = os.fork()
        if not self.process:
            os.close(self.pipe)
            _serve(work, limit, end)
        os.close(end)

    def read(self) -> Iterator[tuple[Unit, list[Verdict], float]]:
        data = os.read(self.pipe, 1 << 16)
        self.finished = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.deadline = time.monotonic() + self.seconds
            item = json.loads(line)
            verdicts = [Verdict(**v | {"overloads": tuple(v["overloads"])}) for v in item["verdicts"]]
            yield self.work[self.position], verdicts, item["seconds"]
            self.position += 1

    def kill(self) -> None:
        self.hung = self.finished = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def outcome(self) -> tuple[Sequence[Unit], Verdict | None]:
        """After the end: what has not been tried, and the verdict of the unit that ended the child."""
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        if self.position >= len(self.work):
            return (), None
        if self.hung:
            verdict = Verdict("crashed", f"no answer within {self.seconds:g} s")
        elif os.WIFSIGNALED(status):
            verdict = Verdict("crashed", f"the process died of {signal.Signals(os.WTERMSIG(status)).name}")
        else:
            verdict = Verdict("crashed", f"the process left with code {os.WEXITSTATUS(status)}")
        return self.work[self.position + 1 :], verdict


def _serve(work: Sequence[Unit], limit: int, end: int) -> None:
    """The child: never returns."""
    code = 1
    try:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)  # XLA and PyTorch write there while they fail
        known = entries()
        for unit in work:
            start = time.perf_counter()
            verdicts = check(known.get(unit.entry), unit.entry, DTYPE[unit.dtype], unit.variant, limit)
            line = {"seconds": round(time.perf_counter() - start, 2), "verdicts": [asdict(v) for v in verdicts]}
            data = json.dumps(line).encode() + b"\n"
            while data:
                data = data[os.write(end, data) :]
        code = 0
    finally:
        os._exit(code)
