"""Runs units of OpInfo samples, each in a forked child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import compiler.compilation  # noqa: F401
from compiler.lowering import load_rules
from tools import fork_server
from tools.opinfo.check import Verdict, check
from tools.opinfo.samples import DTYPES, LIMIT, OTHER, VARIANTS, dtypes, entries

SECONDS = 120.0
"""How long one unit may take."""

BATCH = 24
"""Units of a child."""

DTYPE = {str(dtype).removeprefix("torch."): dtype for dtype in (*DTYPES, *OTHER)}


@dataclass(frozen=True)
class Unit:
    """The samples of one entry, dtype and variant."""

    entry: str
    variant: str
    dtype: str


def units(names: Sequence[str]) -> list[Unit]:
    """All units of these entries."""
    known = entries()
    return [
        Unit(name, variant, str(dtype).removeprefix("torch."))
        for name in names
        for variant in VARIANTS
        if variant == "function" or (known[name].get_inplace() is not None if variant == "in-place" else known[name].supports_out)
        for dtype in dtypes(known[name])
    ]


def run(
    work: Sequence[Unit], *, children: int = 2, seconds: float = SECONDS, limit: int = LIMIT
) -> Iterator[tuple[Unit, list[Verdict]]]:
    """The verdicts of all units, in the order in which they come."""
    load_rules()
    known = entries()

    def judge(unit: Unit) -> list[dict[str, object]]:
        verdicts = check(known[unit.entry], unit.entry, DTYPE[unit.dtype], unit.variant, limit)
        return [asdict(verdict) for verdict in verdicts]

    for found in fork_server.run(work, judge, children=children, seconds=seconds, batch=BATCH):
        if found.death:
            yield found.item, [Verdict("crashed", found.death.detail)]
        else:
            yield found.item, [Verdict(**v | {"overloads": tuple(v["overloads"])}) for v in found.answer]
