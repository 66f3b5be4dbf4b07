"""Clone elimination against brute force: random graphs, and every choice of copies tried by running it."""

import sys
from pathlib import Path

# The judge and the operators of the graphs are those of the test cases.
sys.path[:0] = [str(Path(__file__).parents[2] / "tests" / "cases")]
