"""Runs units of OpInfo samples, each in a forked child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import compiler.compilation  # noqa: F401
from compiler.lowering import load_rules
from tools import fork_server
from tools.opinfo.check import Verdict, check
from tools.opinfo.core_samples import CORE
from tools.opinfo.samples import DTYPES, LIMIT, OTHER, dtypes, entries

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
    load_rules()
    known = entries()

    def judge(unit: Unit) -> list[dict[str, object]]:
        verdicts = check(known.get(unit.entry), unit.entry, DTYPE[unit.dtype], unit.variant, limit)
        return [asdict(verdict) for verdict in verdicts]

    for found in fork_server.run(work, judge, children=children, seconds=seconds, batch=BATCH):
        if found.death:
            verdicts = [Verdict("crashed", found.death.detail)]
        else:
            verdicts = [Verdict(**v | {"overloads": tuple(v["overloads"])}) for v in found.answer]
        yield found.item, verdicts, round(found.seconds, 2)
