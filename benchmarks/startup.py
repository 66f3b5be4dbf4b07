"""How long the driver takes to start, beside an interpreter that does nothing, in turn.

python benchmarks/startup.py [--rounds 10]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
DRIVER = str(ROOT / "tools" / "compiler-opt")
IR = str(ROOT / "lit_tests" / "transforms" / "remove-dead-values" / "values.mlir")
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "compiler-opt --help": [DRIVER, "--help"],
    "compiler-opt --list-passes": [DRIVER, "--list-passes"],
    "compiler-opt FILE -p remove-dead-values": [DRIVER, IR, "-p", "remove-dead-values", "--split-input-file"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
            times[name].append(time.perf_counter() - start)
    table = Table("command", "ms, median", "ms, least", title="start of the driver")
    for name, seconds in times.items():
        table.add_row(name, f"{1e3 * statistics.median(seconds):.0f}", f"{1e3 * min(seconds):.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
