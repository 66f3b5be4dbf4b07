"""Makes the shared cases importable."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "cases"), str(Path(__file__).parent), str(Path(__file__).parents[1] / "benchmarks")]
