"""Every refusal has its message: the right class, the user's line, what to do; and the catalogue page shows them all."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from error_cases import CASES, ErrorCase, message_of

from compiler.errors import CompileError

ROOT = Path(__file__).parents[1]
SOURCE = (ROOT / "tests" / "error_cases.py").read_text().splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.title)
def test_refusal(case: ErrorCase, tmp_path: Path) -> None:
    error, text = message_of(case, tmp_path)
    assert type(error) is case.kind, text
    assert "Traceback" not in text and "<graph>" not in text and str(ROOT) not in text
    if case.kind is SystemExit:
        assert re.match(r"DIR/program\.mlir:\d+:\d+: error: ", text), text
        return
    assert isinstance(error, CompileError) and error.message
    if not case.line:
        return
    file, line = error.location.rsplit(":", 1)
    assert file == str(ROOT / "tests" / "error_cases.py"), error.location
    assert case.line in SOURCE[int(line) - 1], f"{error.location}: {SOURCE[int(line) - 1]}"


def test_the_catalogue_is_up_to_date() -> None:
    """Otherwise run tools/error_catalogue.py."""
    spec = importlib.util.spec_from_file_location("error_catalogue", ROOT / "tools" / "error_catalogue.py")
    assert spec is not None and spec.loader is not None
    catalogue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(catalogue)
    assert catalogue.PAGE.read_text() == catalogue.page()
