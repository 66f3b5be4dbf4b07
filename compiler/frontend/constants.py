"""Python values and small tensors as attributes of the IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import ProcessGroup
from xdsl.dialects.builtin import ArrayAttr, BytesAttr, DenseIntOrFPElementsAttr, DictionaryAttr, StringAttr, TensorType
from xdsl.ir import Attribute

from compiler.errors import UnsupportedError
from compiler.frontend.forms import element_of
from dialects.fx import NONE, Constant, boolean, integer, real
from dialects.types import ELEMENTS, value_type

SMALL = 64
"""The most elements of a constant that is kept in the IR."""


def attribute(value: Any) -> Attribute:
    """A Python argument of a call as an attribute."""
    match value:
        case None:
            return NONE
        case bool():
            return boolean(value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise UnsupportedError(f"the number {value} does not fit 64 bits")
            return integer(value)
        case float():
            return real(value)
        case complex():
            return DictionaryAttr({"real": real(value.real), "imag": real(value.imag)})
        case str():
            return StringAttr(value)
        case torch.dtype():
            return ELEMENTS[element_of(value)][0]
        case torch.device():
            return Constant(f"device:{value}")
        case torch.memory_format():
            return Constant(f"memory_format:{str(value).removeprefix('torch.')}")
        case torch.layout():
            return Constant(f"layout:{str(value).removeprefix('torch.')}")
        case Sequence():
            return ArrayAttr([attribute(item) for item in value])
        case torch.SymInt() if (known := value.node.maybe_as_int()) is not None:
            return integer(known)
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            raise UnsupportedError(f"the number {value} is known only at run time")
        case ProcessGroup():
            return StringAttr(value.group_name)
        case _:
            raise UnsupportedError(f"an argument of type {type(value).__name__} has no form in the IR")


def constant_data(tensor: torch.Tensor) -> DenseIntOrFPElementsAttr:
    """The bytes of a tensor in row-major order."""
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if dense.dtype == torch.bool:
        dense = dense.to(torch.uint8) * 0xFF  # true is -1 in an i1, as the IR's text reads back
    raw = dense.reshape(-1).view(torch.uint8).numpy().tobytes() if dense.numel() else b""
    kind: TensorType[Any] = value_type(element_of(tensor.dtype), tuple(tensor.shape))
    return DenseIntOrFPElementsAttr(kind, BytesAttr(raw))
