"""`python -m tools.opinfo run`: all of PyTorch's operator samples against eager; `report`: the figures and the page."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

ROOT = Path(__file__).parents[2]
JOURNAL = ROOT / "build" / "opinfo.jsonl"


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="opinfo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run samples; what the journal holds already is not run again")
    run.add_argument("patterns", nargs="*", help="names of entries, with wildcards (default: all)")
    run.add_argument("--retry", action="store_true", help="run again what the journal holds as not passed")
    run.add_argument("--fresh", action="store_true", help="forget the journal")
    run.add_argument("--children", type=int, default=2, help="processes at a time")
    run.add_argument("--limit", type=int, default=6, help="samples per entry and dtype")
    run.add_argument("--part", type=int, default=1, metavar="N", help="only every N-th unit of the list")
    run.add_argument("--dtype", action="append", help="only this type, such as float32; may be repeated")
    run.add_argument(
        "--variant", action="append", help="only this variant: function, in-place, out or overload; may be repeated"
    )
    run.add_argument("--show", action="store_true", help="print every verdict that is not passed")
    run.add_argument("--journal", type=Path, default=JOURNAL, help="where results go as they come")
    report = commands.add_parser(
        "report", help="write docs/opinfo.json and docs/operators.md from the journal; print the figures"
    )
    report.add_argument("--journal", type=Path, default=JOURNAL)
    report.add_argument("--no-write", action="store_true", help="print the figures only")
    layouts = commands.add_parser(
        "layouts", help="strides of the results of samples whose operands are not contiguous; nothing is compiled"
    )
    layouts.add_argument("patterns", nargs="*", help="names of entries, with wildcards (default: all)")
    layouts.add_argument("--limit", type=int, default=4, help="samples per entry")
    layouts.add_argument("--part", type=int, default=1, metavar="N", help="only every N-th entry")
    commands.add_parser("figures", help="print the figures of docs/opinfo.json")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when nothing was wrong and nothing crashed."""
    options = _arguments().parse_args(argv)
    console = Console()
    if options.command == "run":
        return _run(options, console)
    if options.command == "layouts":
        return _layouts(options, console)
    from tools.opinfo import page, results

    if options.command == "report":
        found = results.summarise(results.read_journal(options.journal), results.work(options.journal))
        if not options.no_write:
            results.write(found)
            page.write(found)
    else:
        found = results.read()
    text, good = results.figures(found)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    return 0 if good else 1


def _run(options: argparse.Namespace, console: Console) -> int:
    from tools.opinfo.core_samples import CORE
    from tools.opinfo.runner import Unit, run, units
    from tools.opinfo.samples import entries

    names = [
        n
        for n in (*entries(), *CORE)
        if not options.patterns or any(fnmatch.fnmatchcase(n, p) for p in options.patterns)
    ]
    work = [
        unit
        for unit in units(names)
        if (not options.dtype or unit.dtype in options.dtype)
        and (not options.variant or unit.variant in options.variant)
    ]
    work = work[:: options.part]
    journal: Path = options.journal
    journal.parent.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        journal.unlink(missing_ok=True)
    if journal.exists():
        lines = journal.read_text().splitlines()
        items = [json.loads(line) for line in lines]
        if options.retry:
            kept = [all(v["kind"] == "passed" for v in i["verdicts"]) or Unit(**i["unit"]) not in work for i in items]
            journal.write_text("".join(f"{line}\n" for line, keep in zip(lines, kept, strict=True) if keep))
            items = [item for item, keep in zip(items, kept, strict=True) if keep]
        known = {Unit(**item["unit"]) for item in items}
        work = [unit for unit in work if unit not in known]
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with journal.open("a") as file, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(work))
        for unit, verdicts, seconds in run(work, children=options.children, limit=options.limit):
            item = {
                "unit": asdict(unit),
                "seconds": seconds,
                "default_level": True,
                "verdicts": [asdict(v) for v in verdicts],
            }
            print(json.dumps(item), file=file, flush=True)
            counts.update(v.kind for v in verdicts)
            progress.update(task, advance=1, description=_line(counts))
            if options.show:
                for v in verdicts:
                    if v.kind not in ("passed", "skipped"):
                        name = f"{unit.entry} {unit.variant} {unit.dtype}"
                        console.print(
                            f"{v.kind} {name}: {v.reason} {v.sample}", markup=False, highlight=False, soft_wrap=True
                        )
    console.print(f"{len(work)} units in {time.perf_counter() - start:.0f} s: {_line(counts)}", highlight=False)
    return 1 if counts["wrong"] or counts["layout"] or counts["crashed"] else 0


def _layouts(options: argparse.Namespace, console: Console) -> int:
    from tools.opinfo.layouts import check
    from tools.opinfo.samples import dtypes, entries

    counts: Counter[str] = Counter()
    known = entries()
    names = [n for n in known if not options.patterns or any(fnmatch.fnmatchcase(n, p) for p in options.patterns)]
    for name in names[:: options.part]:
        for kind in dtypes(known[name])[:1]:
            for found in check(known[name], kind, options.limit):
                plain = found.verdict if found.verdict in ("agreed", "refused") else "differ"
                counts[plain] += 1
                if plain == "differ":
                    line = f"{name} {found.layout}: {found.verdict} {found.sample}"
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
    figures = ", ".join(f"{counts[kind]} {kind}" for kind in ("agreed", "differ", "refused"))
    console.print(f"{counts.total()} calls of {len(names[:: options.part])} entries: {figures}", highlight=False)
    return 1 if counts["differ"] else 0


def _line(counts: Counter[str]) -> str:
    return ", ".join(
        f"{counts[kind]} {kind}" for kind in ("passed", "wrong", "layout", "crashed", "refused", "skipped")
    )


if __name__ == "__main__":
    sys.exit(main())
