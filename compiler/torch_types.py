"""Element types, overloads and Python arguments: from the IR's spelling to PyTorch's objects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, NoneType, StringAttr, i1
from xdsl.ir import Attribute

import compiler.random_bits  # registers an operator of the IR  # noqa: F401
from compiler.errors import CompileError
from compiler.export.elements import DTYPES
from dialects.arguments import Constant, Numbers, Operand
from dialects.nki import Stored
from dialects.types import element_name

if TYPE_CHECKING:
    from compiler.transforms.write_nki_backend_config import TensorSpec

_CONSTANTS: dict[str, Callable[[str], Any]] = {
    "memory_format": lambda text: getattr(torch, text),
    "layout": lambda text: getattr(torch, text),
    "device": torch.device,
}


@functools.lru_cache(maxsize=1 << 12)
def overload(target: str) -> Callable[..., Any]:
    """The operator overload `namespace.name.overload`, or the higher-order operator `higher_order.name`; CompileError when
    PyTorch does not know it."""
    parts = target.split(".")
    try:
        if parts[0] == "higher_order":
            return getattr(torch.ops.higher_order, parts[1])
        namespace, name, variant = parts[0], ".".join(parts[1:-1]), parts[-1]
        return getattr(getattr(getattr(torch.ops, namespace), name), variant)
    except (AttributeError, IndexError):
        raise CompileError(f"PyTorch knows no operator overload {target}") from None


def meta_tensor(spec: TensorSpec) -> torch.Tensor:
    """A tensor without contents, for a kernel compiler that looks at types and shapes."""
    return torch.empty_strided(spec.shape, spec.strides, dtype=DTYPES[spec.dtype], device="meta")


def python_argument(argument: Attribute, operands: Sequence[Any]) -> Any:
    """The Python object an argument of a call stands for."""
    match argument:
        case Operand():
            return operands[argument.data]
        case NoneType():
            return None
        case IntegerAttr():
            return bool(argument.value.data) if argument.type == i1 else argument.value.data
        case FloatAttr():
            return argument.value.data
        case StringAttr():
            return argument.data
        case ArrayAttr():
            return [python_argument(item, operands) for item in argument.data]
        case DictionaryAttr():
            parts = [python_argument(argument.data[k], operands) for k in ("real", "imag")]
            return complex(*parts)
        case Numbers():
            return list(argument.data)
        case Stored():
            return dict(argument.data)
        case Constant():
            kind, _, text = argument.data.partition(":")
            if kind not in _CONSTANTS:
                raise CompileError(f"unknown Python constant {argument.data!r}")
            return _CONSTANTS[kind](text)
        case _:
            return DTYPES[element_name(argument)]
