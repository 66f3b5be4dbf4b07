"""After the pass no node mentions a device other than the target; what mentions none stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

from compiler.transforms.rewrite_devices import Retargeting

Form = Literal["text", "device", "other"]
"""How a device is spelled: as text, as an object, or as something that stands for one (None, a node)."""

DEVICE_METHODS = frozenset(n for n in ("cpu", "cuda", "xpu", "ipu", "mtia", "hpu") if hasattr(torch.Tensor, n))
"""Tensor methods that name a device by themselves."""


class Call(NamedTuple):
    """What a node calls, and with what."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def map_devices(node: fx.Node, change: Callable[[Form, Any], Any]) -> Call:
    """The node's call with every device replaced by what `change` makes of it.

    `x.cuda()` becomes `x.to(device)` with the device as text.
    """
    method = _method(node)
    if method in DEVICE_METHODS:
        numbered = len(node.args) > 1 and not isinstance(node.args[1], bool)
        rest = node.args[2 if numbered else 1 :]
        named = {name: value for name, value in node.kwargs.items() if name != "device"}
        if rest:
            named["non_blocking"] = rest[0]
        target = "to" if node.op == "call_method" else torch.Tensor.to
        return Call(target, (*node.args[:1], change("text", method)), named)
    if node.target is torch.device:
        values = [*node.args, *node.kwargs.values()]
        return Call(node.target, (change("text", values.pop(0)),), {})
    slots = _device_slots(node)
    args = tuple(_walk(value, position in slots, change) for position, value in enumerate(node.args))
    kwargs = {name: _walk(value, name == "device", change) for name, value in node.kwargs.items()}
    return Call(node.target, args, kwargs)


def devices_of(node: fx.Node) -> list[Any]:
    """The devices that a node mentions, in order, as they are spelled."""
    found: list[Any] = []
    map_devices(node, lambda _form, value: found.append(value) or value)
    return found


def _walk(value: Any, slot: bool, change: Callable[[Form, Any], Any]) -> Any:
    """`slot`: the argument is declared to be a device."""
    if isinstance(value, torch.device):
        return change("device", value)
    if slot and isinstance(value, str):
        return change("text", value)
    if slot and (value is None or isinstance(value, fx.Node)):
        return change("other", value)
    if isinstance(value, dict):
        return {key: _walk(item, key == "device", change) for key, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, False, change) for item in value]
    if type(value) is tuple:
        return tuple(_walk(item, False, change) for item in value)
    return value


def _method(node: fx.Node) -> str:
    """The name of the tensor method that a node calls, or ""."""
    if node.op == "call_method":
        return str(node.target)
    target = node.target
    if node.op == "call_function" and getattr(torch.Tensor, getattr(target, "__name__", ""), None) is target:
        return getattr(target, "__name__", "")
    return ""


def _device_slots(node: fx.Node) -> frozenset[int]:
    """Positions that hold a device, whatever stands there now."""
    target = node.target
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        overload = target if isinstance(target, OpOverload) else getattr(target, target.overloads()[0])
        formals = overload._schema.arguments
        return frozenset(i for i, a in enumerate(formals) if "Device" in str(a.type) and i < len(node.args))
    if _method(node) == "to":
        return frozenset({1}) if len(node.args) > 1 and _is_device(node.args[1]) else frozenset()
    return frozenset()


def _is_device(value: Any) -> bool:
    """Whether an argument of `.to` is a device, and not a dtype or a tensor."""
    if isinstance(value, fx.Node):
        known = value.meta.get("example_value", value.meta.get("val"))
        reads_device = value.op == "call_function" and value.args[1:] == ("device",)
        return isinstance(known, torch.device) or value.target is torch.device or reads_device
    return isinstance(value, (str, torch.device))


def graphs_of(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """A graph module and those inside it."""
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            yield module


class DeviceRewriterPass:
    """Every device becomes the target, wherever it stands."""

    name: ClassVar[str] = "device_rewriter"
    recompiles: ClassVar[bool] = True

    def run(self, gm: fx.GraphModule, **kwargs: Any) -> tuple[fx.GraphModule, dict[str, Any]]:
        """Rewrite in place. `target_device` is the device as text, "xla" by default.

        Raises:
            RuntimeError: the target is no device.
        """
        target = str(kwargs.get("target_device", "xla"))
        try:
            torch.device(target)
            retargeting = Retargeting(target)
        except RuntimeError as error:
            raise RuntimeError(f"Device rewriting failed: {error}") from error

        def change(form: Form, _value: Any) -> Any:
            return torch.device(*retargeting.numbered()) if form == "device" else retargeting.text()

        for graph in graphs_of(gm):
            first = retargeting.count
            for node in graph.graph.nodes:
                if node.op in ("call_function", "call_method"):
                    before = retargeting.count
                    call = map_devices(node, change)
                    if retargeting.count > before:
                        node.target, node.args, node.kwargs = call
            if retargeting.count > first:
                graph.recompile()
        return gm, {"rewrite_count": retargeting.count}


__all__ = ["Call", "DeviceRewriterPass", "devices_of", "graphs_of", "map_devices"]
