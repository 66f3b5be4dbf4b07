"""Every tensor that a traced call holds by itself is lifted: a fake takes its place in each operator, the real one is kept.

A call reaches such tensors through closures, globals, attributes and containers. Operators on them alone would run for
real while tracing; here they are recorded like all others, and the tensors stay untouched.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from types import MethodType
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, track_tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from compiler.errors import UnsupportedError
from compiler.frontend.inputs import Input

_FRESH = frozenset(
    {torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift.default}
)
"""How a tensor made from Python numbers enters a trace: it is the program's own, and new at every call."""

GRADIENTS = (
    "return gradients: torch.func.grad, or torch.autograd.grad under torch.enable_grad() of what is made from "
    "x.detach().requires_grad_(); or train with torch.compile, whose backend is compiler.integrations.dynamo.fx2hlo"
)
"""What to do instead of `backward()` in a program, which is captured without recording gradients."""


class Lifting:
    """Puts fakes in the place of real tensors before the tracer `proxies` sees an operator.

    A dispatch mode of its own would keep Dynamo from compiling what is inside it, branches and loops included.
    """

    def __init__(self, proxies: ProxyTorchDispatchMode, inputs: Sequence[Input], fakes: Sequence[torch.Tensor]) -> None:
        self._proxies: Any = proxies
        self._fakes = {id(item.tensor): fake for item, fake in zip(inputs, fakes, strict=True)}
        self._inputs = {id(item.tensor): item.name for item in inputs if item.kind == "input"}
        self._state = {id(item.tensor): item.tensor for item in inputs if item.tensor is not None}
        self.past_names: dict[int, torch.Tensor] = {}
        """State that an operator was given as it is, and so not found under its registered name."""
        self._kept: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}
        self._storages = [
            (fake.untyped_storage(), item.tensor)
            for item, fake in zip(inputs, fakes, strict=True)
            if item.tensor is not None
        ]
        self._gradients = [(tensor, tensor.grad) for tensor in fakes if tensor.is_leaf]

    def __enter__(self) -> Lifting:
        dispatch = self._proxies.__torch_dispatch__

        def lifted(_mode: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            if func in _FRESH:
                return dispatch(func, types, args, kwargs or {})
            if isinstance(func, torch._ops.OpOverload) and torch.Tag.inplace_view in func.tags and _is_real(args[0]):
                raise UnsupportedError(
                    f"{func} changes the shape of a tensor that the program holds", hint="use a view of it"
                )
            with torch._C.DisableTorchFunction():  # below an operator it is not the program that asks
                return dispatch(func, types, *pytree.tree_map_only(torch.Tensor, self._fake, (args, kwargs or {})))

        self._proxies.__torch_dispatch__ = MethodType(lifted, self._proxies)
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        del self._proxies.__torch_dispatch__
        with _disable_current_modes(), torch.no_grad():
            for tensor, version, elements in self._kept.values():
                if tensor._version != version:
                    tensor.copy_(elements)
        changed = [(tensor, before) for tensor, before in self._gradients if tensor.grad is not before]
        for tensor, before in changed:
            tensor.grad = before
        if changed and kind is None:
            raise UnsupportedError("the call accumulates into `.grad` of a tensor from outside of it", hint=GRADIENTS)

    def keep(self, tensor: torch.Tensor) -> None:
        """Remember what a tensor holds that a higher-order operator is given: tracing its branches writes it for real."""
        if _is_real(tensor) and id(tensor) not in self._kept:
            with _disable_current_modes():
                self._kept[id(tensor)] = tensor, tensor._version, tensor.detach().clone()

    def is_used(self, tensor: torch.Tensor) -> bool:
        """Whether an operator was given a tensor that the program holds."""
        return id(tensor) in self._fakes or id(tensor) in self._kept

    def on(self, storages: Container[int]) -> tuple[torch.Tensor, ...]:
        """The real tensors on these storages, or for which there were fakes on them."""
        return tuple(
            tensor
            for fake, tensor in self._storages
            if fake._cdata in storages or tensor.untyped_storage()._cdata in storages
        )

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        if not _is_real(tensor):
            return tensor
        if id(tensor) in self._inputs:
            raise UnsupportedError(
                f"the argument {self._inputs[id(tensor)]!r} is also a tensor that the program holds by itself",
                hint="use it as an argument only, or compile with another tensor in that place",
            )
        if (known := self._fakes.get(id(tensor))) is not None:
            if id(tensor) in self._state:
                self.past_names[id(tensor)] = tensor
            return known
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            raise UnsupportedError(f"the program holds a {tensor.layout} tensor on {tensor.device}")
        mode = detect_fake_mode()
        assert mode is not None
        fake = mode.from_tensor(tensor, static_shapes=True)
        tracer = self._proxies.tracer
        name = tracer.get_fresh_qualname("_tensor_constant")
        setattr(tracer.root, name, tensor)
        track_tensor(fake, tracer.create_proxy("get_attr", name, (), {}), constant=None, tracer=tracer)
        self._fakes[id(tensor)] = fake
        self._storages.append((fake.untyped_storage(), tensor))
        if tensor.is_leaf:
            self._gradients.append((tensor, tensor.grad))
        return fake


def held_tensors(graph: fx.GraphModule) -> tuple[torch.Tensor, ...]:
    """The tensors in a graph and its subgraphs that live outside of it: all but those made from Python numbers."""
    found: dict[int, torch.Tensor] = {}
    for module in graph.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if node.op == "call_module":
                called = module.get_submodule(str(node.target))
                found |= {id(tensor): tensor for tensor in (*called.parameters(), *called.buffers())}
            elif node.op == "get_attr" and any(user.target not in _FRESH for user in node.users):
                tensor = functools.reduce(
                    lambda value, name: getattr(value, name, None), node.target.split("."), module
                )
                if isinstance(tensor, torch.Tensor):
                    found[id(tensor)] = tensor
    return tuple(found.values())


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
