"""Differences that are nobody's fault: the operator has several right answers, and each side took one of them.

The positions of equal elements, the signs of singular vectors and the contents of memory that nobody wrote are such answers.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from compiler.torch_types import python_argument
from dialects.calls import OperatorCall

UNINITIALISED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
_UNDETERMINED = {name: frozenset({0}) for name in UNINITIALISED} | {
    "sort": frozenset({1}), "argsort": frozenset({0}), "topk": frozenset({1}), "kthvalue": frozenset({1}),
    "median": frozenset({1}), "nanmedian": frozenset({1}), "mode": frozenset({1}),
    "_linalg_svd": frozenset({0, 2}), "_linalg_eigh": frozenset({1}), "linalg_eig": frozenset({0, 1}),
    "linalg_qr": frozenset({0, 1}), "geqrf": frozenset({0, 1}),
}  # fmt: skip
"""Operator -> its results that the arguments do not determine. No schema says it."""


def undetermined(module: ModuleOp) -> str:
    """The operator of a program that uses a result which the operator's arguments do not determine, or ""."""
    for op in module.walk():
        if not isinstance(op, OperatorCall):
            continue
        namespace, name, *_ = op.target.data.split(".")
        results = _UNDETERMINED.get(name, frozenset()) if namespace == "aten" else frozenset()
        if any(n in results and value.uses.get_length() for n, value in enumerate(op.outs)) and not _stable(op):
            return op.target.data
    return ""


def _stable(op: OperatorCall) -> bool:
    """Whether equal elements keep their order, because the call asks for it."""
    stable = op.in_pytorch()[1].get("stable")
    return stable is not None and python_argument(stable, ()) is True


__all__ = ["UNINITIALISED", "undetermined"]
