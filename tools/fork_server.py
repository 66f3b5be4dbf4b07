"""Runs work in forked children: a crash or a hang is the outcome of one item, not the end of the run.

The parent has PyTorch, jaxlib and the compiler imported and never makes an XLA client: a process forked after one
exists hangs. Each child takes a batch of items, says which one it starts, and reports each answer as a line of JSON.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jaxlib.xla_client  # noqa: F401  # loaded once, for every child
import torch

Item = TypeVar("Item")


@dataclass(frozen=True)
class Death:
    """How an item ended its process: `hang`, the name of a signal, or `exit`."""

    reason: str
    detail: str


@dataclass(frozen=True)
class Outcome(Generic[Item]):
    """An item with what its work returned (as JSON carries it) or how it died, and its seconds."""

    item: Item
    answer: Any
    death: Death | None
    seconds: float


def run(
    items: Sequence[Item], work: Callable[[Item], Any], *, children: int = 1, seconds: float = 60.0, batch: int = 64
) -> Iterator[Outcome[Item]]:
    """The outcomes of `work` on all items, in the order in which they come; each item has `seconds`.

    A child ends after a batch, and with it the memory that XLA's executables hold.
    """
    torch.set_num_threads(1)  # a thread pool does not survive a fork
    pending = [items[k : k + batch] for k in range(0, len(items), batch)][::-1]
    running: list[_Child[Item]] = []
    try:
        while pending or running:
            while pending and len(running) < children:
                running.append(_Child(pending.pop(), work, seconds))
            ready, _, _ = select.select([child.pipe for child in running], [], [], 0.5)
            for child in list(running):
                if child.pipe in ready:
                    yield from child.read()
                if not child.finished and time.monotonic() > child.deadline:
                    child.kill()
                if child.finished:
                    running.remove(child)
                    left, death = child.end()
                    if death is not None:
                        yield Outcome(child.items[child.position], None, death, seconds)
                    if left:
                        pending.append(left)
    finally:
        for child in running:
            child.kill()
            child.end()


class _Child(Generic[Item]):
    """A forked process on a batch of items."""

    def __init__(self, items: Sequence[Item], work: Callable[[Item], Any], seconds: float):
        self.items, self.seconds = items, seconds
        self.position = 0  # the item that runs, or is the next to run
        self.finished = self.hung = False
        self.deadline = time.monotonic() + seconds
        self._rest = b""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pipe, end = os.pipe()
        self.process = os.fork()
        if not self.process:
            os.close(self.pipe)
            _serve(items, work, end)
        os.close(end)

    def read(self) -> Iterator[Outcome[Item]]:
        data = os.read(self.pipe, 1 << 16)
        self.finished = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            answer, seconds = json.loads(line)
            self.deadline = time.monotonic() + self.seconds
            yield Outcome(self.items[self.position], answer, None, seconds)
            self.position += 1  # a death from here on is the next one's

    def kill(self) -> None:
        self.hung = self.finished = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def end(self) -> tuple[Sequence[Item], Death | None]:
        """After the end: what has not been tried, and the death of the item that ended the child."""
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        if self.position >= len(self.items):
            return (), None
        if self.hung:
            death = Death("hang", f"no answer within {self.seconds:g} s")
        elif os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            death = Death(name, f"the process died of {name}")
        else:
            death = Death("exit", f"the process left with code {os.WEXITSTATUS(status)}")
        return self.items[self.position + 1 :], death


def _serve(items: Sequence[Item], work: Callable[[Item], Any], end: int) -> None:
    """The child: never returns."""
    code = 1
    try:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)  # XLA and PyTorch write there while they fail
        for item in items:
            began = time.perf_counter()
            answer = work(item)
            data = json.dumps([answer, time.perf_counter() - began]).encode() + b"\n"
            while data:
                data = data[os.write(end, data) :]
        code = 0
    finally:
        os._exit(code)
