"""docs/operators.md: what the figures are, each entry that does not fully pass, and each ATen overload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch

from tools.opinfo import results as data
from tools.opinfo.judge import TOLERANCE, UNINITIALISED, WIDER
from tools.opinfo.overloads import core, status
from tools.opinfo.samples import DTYPES, LARGEST, LIMIT, OTHER

FILE = Path(__file__).parents[2] / "docs" / "operators.md"


def write(results: data.Results) -> None:
    FILE.write_text(text(results))


def text(results: data.Results) -> str:
    lines = [
        "# Operators",
        "",
        "Generated; do not edit. To make it again:",
        "",
        "    python -m tools.opinfo run --fresh     # all samples, journal in build/opinfo.jsonl",
        "    python -m tools.opinfo report          # docs/opinfo.json and this page from the journal",
        "",
        f"The run had {results['run'][0]} units (an entry, a variant, a type) and took {results['run'][1]} seconds of one core.",
        f"A unit has at most {LIMIT} samples, one of each kind before a second of any, each with at most {LARGEST} elements; larger",
        f"ones are left out. Types: {_names(DTYPES)}; for an entry that supports none of them the first it supports of",
        f"{_names(OTHER)}. XLA compiles at optimisation level 0"
        + (
            f"; in {default} units, the first sample that draws nothing is compiled and compared at XLA's default level as well."
            if (default := sum(results["run"][2:]))
            else "."
        ),
        "Every one of PyTorch's own samples (`op_db`) that is chosen, by kind, is compiled, run and compared with eager: values,",
        "written arguments, shared memory, strides. The variant `overload` has calls of core ATen overloads that `op_db` does not",
        "reach. What a sample draws at random is compared by its distribution: two-sample tests of each element and of the",
        "statistics of each of some hundred draws, the set of values, and that one seed gives one result.",
        "",
        "Tolerances (relative, absolute): "
        + ", ".join(f"{str(d).removeprefix('torch.')} {r:g}, {a:g}" for d, (r, a) in TOLERANCE.items())
        + ". A result outside them is right only if it is about as far from eager's result at the next wider type as",
        "eager's own is (four times its worst error). \"Other strides\": right values, strides as PyTorch's own shape function",
        "gives them, which its kernel does not follow. Integers, bool and untouched memory are compared to the bit. Of "
        + ", ".join(f"`{name}`" for name in sorted(UNINITIALISED))
        + " the form alone is compared.",
        *(f"`{name}`: {r:g}, {a:g}: {why}." for name, ((r, a), why) in WIDER.items()),
        "",
        "## Entries",
        "",
        "| variant | entries | fully passing | wrong | other strides | with refusals | skipped | samples run | passed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rest: list[str] = []
    for variant, entries in results["entries"].items():
        states = {name: data.state(cells) for name, cells in entries.items()}
        counts = Counter(kind for kind, _ in states.values())
        cells = [cell for found in entries.values() for cell in found.values()]
        passed = sum(cell.get("passed", 0) for cell in cells)
        run = passed + sum(
            n for cell in cells for kind in (*data.BAD, "layout", "refused") for n in cell.get(kind, {}).values()
        )
        bad = sum(counts[kind] for kind in data.BAD)
        lines.append(
            f"| {variant} | {len(states)} | {counts['passed']} | {bad} | {counts['layout']} "
            f"| {counts['refused']} | {counts['skipped']} | {run} | {passed} |"
        )
        rest += [
            "",
            f"### {variant}: entries that do not fully pass",
            "",
            "| entry | passed of | why |",
            "|---|---|---|",
        ]
        for name, (kind, why) in states.items():
            if kind != "passed":
                ok = sum(cell.get("passed", 0) for cell in entries[name].values())
                all_ = ok + sum(
                    n for cell in entries[name].values() for k, v in cell.items() if k != "passed" for n in v.values()
                )
                rest.append(f"| `{name}` | {ok} / {all_} | {kind}: {_cell(why)} |")
    lines += rest
    tagged = core(results)
    counts = Counter(entry.split(":")[0] for entry in tagged.values())
    figures = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    lines += ["", "## Overloads", "", f"Core ATen: {len(tagged)} overloads, {figures}.", ""]
    lines += ["| overload | core | how | samples run | passed |", "|---|---|---|---|---|"]
    for name in sorted({*tagged, *(n for n in results["overloads"] if n.startswith("aten."))}):
        run, passed = results["overloads"].get(name, (0, 0))
        lines.append(
            f"| `{name}` | {'core' if name in tagged else ''} | {_cell(status(name, results))} | {run} | {passed} |"
        )
    return "\n".join(lines) + "\n"


def _names(dtypes: Iterable[torch.dtype]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _cell(value: str) -> str:
    return value.replace("|", "\\|")
