"""All benchmarks, one after another: `python -m benchmarks`. Each runs alone too; `--help` says how."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ALL = ("stages", "scaling", "copies", "call_overhead", "clone_scaling", "startup")


def main() -> int:
    failed = [name for name in ALL if subprocess.run([sys.executable, HERE / f"{name}.py"]).returncode]
    for name in failed:
        print(f"benchmarks/{name}.py failed", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
