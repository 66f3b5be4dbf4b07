"""`python -m tools.fuzz N`: N random programs through a mode, with progress, a summary, and every failure shrunk."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tools.fuzz.generate import Options, draft, generate
from tools.fuzz.modes import MODES
from tools.fuzz.program import Program
from tools.fuzz.runner import SECONDS, run
from tools.fuzz.shrink import shrink
from tools.fuzz.verdict import KINDS, Verdict


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    add = parser.add_argument
    add("count", nargs="?", type=int, default=500, help="number of programs")
    add("--mode", choices=MODES, default="compile", help="what is compared with eager PyTorch (default: compile)")
    add("--seed", type=int, default=0, help="seed of the first program")
    add("--only", type=int, nargs="+", metavar="SEED", help="these programs instead of COUNT of them")
    add("--children", type=int, default=2, help="processes at a time")
    add("--steps", type=int, default=12, help="most statements of a program")
    add("--seconds", type=float, default=SECONDS, help="how long one program may take")
    add("--no-shrink", action="store_true", help="print failing programs as they are")
    add("--failures", type=int, default=10, help="how many failures of different reasons to print")
    add("--refusals", action="store_true", help="print an example of every reason to refuse as well")
    add("--save", type=Path, metavar="DIR", help="write shrunk failures there, for tests/corpus")
    add("--census", action="store_true", help="count kinds of statements in the programs, and run none")
    add("--replay", type=Path, nargs="+", metavar="FILE", help="run saved programs instead of random ones")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 when nothing was wrong and nothing crashed."""
    options = _arguments().parse_args(argv)
    console = Console()
    contents = MODES[options.mode].contents(Options(steps=options.steps))
    items: list[int | Program] = list(options.only or range(options.seed, options.seed + options.count))
    if options.replay:
        saved = [Program.from_json(path.read_text()) for path in options.replay]
        items = [p for p in saved if contents.allow(p)]
    if options.census:
        return _census([item if isinstance(item, int) else item.seed for item in items], contents, console)
    counts: Counter[str] = Counter()
    reasons: dict[tuple[str, str], list[tuple[int | Program, Verdict]]] = {}
    start = time.perf_counter()
    interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress, contextlib.suppress(KeyboardInterrupt):
        interrupted = True
        task = progress.add_task("", total=len(items))
        for each in run(items, options.mode, contents, children=options.children, seconds=options.seconds):
            counts[each.verdict.kind] += 1
            if each.verdict.kind != "agreed":
                reasons.setdefault((each.verdict.kind, each.verdict.reason), []).append((each.item, each.verdict))
            if each.verdict.kind not in ("agreed", "refused"):
                found = each.item if isinstance(each.item, int) else each.item.seed
                line = f"seed {found} {each.verdict.kind}: {each.verdict.reason}"
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
            progress.update(task, advance=1, description=_figures(counts))
            if not console.is_terminal and counts.total() % max(len(items) // 10, 100) == 0:
                console.print(f"{counts.total()} of {len(items)}: {_figures(counts)}", highlight=False)
        interrupted = False
    seconds = time.perf_counter() - start
    shown = 0
    for (kind, reason), found in sorted(reasons.items(), key=lambda r: -len(r[1])):
        if (kind == "refused" and not options.refusals) or shown >= options.failures:
            continue
        shown += 1
        item, verdict = min(found, key=lambda f: f[0] if isinstance(f[0], int) else -1)
        program = generate(item, contents) if isinstance(item, int) else item
        if not options.no_shrink and not interrupted:
            program, verdict = shrink(program, verdict, options.mode, contents)
        console.rule(f"{kind}: {reason}", align="left")
        console.print(f"{verdict.detail}\n", markup=False, highlight=False, soft_wrap=True)
        console.print(program.script(), markup=False, highlight=False, soft_wrap=True)
        if options.save and kind != "refused":
            options.save.mkdir(parents=True, exist_ok=True)
            (options.save / f"{options.mode}_{program.seed}.json").write_text(program.to_json() + "\n")
    for (kind, reason), found in sorted(reasons.items(), key=lambda r: (r[0][0], -len(r[1]))):
        seeds = ", ".join(str(item) for item, _ in found[:5] if isinstance(item, int))
        console.print(
            f"{len(found):6}  {kind}: {reason}  [seeds {seeds}]", markup=False, highlight=False, soft_wrap=True
        )
    console.print(f"{options.mode}: {counts.total()} programs in {seconds:.0f} s: {_figures(counts)}", highlight=False)
    return 1 if counts["wrong"] or counts["crashed"] else 0


def _census(seeds: Sequence[int], contents: Options, console: Console) -> int:
    kinds: Counter[str] = Counter()
    for seed in seeds:
        kinds += draft(seed, contents).kinds
    for kind, count in kinds.most_common():
        console.print(f"{count:6}  {kind}", highlight=False)
    console.print(f"{len(seeds)} programs, {kinds.total()} statements of {len(kinds)} kinds", highlight=False)
    return 0


def _figures(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind] or kind != "missed")


if __name__ == "__main__":
    sys.exit(main())
