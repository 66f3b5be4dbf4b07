"""What XLA made of a program: its optimised HLO, the copies in it, and the memory it takes.

Whether a cache is updated in place is judged with `fusion=False`, which compiles once more: CPU fusion duplicates a
write into every reader, and copies that hide in fusions are not counted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from compiler.runtime.client import NO_FUSION, compile_hlo, compile_options
from compiler.runtime.executable import Executable

_COPY = re.compile(r"= \(?(\w+)\[([\d,]*)\]\S* copy(?:-start)?\(")
_WIDTH = re.compile(r"[a-z]+(\d+)")


@dataclass(frozen=True)
class MemoryStats:
    """Bytes of a compiled program; `peak` is what is live at once, aliased outputs counted with their arguments."""

    argument: int
    output: int
    alias: int
    temp: int

    @property
    def peak(self) -> int:
        return self.argument + self.output - self.alias + self.temp


def full_copies(executable: Executable, limit: int, fusion: bool = True) -> int:
    """How many copies of at least `limit` bytes are in the optimised HLO; half the bytes of a cache is a good limit."""
    sizes = (
        _element_bytes(element) * math.prod(int(n) for n in shape.split(",") if n)
        for element, shape in _COPY.findall(optimized_hlo(executable, fusion))
    )
    return sum(size >= limit for size in sizes)


def memory_stats(executable: Executable, fusion: bool = True) -> MemoryStats:
    """Memory of the compiled program."""
    stats = _compiled(executable, fusion).get_compiled_memory_stats()
    return MemoryStats(
        stats.argument_size_in_bytes, stats.output_size_in_bytes, stats.alias_size_in_bytes, stats.temp_size_in_bytes
    )


def optimized_hlo(executable: Executable, fusion: bool = True) -> str:
    """HLO text after XLA's passes."""
    return "\n".join(module.to_string() for module in _compiled(executable, fusion).hlo_modules())


def _compiled(executable: Executable, fusion: bool) -> Any:
    return executable.compiled if fusion else compile_hlo(executable.hlo_proto, compile_options(**NO_FUSION))


def _element_bytes(element: str) -> int:
    """Bytes of an element type by HLO spelling: the number in it is its bits, `pred` has none."""
    width = _WIDTH.match(element)
    return max(int(width.group(1)) // 8, 1) if width else 1
