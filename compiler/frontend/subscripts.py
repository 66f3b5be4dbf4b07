"""`x[i]`, `x[i] = v` and `x.narrow(d, i, n)` with i a 0-d tensor are gathers and scatters of the graph, not reads of a number.

Eager PyTorch takes such an index as the number in it and gives a view. A view at a place known only at run time has no
form in the IR, so the graph reads a copy; `check` refuses the programs that could tell the copy from the view.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import fx
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from compiler.errors import UnsupportedError
from compiler.frontend.inputs import COUNTED
from compiler.frontend.layouts import SCATTERS
from compiler.frontend.schemas import counts_from_storage
from compiler.frontend.sources import in_library, in_pytorch, node_source

_INDICES = (torch.int8, torch.int16, torch.int32, torch.int64)
_PYTHON_KERNELS = (torch.Tensor.apply_, torch.Tensor.map_, torch.Tensor.map2_)
_LEAVING = (torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__)
"""What hands the elements of a tensor to another library, which a trace does not see; what comes back is a constant."""

_MEMORY = (torch.Tensor.data_ptr, torch.Tensor.is_set_to, torch.Tensor.is_shared)
_STORAGES = (torch.Tensor.untyped_storage, torch.Tensor.storage)
_PLACES = (
    torch.Tensor.storage_offset, torch.ops.aten.sym_storage_offset, torch.ops.aten.sym_storage_offset.default,
)  # fmt: skip

_TELLING = frozenset({"__torch_function__", "handle_torch_function", "_typed_storage"})
"""Functions of PyTorch between a call and the modes that are told of it."""

NARROWS = (torch.narrow, torch.Tensor.narrow)
"""Functions that take a window whose start may be a 0-d tensor."""


@dataclass
class _Read:
    """A copy that stands for a view: what it was read from, and the assignment that writes it back there, if any."""

    node: fx.Node
    base: torch.Tensor
    key: tuple[Any, ...]
    copy: torch.Tensor
    back: tuple[fx.Node, fx.Node] | None = None
    """The last node before the assignment, and its last node."""

    def at(self, base: torch.Tensor, key: tuple[Any, ...]) -> bool:
        same = len(key) == len(self.key) and all(
            a is b or (not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor) and a == b)
            for a, b in zip(key, self.key, strict=True)
        )
        return same and _window(base) == _window(self.base)


class Subscripts(TorchFunctionMode):
    """Rewrites subscripts by 0-d tensors while a program is traced into `graph`."""

    def __init__(self, graph: fx.Graph | None, given: Callable[[torch.Tensor], object] | None = None) -> None:
        """`given`: told of each tensor that is given to a higher-order operator, which no dispatch mode sees."""
        super().__init__()
        self._graph = graph
        self._given = given
        self._reads: list[_Read] = []
        self.located: dict[int, torch.UntypedStorage] = {}
        """Storages, by identity, of tensors of which the program asked where in them they begin."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Dynamo, which captures a branch, walks through here too.
        called = not torch.compiler.is_dynamo_compiling() and isinstance(func, HigherOrderOperator)
        if called and self._given is not None and self._recording():
            pytree.tree_map_only(torch.Tensor, self._given, (args, kwargs or {}))
        if func in _PYTHON_KERNELS:
            raise UnsupportedError(
                f"{func.__name__} runs a Python function on every element", hint="express it with tensor operators"
            )
        if func in _LEAVING:
            raise UnsupportedError(
                f"Tensor.{func.__name__} takes the elements of a tensor out of the program",
                hint="keep it a tensor, or pass the array in as one",
            )
        if func in _MEMORY:
            raise UnsupportedError(
                f"Tensor.{func.__name__} looks at addresses and kinds of memory, which are others in another call",
                hint="compare addresses outside of the program",
            )
        if func in _STORAGES and self._is_asked() and not self._is_asked_by_library(func):
            raise UnsupportedError(
                f"Tensor.{func.__name__} gives the storage itself (an UntypedStorage), whose size and address are others in "
                "another call",
                hint="take views: x.as_strided(...), or x.set_(y) for x.set_(y.untyped_storage(), ...)",
            )
        if func in _PLACES and self._is_asked():
            self.locate(args[0])
        subscript = self._graph is not None and func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
        if subscript and any(isinstance(k, torch.SymInt) for k in _key(args[1])):
            raise UnsupportedError(
                "a subscript is a number from data", hint="index with the tensor, not with its item()"
            )
        if func == torch.Tensor.__getitem__ and self._recording():
            key = _key(args[1])
            if _by_number(args[0], key):
                return self._get(args[0], key, is_view=not _copies(key))
        if func in NARROWS and self._recording():
            base, dim, start, length = _narrowed(*args, **(kwargs or {}))
            if _is_traced(base) and _is_dynamic(start, _INDICES):
                return self._get(
                    base, (*[slice(None)] * (dim % base.dim()), _places(base.shape[dim], start, length)), is_view=True
                )
        if func == torch.Tensor.__setitem__:
            key = _key(args[1])
            if len(key) == 1 and _is_dynamic(key[0], (torch.bool,)) and _is_traced(args[0]):
                return _set_where(args[0], key[0], args[2])
            if _by_number(args[0], key):
                return self._set(args[0], key, args[2])
        return func(*args, **(kwargs or {}))

    def locate(self, tensor: torch.Tensor) -> None:
        """Note that the program counts in the storage that a tensor has now."""
        while is_functorch_wrapped_tensor(tensor):
            tensor = get_unwrapped(tensor)
        storage = tensor.untyped_storage()
        self.located[storage._cdata] = storage

    def _is_asked(self) -> bool:
        """Whether it is the program that is told something; Dynamo asks on its own behalf."""
        return get_proxy_mode() is not None

    def _is_asked_by_library(self, func: Any) -> bool:
        """Whether the function that this mode is told of was called by code of PyTorch or the compiler."""
        return in_library(_caller(func))

    def _recording(self) -> bool:
        """Whether calls go into the graph itself, not into one of a branch or of a loop's body."""
        mode = get_proxy_mode()
        return mode is not None and mode.tracer.graph is self._graph

    def _last(self) -> fx.Node:
        assert self._graph is not None
        return next(iter(reversed(self._graph.nodes)))

    def _get(self, base: torch.Tensor, key: tuple[Any, ...], *, is_view: bool) -> torch.Tensor:
        copy = torch.ops.aten.index.Tensor(*_gathered(base, key))
        if is_view:
            self._reads.append(_Read(self._last(), base, key, copy))
        return copy

    def _set(self, base: torch.Tensor, key: tuple[Any, ...], value: Any) -> None:
        reads = [r for r in self._reads if isinstance(value, torch.Tensor) and _window(value) == _window(r.copy)]
        start = self._last() if reads else None
        window, indices = _gathered(base, key)
        shape = torch.ops.aten.index.Tensor(window, indices).shape if _ranks(indices) else None
        rank = len(shape) if shape is not None else window.dim() - sum(i is not None for i in indices)
        torch.ops.aten.index_put_.default(window, indices, _stored(value, base, rank))
        if start is not None and reads[-1].at(base, key):
            reads[-1].back = (start, self._last())

    def _check_copies(self, nodes: Sequence[fx.Node]) -> None:
        """Raise UnsupportedError where the program asks for a place that a trace has wrong, in a copy of a storage. Note where
        it asks for one that a trace may have wrong, in what a branch or loop gives: import knows."""
        for node in nodes:
            if self.located.keys().isdisjoint(_storages([node])):
                continue
            if isinstance(node.target, HigherOrderOperator):
                node.meta[COUNTED] = True
            if node.target in SCATTERS:
                raise UnsupportedError(
                    f"the program asks where a result of {node.target} begins in its storage",
                    location=str(node_source(node) or ""), node=node.name,
                    hint="that is where its first operand begins in its own: ask that one",
                )  # fmt: skip

    def check_held(self, known: Sequence[torch.Tensor]) -> None:
        """Raise UnsupportedError where the program counts in the storage of a real tensor that is none of those `known`."""
        real = {storage for storage, kept in self.located.items() if kept.device.type != "meta"}
        if real - {_storage(tensor) for tensor in known}:
            raise UnsupportedError(
                "the program asks where a tensor that it holds by itself begins in its storage, and gives it to no operator",
                hint="pass the tensor as an argument, or the number",
            )

    # -- copies and views ------------------------------------------------------------------------

    def check(self, results: Sequence[torch.Tensor]) -> None:
        """Raise UnsupportedError where the program could tell a copy from the view that eager PyTorch has."""
        if not self._reads and not self.located:
            return
        assert self._graph is not None
        nodes = list(self._graph.nodes)
        if self.located:
            self._check_copies(nodes)
        if not self._reads:
            return
        position = {node: n for n, node in enumerate(nodes)}
        uses: dict[int, list[int]] = {}
        writes: dict[int, list[int]] = {}
        for n, node in enumerate(nodes):
            for storage in _storages(node.all_input_nodes):
                uses.setdefault(storage, []).append(n)
            for storage in _storages(_written(node)):
                writes.setdefault(storage, []).append(n)
        counted = set(self.located)
        for node in nodes:
            if isinstance(node.target, OpOverload) and counts_from_storage(node.target, node.args, node.kwargs):
                counted |= set(_storages(node.all_input_nodes))
        returned = {_storage(t) for t in results}
        for read in self._reads:
            made, copy, base = position[read.node], _storage(read.copy), _storage(read.base)
            start, end = (position[n] for n in read.back) if read.back else (len(nodes), len(nodes))
            last = max(uses.get(copy, [made]))
            own = writes.get(copy, [])
            keys = {_storage(i) for i in read.key if isinstance(i, torch.Tensor)} if read.back else set()
            moved = [n for n in writes.get(base, []) if made < n < last and not start < n <= end]
            moved += [n for key in keys for n in writes.get(key, []) if made < n <= start]  # assigned at another place
            seen = [n for n in uses.get(base, []) if own and min(own) < n <= start]
            written = moved or seen or any(n > start for n in own) or (own and not read.back)
            if copy in returned or copy in counted or written:
                raise UnsupportedError(
                    "a subscript or `narrow` by a 0-d tensor is a view at a place known only at run time, and the program "
                    + (
                        "returns it" if copy in returned
                        else "counts from the first byte of its storage" if copy in counted
                        else "writes through it, or writes its memory while it is in use"
                    ),
                    location=str(node_source(read.node) or ""), node=read.node.name,
                    hint="clone it where it is read; assign by subscript, as in x[i] = v, where it is written",
                )  # fmt: skip


def _caller(func: Any) -> FrameType:
    """The frame that called the function which a mode is told of; not one that calls what it is given, as trees do."""
    frame = sys._getframe(3)
    while frame.f_back is not None and (
        frame.f_code.co_name in _TELLING | {func.__name__} or frame.f_code.co_filename == pytree.__file__
    ):
        frame = frame.f_back
    return frame


def _key(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _is_traced(value: Any) -> bool:
    return isinstance(value, FakeTensor) and not is_functorch_wrapped_tensor(value)


def _is_dynamic(item: Any, kinds: Sequence[torch.dtype]) -> bool:
    """Whether a 0-d tensor has a number that is not known while tracing."""
    return _is_traced(item) and item.dim() == 0 and item.dtype in kinds and item.constant is None


def _copies(key: tuple[Any, ...]) -> bool:
    """Whether a subscript gives a copy in eager PyTorch too, as it has an index with dimensions."""
    return any(isinstance(item, torch.Tensor) and item.dim() for item in key)


def _by_number(base: Any, key: tuple[Any, ...]) -> bool:
    """Whether the subscript has a 0-d tensor for a number, and else only what `_gathered` understands."""
    if not _is_traced(base) or not any(_is_dynamic(item, _INDICES) for item in key):
        return False
    return all(
        item is None or item is Ellipsis or type(item) in (int, slice)
        or (isinstance(item, torch.Tensor) and item.dtype in _INDICES)
        for item in key
    ) and sum(item is Ellipsis for item in key) <= 1  # fmt: skip


def _gathered(base: torch.Tensor, key: tuple[Any, ...]) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """A view of `base` and the indices on its dimensions that mean `base[key]`.

    Eager PyTorch selects by the 0-d tensors first, so they must not take part in where the dimensions of other index
    tensors go: they are put next to the first of those.
    """
    consumed = sum(item is not None and item is not Ellipsis for item in key)
    items: list[Any] = []
    for item in key:
        items += [slice(None)] * (base.dim() - consumed) if item is Ellipsis else [item]
    plain = tuple(slice(None) if isinstance(item, torch.Tensor) else item for item in items)
    window = base if all(item == slice(None) for item in plain) else base[plain]
    indices: list[torch.Tensor | None] = [
        item.to(torch.int64) if isinstance(item, torch.Tensor) else None for item in items if type(item) is not int
    ]
    indices += [None] * (window.dim() - len(indices))
    spread = [n for n, i in enumerate(indices) if i is not None and i.dim()]
    if spread:
        numbers = [n for n, i in enumerate(indices) if i is not None and not i.dim()]
        rest = [n for n in range(len(indices)) if n not in numbers]
        order = [n for n in rest if n < spread[0]] + numbers + [n for n in rest if n >= spread[0]]
        window, indices = window.permute(order), [indices[n] for n in order]
    return window, indices


def _ranks(indices: Sequence[torch.Tensor | None]) -> bool:
    return any(i is not None and i.dim() for i in indices)


def _stored(value: Any, base: torch.Tensor, rank: int) -> torch.Tensor:
    """What an assignment stores: in the type of `base`, without leading dimensions of size one that are too many."""
    if not isinstance(value, torch.Tensor):
        return torch.full((), value, dtype=base.dtype)
    while value.dim() > rank and value.shape[0] == 1:
        value = value.squeeze(0)
    value = value.to(base.dtype)
    return value.clone() if _storage(value) == _storage(base) else value


def _narrowed(input: Any, dim: Any, start: Any, length: Any) -> tuple[Any, Any, Any, Any]:
    return input, dim, start, length


def _places(size: int, start: torch.Tensor, length: int) -> torch.Tensor:
    """The indices of the window of `length` elements that begins at `start`, or that far from the end."""
    first = start.to(torch.int64)
    return torch.where(first < 0, first + size, first) + torch.arange(length)


def _set_where(base: torch.Tensor, mask: torch.Tensor, value: Any) -> None:
    """`base[mask] = value` for a 0-d mask: all of `base` or nothing."""
    base.copy_(torch.where(mask, _stored(value, base, base.dim()), base))


# -- memory in the graph -------------------------------------------------------------------------


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _window(tensor: torch.Tensor) -> tuple[Any, ...]:
    return _storage(tensor), tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def _storages(nodes: Sequence[Any]) -> set[int]:
    values = pytree.tree_leaves([node.meta.get("val") for node in nodes])
    return {_storage(value) for value in values if isinstance(value, torch.Tensor)}


def _written(node: fx.Node) -> list[fx.Node]:
    """The operands that a node may write: those its schema names; all of them for what has no schema."""
    if node.op != "call_function":
        return []
    if not isinstance(node.target, OpOverload):
        return list(node.all_input_nodes) if isinstance(node.target, torch._ops.HigherOrderOperator) else []
    return list(_operands(node, node.target))


def _operands(node: fx.Node, target: OpOverload) -> Iterator[fx.Node]:
    for n, formal in enumerate(target._schema.arguments):
        if formal.alias_info is not None and formal.alias_info.is_write:
            actual = node.args[n] if n < len(node.args) else node.kwargs.get(formal.name)
            yield from (leaf for leaf in pytree.tree_leaves(actual) if isinstance(leaf, fx.Node))


class NodeSubscripts(Subscripts):
    """Rewrites the subscripts that one node of a graph makes; a read only where the caller keeps an eye on the copy.

    Attributes:
        copied: a read gave a copy, where eager gives a view.
    """

    def __init__(self, reads: bool) -> None:
        super().__init__(None)
        self._may_read = reads
        self.copied = False

    def _is_asked(self) -> bool:
        return True

    def _is_asked_by_library(self, func: Any) -> bool:
        return in_pytorch(_caller(func))

    def _recording(self) -> bool:
        return self._may_read

    def _get(self, base: torch.Tensor, key: tuple[Any, ...], *, is_view: bool) -> torch.Tensor:
        self.copied = self.copied or is_view
        return torch.ops.aten.index.Tensor(*_gathered(base, key))


__all__ = ["NodeSubscripts", "Subscripts"]
