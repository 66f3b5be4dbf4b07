"""Artifacts are the same bytes in every process and on every rank, whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import write_artifacts
from conftest import ROOT


def test_processes_and_ranks_write_the_same_bytes(tmp_path: Path) -> None:
    runs = []
    for rank, seed in enumerate(("1", "2")):
        runs.append(
            subprocess.Popen(
                [sys.executable, str(ROOT / "tests" / "write_artifacts.py"), str(tmp_path / seed), str(rank)],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    listings = [run.communicate()[0].splitlines() for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert listings[0] == listings[1]
    names = [line.split()[0] for line in listings[0]]
    for program in write_artifacts.PROGRAMS:
        assert {f"{program}/aliases.json", f"{program}/model.hlo_module.pb", f"{program}/model.stablehlo.mlir"} <= set(
            names
        )
    assert {"collective", "kernel/neuronx-cc.txt", "random/state/0.bin"} <= set(names)
