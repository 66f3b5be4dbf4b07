"""Every tensor that a traced call holds by itself is lifted: a fake takes its place in each operator, the real one is kept.

A call reaches such tensors through closures, globals, attributes and containers. Operators on them alone would run for
real while tracing; here they are recorded like all others, and the tensors stay untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, track_tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from compiler.errors import UnsupportedError
from compiler.frontend.inputs import Input

_FRESH = frozenset({torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift.default})
"""How a tensor made from Python numbers enters a trace: it is the program's own, and new at every call."""


class Lifting(TorchDispatchMode):
    """Puts fakes in the place of real tensors; `lifted` are those met that are not the program's state already."""

    supports_higher_order_operators = True

    def __init__(self, mode: FakeTensorMode) -> None:
        super().__init__()
        self._mode = mode
        self._fakes: dict[int, torch.Tensor] = {}
        self._inputs: dict[int, str] = {}
        self.lifted: list[torch.Tensor] = []

    def over(self, inputs: Sequence[Input], fakes: Sequence[torch.Tensor]) -> Lifting:
        """Lifting in a call whose inputs have these fakes."""
        self._fakes = {id(item.tensor): fake for item, fake in zip(inputs, fakes, strict=True)}
        self._inputs = {id(item.tensor): item.name for item in inputs if item.kind == "input"}
        return self

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _FRESH:
            return func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload) and torch.Tag.inplace_view in func.tags and _is_real(args[0]):
            raise UnsupportedError(f"{func} changes the shape of a tensor that the program holds", hint="use a view of it")
        args, kwargs = pytree.tree_map_only(torch.Tensor, self._fake, (args, kwargs))
        return func(*args, **kwargs)

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        if not _is_real(tensor):
            return tensor
        if id(tensor) in self._inputs:
            raise UnsupportedError(
                f"the argument {self._inputs[id(tensor)]!r} is also a tensor that the program holds by itself",
                hint="use it as an argument only, or compile with another tensor in that place",
            )
        if (known := self._fakes.get(id(tensor))) is not None:
            return known
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            raise UnsupportedError(f"the program holds a {tensor.layout} tensor on {tensor.device}")
        proxies = get_proxy_mode()
        assert proxies is not None
        fake = (detect_fake_mode() or self._mode).from_tensor(tensor, static_shapes=True)
        tracer: Any = proxies.tracer
        name = tracer.get_fresh_qualname("_tensor_constant")
        setattr(tracer.root, name, tensor)
        track_tensor(fake, tracer.create_proxy("get_attr", name, (), {}), constant=None, tracer=tracer)
        self._fakes[id(tensor)] = fake
        self.lifted.append(tensor)
        return fake


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
