"""Settings for every test: one thread, so that parallel workers do not fight over the cores; cases and tools importable."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Read when the libraries are loaded, which is after this file.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "cases"), str(ROOT / "tests"), str(ROOT / "benchmarks"), str(ROOT / "tools")]
