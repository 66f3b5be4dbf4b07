"""The handed FX cases through the Neuron passes: how many are served right, refused, or wrong, by class of fault.

python benchmarks/fx_cases.py [--verbose] [CASE ...]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "cases"), str(Path(__file__).parents[1])]

import custom_ops  # noqa: E402
from fx_graphs import FX_CASES  # noqa: E402
from fx_oracle import FxCase, check_devices, check_rewrite  # noqa: E402

from compiler.errors import CompileError  # noqa: E402
from compiler.integrations.vllm_neuron import DeviceRewriterPass, get_default_pass_manager  # noqa: E402


class Verdict(NamedTuple):
    """`kind` is "right", "refused" (where the case allows it) or "wrong"."""

    kind: str
    errors: list[str]
    notes: list[str]


def in_scope(case: FxCase) -> bool:
    """The cases of the Neuron pipeline; clone and vLLM IR cases are for other passes."""
    return not case.category.startswith(("clone", "ir_"))


def judge(case: FxCase) -> Verdict:
    """Run the case through the passes and let the oracle judge."""
    gm = case.build()
    if case.category == "device":
        gm, metadata = DeviceRewriterPass().run(gm, target_device="xla")
        report = check_devices(case, gm, metadata["rewrite_count"])
        return Verdict("right" if report.ok else "wrong", report.errors, report.notes)
    compiler = custom_ops.compile_kernel if "needs_config" in case.tags else None
    try:
        gm, metadata = get_default_pass_manager(compiler).run_passes(gm, target_device="xla")
    except RuntimeError as error:
        return _refusal(case, error)
    if case.error == "must":
        return Verdict("wrong", ["accepted, must be refused"], [])
    found = metadata["aliasing_output_rewrite"]
    report = check_rewrite(case, gm, found["io_map"], found["original_output_count"], found["output_views"])
    return Verdict("right" if report.ok else "wrong", report.errors, report.notes)


def _refusal(case: FxCase, error: BaseException) -> Verdict:
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    clear = any(isinstance(cause, CompileError) and cause.node for cause in causes)
    if not case.error or not clear:
        return Verdict("wrong", [f"refused: {error}"], [])
    return Verdict("refused", [], [str(error)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="case names; all by default")
    parser.add_argument("--verbose", action="store_true", help="print the oracle's notes and refusals too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = 0
    for case in FX_CASES:
        if not in_scope(case) or (options.cases and case.id not in options.cases):
            continue
        verdict = judge(case)
        table[case.category][verdict.kind] += 1
        wrong += verdict.kind == "wrong"
        for line in verdict.errors + (verdict.notes if options.verbose else []):
            print(f"{case.id}: {line}")
    print(f"\n{'class of fault':16} {'right':>6} {'refused':>8} {'wrong':>6}")
    for category, counts in [*table.items(), ("total", sum(table.values(), Counter()))]:
        print(f"{category:16} {counts['right']:6} {counts['refused']:8} {counts['wrong']:6}")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
