"""From any PyTorch program to handles: `import_program`, and `import_pt2` for the driver."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.program import Program


def import_program(
    program: Any,
    example_inputs: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    *,
    trust: bool = False,
) -> Program:
    """The handle IR of a callable, module, exported program, `.pt2` path or FX graph (see `capture`)."""
    from compiler.frontend.capture import ALONE, capture
    from compiler.frontend.importer import import_graph

    with ALONE:
        return import_graph(capture(program, example_inputs, kwargs, trust=trust))


def import_pt2(path: str | os.PathLike[str], *, trust: bool = False) -> Program:
    """The handle IR of the exported program in a `.pt2` file."""
    return import_program(path, trust=trust)
