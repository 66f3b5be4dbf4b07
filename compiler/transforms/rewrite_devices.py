"""No call mentions a device other than the target; what mentions none stays as it is.

    rewrite-devices{target=xla}

In the IR a device is a Python constant (`@"device:cuda:1"`) in any position of a call's arguments, also inside lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from compiler.errors import CompileError
from compiler.transforms.metadata import record
from dialects.arguments import Constant

_DEVICE = "device:"


@dataclass
class Retargeting:
    """How mentions of a device are spelled for the target, and how many there were.

    Attributes:
        target: the device as text.
    """

    target: str
    count: int = 0
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        self.kind, colon, index = self.target.partition(":")
        if not self.kind.isidentifier() or (colon and not index.isdigit()):
            raise CompileError(f"{self.target!r} is no device", hint="name a device as xla or xla:0")

    def text(self) -> str:
        """In place of a device that is spelled as text."""
        self.count += 1
        return self.target

    def numbered(self) -> tuple[str, int]:
        """In place of a device object: kind and index."""
        self.count += 1
        return self.kind, 0


@dataclass(frozen=True)
class RewriteDevices(ModulePass):
    """See the module's text.

    Options:
        target: the device that everything is on.
    """

    name: ClassVar[str] = "rewrite-devices"
    target: str = "xla"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        record(op, "rewrite_count", rewrite_devices(op, self.target))


def rewrite_devices(module: ModuleOp, target: str) -> int:
    """Put the target in place of every device; how many there were.

    Raises:
        CompileError: the target is no device.
    """
    retargeting = Retargeting(target)
    for op in module.walk():
        for name, value in op.properties.items():
            found = _rewritten(value, retargeting)
            if found is not value:
                op.properties[name] = found
    return retargeting.count


def _rewritten(value: Attribute, retargeting: Retargeting) -> Attribute:
    """The attribute itself where it holds no device."""
    if isinstance(value, Constant) and value.data.startswith(_DEVICE):
        kind, index = retargeting.numbered()
        return Constant(f"{_DEVICE}{kind}:{index}")
    if isinstance(value, ArrayAttr):
        items = [_rewritten(item, retargeting) for item in value.data]
        return ArrayAttr(items) if any(a is not b for a, b in zip(items, value.data, strict=True)) else value
    if isinstance(value, DictionaryAttr):
        parts = {name: _rewritten(item, retargeting) for name, item in value.data.items()}
        return DictionaryAttr(parts) if any(parts[n] is not item for n, item in value.data.items()) else value
    return value
