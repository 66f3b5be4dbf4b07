"""Settings for every test: one thread, so that parallel workers do not fight over the cores."""

from __future__ import annotations

import os

# Read when the libraries are loaded, which is after this file.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
