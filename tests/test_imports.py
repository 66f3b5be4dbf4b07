"""What starts fast stays fast: who imports what, seen from a fresh interpreter."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import dialects

ROOT = Path(__file__).resolve().parent.parent
IR = "func.func @f(%x: memref<4xf32> {alias.root = #alias.root<0, 16 bytes>}) {\n  func.return\n}\n"


def loaded(code: str, *modules: str) -> set[str]:
    """Which of `modules` are loaded after `code` has run."""
    report = f"\nimport sys\nprint('loaded:', *(m for m in {modules!r} if m in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + report], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].removeprefix("loaded:").split())


@pytest.mark.parametrize("module", ["compiler", "compiler.driver", "compiler.pipeline", "compiler.errors"])
def test_import_is_light(module: str) -> None:
    assert loaded(f"import {module}", "torch", "jax", "jaxlib", "xdsl", "numpy") == set()


@pytest.mark.parametrize("module", [m.name for m in pkgutil.iter_modules(dialects.__path__, "dialects.")])
def test_dialects_stand_alone(module: str) -> None:
    assert loaded(f"import {module}", "torch", "jax", "jaxlib", "compiler") == set()


@pytest.mark.parametrize("arguments", [[], ["-p", "remove-dead-values"], ["--print-op-generic"]])
def test_ir_to_ir_loads_neither_torch_nor_jax(tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(IR)
    code = f"from compiler.driver import main\nassert main({[str(file), *arguments]!r}) == 0"
    assert loaded(code, "torch", "jax", "jaxlib") == set()


def test_functionalization_loads_neither_torch_nor_jax(tmp_path: Path) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(IR)
    code = f"from compiler.driver import main\nassert main({[str(file), '-p', 'in-place-to-out-of-place']!r}) == 0"
    assert loaded(code, "torch", "jax", "jaxlib") == set()


@pytest.mark.parametrize("argument", ["--help", "--list-passes"])
def test_help_loads_nothing(argument: str) -> None:
    heavy = "xdsl", "torch", "jax", "jaxlib", "numpy", "rich"
    assert loaded(f"from compiler.driver import main\nmain([{argument!r}])", *heavy) == set()
