"""A program from a file that nobody trusts, when it is run, computes on tensors and touches nothing else.

Translation validation runs every operator that the text names. PyTorch has operators that open files, and custom
operators are arbitrary code; the schema tells both apart from the others.
"""

from __future__ import annotations

import torch
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import CompileError
from compiler.locations import source_of
from compiler.torch_types import overload
from dialects.calls import OperatorCall

_NAMESPACES = ("aten", "prims", "fx2hlo")


def refuse_outside(module: ModuleOp) -> None:
    """Raise CompileError at the first operator that running the program could touch the outside with."""
    for op in module.walk():
        if isinstance(op, OperatorCall) and (reason := _reason(op.target.data)):
            location, node = source_of(op)
            raise CompileError(
                f"validation would run {op.target.data}, {reason}",
                location=location,
                node=node,
                hint="if you trust where the file comes from, pass --trust; otherwise leave --validate out",
            )


def _reason(target: str) -> str:
    if target.split(".")[0] not in _NAMESPACES:
        return "which is not PyTorch's own and could do anything"
    operator = overload(target)
    if not isinstance(operator, torch._ops.OpOverload):
        return "which is no operator"
    schema = operator._schema
    taken = [str(argument.type) for argument in schema.arguments if not argument.is_out]
    if not any("Tensor" in kind for kind in [*taken, *(str(result.type) for result in schema.returns)]):
        return "which has to do with no tensor"
    # Text beside a tensor is a mode or a message. Text alone may be the name of a file, as that of aten.from_file is.
    if any("str" in kind for kind in taken) and not any("Tensor" in kind for kind in taken):
        return "which makes a tensor from a text, perhaps the name of a file"
    return ""


__all__ = ["refuse_outside"]
