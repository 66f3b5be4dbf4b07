"""The handed programs under `torch.compile(backend="fx2hlo")`: how many agree with eager PyTorch.

    python benchmarks/dynamo_programs.py [PROGRAM ...]

Each program runs three times through one compiled function: first, where its arguments share memory, on arguments that do not
(Dynamo does not compile again when such come to overlap), then twice as it is, compared with eager each time: values,
written arguments, what shares memory with what.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "cases"), str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT)]

import custom_ops  # noqa: E402, F401  (registers operators)
import programs  # noqa: E402
import torch  # noqa: E402
from test_programs import differences  # noqa: E402

from compiler.integrations.dynamo import fx2hlo  # noqa: E402


def shares_memory(case: programs.Case) -> bool:
    """Whether tensors among the arguments share a storage."""
    storages = [t.untyped_storage()._cdata for t in case.make_inputs() if isinstance(t, torch.Tensor)]
    return len(set(storages)) < len(storages)


def disagreements(case: programs.Case) -> list[str]:
    """What differs from eager in the two comparisons; an error is a difference."""
    run = torch.compile(case.fn, backend=fx2hlo, dynamic=False)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if shares_memory(case):
                run(*(t.clone() if isinstance(t, torch.Tensor) else t for t in case.make_inputs()))
            return [found for _ in range(2) for found in differences(case, run)]
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="program names; all by default")
    chosen = parser.parse_args().programs
    cases = [case for case in programs.CASES if not chosen or case.id in chosen]
    agreeing = 0
    for case in cases:
        torch._dynamo.reset()
        found = disagreements(case)
        agreeing += not found
        for line in found:
            print(f"{case.id}: {line.splitlines()[0]}")
    shared = sum(map(shares_memory, cases))
    print(
        f"{agreeing} of {len(cases)} programs agree with eager PyTorch, {shared} of them with arguments that share memory"
    )
    return int(agreeing < len(cases))


if __name__ == "__main__":
    sys.exit(main())
