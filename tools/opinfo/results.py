"""The verdicts of a run as counts: per entry, variant and dtype, and per overload; kept in docs/opinfo.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.opinfo.check import Verdict
from tools.opinfo.runner import Unit
from tools.opinfo.samples import VARIANTS

FILE = Path(__file__).parents[2] / "docs" / "opinfo.json"

Results = dict[str, Any]
"""{"run": [units, seconds of work, units also at XLA's default level],
"entries": {variant: {entry: {dtype: {"passed": n, "refused": {reason: n}, ...}}}},
"overloads": {name: [run, passed]}}"""

BAD = ("wrong", "crashed")


def read_journal(path: Path) -> Iterator[tuple[Unit, list[Verdict]]]:
    for line in path.read_text().splitlines():
        item = json.loads(line)
        yield Unit(**item["unit"]), [Verdict(**v | {"overloads": tuple(v["overloads"])}) for v in item["verdicts"]]


def work(path: Path) -> list[int]:
    """How many units a journal holds, the seconds that they took one after the other, and how many of them ran at XLA's
    default level as well."""
    items = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        len(items),
        round(sum(item.get("seconds", 0.0) for item in items)),
        sum(item.get("default_level", False) for item in items),
    ]


def summarise(found: Iterable[tuple[Unit, list[Verdict]]], run: Sequence[int] = (0, 0, 0)) -> Results:
    entries: dict[str, dict[str, dict[str, Any]]] = {variant: {} for variant in VARIANTS}
    overloads: dict[str, list[int]] = {}
    for unit, verdicts in sorted(found, key=lambda item: (item[0].entry, item[0].variant, item[0].dtype)):
        cell: dict[str, Any] = {}
        for v in verdicts:
            if v.kind == "passed":
                cell["passed"] = cell.get("passed", 0) + 1
            else:
                reasons = cell.setdefault(v.kind, {})
                reasons[v.reason] = reasons.get(v.reason, 0) + 1
            for name in v.overloads:
                counts = overloads.setdefault(name, [0, 0])
                counts[0] += 1
                counts[1] += v.kind == "passed"
        if verdicts:
            entries[unit.variant].setdefault(unit.entry, {})[unit.dtype] = cell
    return {"run": list(run), "entries": entries, "overloads": dict(sorted(overloads.items()))}


def state(cells: dict[str, Any]) -> tuple[str, str]:
    """What became of an entry: "passed" when every sample did, else the worst kind, with its most frequent reason."""
    for kind in (*BAD, "layout", "refused", "skipped"):
        reasons: Counter[str] = Counter()
        for cell in cells.values():
            reasons.update(cell.get(kind, {}))
        if reasons and (kind != "skipped" or not any(cell.get("passed") for cell in cells.values())):
            return kind, reasons.most_common(1)[0][0]
    return "passed", ""


def figures(results: Results) -> tuple[str, bool]:
    """The figures as text, and whether nothing is wrong."""
    from tools.opinfo.overloads import core

    lines: list[str] = []
    good = True
    for variant, entries in results["entries"].items():
        states = {name: state(cells) for name, cells in entries.items()}
        counts = Counter(kind for kind, _ in states.values())
        samples = Counter({"passed": sum(c.get("passed", 0) for cells in entries.values() for c in cells.values())})
        for cells in entries.values():
            for cell in cells.values():
                samples.update(
                    {kind: sum(cell.get(kind, {}).values()) for kind in (*BAD, "layout", "refused", "skipped")}
                )
        bad = sum(counts[kind] for kind in BAD)
        good &= not bad
        judged = len(states) - counts["skipped"]
        share = f"{100 * counts['passed'] / judged:.1f} %" if judged else "-"
        lines.append(
            f"{variant}: {len(states)} entries, {counts['passed']} fully passing ({share} of {judged} judged), {bad} wrong "
            f"({counts['crashed']} of them crashed), {counts['layout']} with other strides, {counts['refused']} with refusals, "
            f"{counts['skipped']} skipped; samples: " + ", ".join(f"{n} {kind}" for kind, n in samples.items() if n)
        )
        reasons = Counter(reason for kind, reason in states.values() if kind in ("refused", "skipped"))
        lines += [f"    {n:4} {reason}" for reason, n in reasons.most_common()]
        lines += [
            f"    {kind.upper()} {name}: {why}" for name, (kind, why) in states.items() if kind in (*BAD, "layout")
        ]
    how = core(results)
    counts = Counter(entry.split(":")[0] for entry in how.values())
    lines.append(f"core ATen: {len(how)} overloads, " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    lines += [f"    {name}: {entry}" for name, entry in how.items() if entry.startswith(("refused", "not"))]
    return "\n".join(lines), good


def write(results: Results) -> None:
    """One line an entry, so that a change shows as one."""
    text = [f'{{"run": {results["run"]}, "entries": {{']
    variants = list(results["entries"].items())
    for number, (variant, entries) in enumerate(variants):
        text.append(f"{json.dumps(variant)}: {{")
        rows = [f"{json.dumps(name)}: {json.dumps(cells, separators=(',', ':'))}" for name, cells in entries.items()]
        text.append(",\n".join(rows))
        text.append("}" + ("," if number + 1 < len(variants) else ""))
    text.append('}, "overloads": {')
    text.append(",\n".join(f"{json.dumps(name)}: {counts}" for name, counts in results["overloads"].items()))
    text.append("}}")
    FILE.write_text("\n".join(text) + "\n")


def read() -> Results:
    return json.loads(FILE.read_text())
