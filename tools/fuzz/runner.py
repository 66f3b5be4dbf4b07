"""Runs many programs in forked children: a crash or a hang is one verdict, not the end of the run.

The parent has PyTorch, jaxlib and the compiler imported and never makes an XLA client: a process forked after one
exists hangs. Each child takes a batch of programs, says which one it starts, and reports each verdict as a line of JSON.
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

import jaxlib.xla_client  # noqa: F401  # loaded once, for every child
import torch

from tools.fuzz.check import check
from tools.fuzz.generate import Options, generate
from tools.fuzz.modes import MODES
from tools.fuzz.program import Program
from tools.fuzz.verdict import Verdict

SECONDS = 60.0
"""How long one program may take."""

BATCH = 64


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
    torch.set_num_threads(1)  # a thread pool does not survive a fork
    pending = [items[k : k + BATCH] for k in range(0, len(items), BATCH)][::-1]
    running: list[_Child] = []
    try:
        while pending or running:
            while pending and len(running) < children:
                running.append(_Child(pending.pop(), mode, options, seconds))
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
                        yield Judged(child.items[child.position], verdict, seconds)
                    if left:
                        pending.append(left)
    finally:
        for child in running:
            child.kill()
            child.outcome()


class _Child:
    """A forked process on a batch of programs."""

    def __init__(self, items: Sequence[int | Program], mode: str, options: Options, seconds: float):
        self.items, self.seconds = items, seconds
        self.position = -1
        self.finished = self.hung = self.done = False
        self.deadline = time.monotonic() + seconds
        self._rest = b""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pipe, end = os.pipe()
        self.process = os.fork()
        if not self.process:
            os.close(self.pipe)
            _serve(items, mode, options, end)
        os.close(end)

    def read(self) -> Iterator[Judged]:
        data = os.read(self.pipe, 1 << 16)
        self.finished = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.deadline = time.monotonic() + self.seconds
            if "start" in message:
                self.position = message["start"]
            elif "done" in message:
                self.done = True
            else:
                yield Judged(self.items[self.position], Verdict(**message["verdict"]), message["seconds"])
                self.position += 1  # nothing is running; a death here is the next one's

    def kill(self) -> None:
        self.hung = self.finished = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def outcome(self) -> tuple[Sequence[int | Program], Verdict | None]:
        """After the end: what has not been tried, and the verdict of the program that ended the child."""
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        if self.done:
            return (), None
        self.position = max(self.position, 0)
        if self.position >= len(self.items):
            return (), None
        if self.hung:
            verdict = Verdict("crashed", "hang", f"no answer within {self.seconds:g} s")
        elif os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            verdict = Verdict("crashed", name, f"the process died of {name}")
        else:
            verdict = Verdict("crashed", "exit", f"the process left with code {os.WEXITSTATUS(status)}")
        return self.items[self.position + 1 :], verdict


def _serve(items: Sequence[int | Program], mode: str, options: Options, end: int) -> None:
    """The child: never returns."""
    code = 1
    try:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)  # XLA and PyTorch write there while they fail
        for number, item in enumerate(items):
            _send(end, {"start": number})
            began = time.perf_counter()
            program = generate(item, options) if isinstance(item, int) else item
            verdict = check(program, MODES[mode])
            _send(end, {"verdict": asdict(verdict), "seconds": time.perf_counter() - began})
        _send(end, {"done": True})
        code = 0
    finally:
        os._exit(code)


def _send(end: int, message: dict[str, object]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(end, data) :]
