"""An executable as its caller sees it: structured arguments and results, Python values, state by name, and a stream of
random numbers that goes on from call to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import CompileError, ValidationError
from compiler.export.elements import DTYPES
from compiler.validation.inputs import Arguments, copies
from compiler.validation.observe import Left, compare, observed

if TYPE_CHECKING:
    from compiler.export.signature import Signature
    from compiler.runtime.executable import Executable


def check_call(executable: Executable, program: ModuleOp, arguments: Arguments, left: Left | None) -> None:
    """Raise ValidationError if a call does something else than the program does to flat arguments.

    The state that it runs on is its own, so that a module stays as it is.
    """
    signature, own = executable.signature, copies(arguments)
    named = {b.name: tensor for b, tensor in zip(signature.bindings, own, strict=True)}
    twin = executable.on({b.name: named[b.name] for b in signature.bindings if b.kind != "input"})
    leaves = [own[leaf.index] if leaf.is_tensor else leaf.constant for leaf in signature.in_leaves]
    args, kwargs = pytree.tree_unflatten(leaves, signature.in_tree)
    try:
        with torch.no_grad():
            returned = twin(*args, **kwargs)
    except Exception as error:
        message = error.message if isinstance(error, CompileError) else str(error)
        raise _fault(f"a call fails: {message}") from error
    found, tree = pytree.tree_flatten(returned, is_leaf=lambda value: type(value) is torch.Size)
    if tree != signature.out_tree:
        raise _fault(f"a call gives results in the structure {tree}, the program in {signature.out_tree}")
    results: list[Any] = [None] * len(signature.plan)
    for leaf, value in zip(signature.out_leaves, found, strict=True):
        if leaf.is_tensor:
            results[leaf.index] = torch.tensor(value, dtype=_dtype(signature, leaf.index)) if leaf.number else value
        elif not (leaf.constant is value or leaf.constant == value or leaf.constant != leaf.constant):
            raise _fault(f"a call gives the value {value!r}, the program {leaf.constant!r}")
    for name, index in signature.rebound:
        results[index] = twin.state[name]
    if any(value is None for value in results):
        raise _fault(f"a call does not give result {next(n for n, value in enumerate(results) if value is None)}")
    for number, binding in enumerate(signature.bindings):
        if binding.kind == "generator" and not binding.written:
            if torch.equal(own[number], arguments[number]):
                raise _fault("a call leaves its seed as it is, so that the next one draws the same numbers")
            own[number].copy_(arguments[number])  # which the program itself does not change
    if difference := compare(program, arguments, observed(results, own), left).found:
        raise _fault(f"a call does something else than the program: {difference.text}")


def _dtype(signature: Signature, output: int) -> torch.dtype:
    """Of a result that is a Python number where it is returned."""
    source = signature.plan[output]
    if source.kind == "output":
        return _dtype(signature, source.index)
    return DTYPES[signature.bindings[source.index].element if source.kind == "argument" else source.element]


def _fault(message: str) -> ValidationError:
    return ValidationError(message, pass_name="call")


__all__ = ["check_call"]
