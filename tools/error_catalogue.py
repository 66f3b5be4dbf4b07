"""Write docs/errors.md: every kind of message, made by running what it refuses (tests/error_cases.py).

python tools/error_catalogue.py            # write the page
python tools/error_catalogue.py --check    # exit code 1 when the page is out of date
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

PAGE = ROOT / "docs" / "errors.md"
HEAD = """# Errors

Every message says what is wrong, where in your program, why, and what to do instead. `CompileError` is the base class;
`UnsupportedError` means that the program is valid PyTorch, `GuardError` that a call breaks what was assumed (nothing has
run), `ValidationError` that a pass or an operator is at fault. `error.location` is `file:line`, `error.node` the FX node,
`error.hint` what to do. `compiler-opt` prints the same and ends with exit code 1.

This page is made by `tools/error_catalogue.py` from the programs in `tests/error_cases.py`.
"""


def page() -> str:
    """The page, from running every case."""
    from error_cases import CASES, message_of  # pyright: ignore[reportMissingImports]

    parts = [HEAD]
    for case in CASES:
        with tempfile.TemporaryDirectory() as directory:
            _, text = message_of(case, Path(directory))
        kind = "compiler-opt" if case.kind is SystemExit else case.kind.__name__
        body = inspect.getsource(case.run).split("\n", 1)[1]
        body = body[body.index("-> None:\n") + len("-> None:\n") :] if "def _(" in body else body
        parts.append(
            f"\n## {case.title}\n\n```python\n{textwrap.dedent(body).rstrip()}\n```\n\n```text\n{kind}: {text}\n```\n\n{case.why}\n"
        )
    return "".join(parts)


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
