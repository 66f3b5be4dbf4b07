"""Settings for every test: one thread, so that parallel workers do not fight over the cores; cases and tools importable;
every artifact that a test saves is read and checked by the independent decoder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

# Read when the libraries are loaded, which is after this file.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "cases"), str(ROOT / "tests"), str(ROOT / "benchmarks"), str(ROOT / "tools")]


@pytest.fixture(autouse=True)
def saved_artifacts_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is saved while a test runs must pass `compiler-opt --check-artifact`."""
    if "torch" not in sys.modules:  # what saves artifacts has it
        return
    from compiler.export import artifact
    from compiler.validation.artifact import check_artifact

    write = artifact.write

    def checked(directory: Any, *args: Any, **kwargs: Any) -> None:
        write(directory, *args, **kwargs)
        check_artifact(directory)

    monkeypatch.setattr(artifact, "write", checked)
