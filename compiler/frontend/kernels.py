"""Calls of hand-written accelerator kernels: a higher-order operator that says which result lives in which operand.

A toolkit's operator is recognised by a reader: a function that gives a `KernelCall` for a call it knows and None for
any other, and becomes a `nki.call`. `nki` reads the kernel wrapper of the Neuron toolkits by the shape of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute

from compiler.errors import CompileError, UnsupportedError
from compiler.frontend.constants import attribute
from compiler.frontend.expansion import Expander
from compiler.frontend.forms import Handle
from compiler.frontend.steps import Expansion, Made, Slot, Step
from dialects.alias import Effects, ResultAlias, results
from dialects.arguments import Constant, Numbers, Operand, integer
from dialects.nki import CallOp, Stored, has_collectives, memory_of_kernel
from dialects.types import row_major


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel.

    Attributes:
        args: the kernel's arguments in order, tensors among scalars and containers.
        aliases: result -> position in `args` of the tensor that it is the new value of.
        backend_config: what the custom call is configured with, byte for byte.
        kernel_idx: the kernel's number in the toolkit's table.
        grid: instances per dimension.
        arg_names: names of the kernel's parameters.
        constant_args_key: where the toolkit keeps constant arguments.
        has_collectives: whether the kernel talks to other ranks; None: the configuration says it.
        settings: everything else that configures the kernel.
        configured: whether the kernel has been compiled, so that `aliases` is known.
        pure: the call gives new values for what it writes and leaves its arguments alone, as in an out-of-place graph.
    """

    args: tuple[Any, ...]
    aliases: Mapping[int, int]
    backend_config: str
    kernel_idx: int = 0
    grid: tuple[int, ...] = ()
    arg_names: tuple[str, ...] = ()
    constant_args_key: int = -1
    has_collectives: bool | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    configured: bool = True
    pure: bool = False


KernelReader = Callable[[Any, Sequence[Any], Mapping[str, Any]], KernelCall | None]


_READ = frozenset(
    {"args", "operand_output_aliases", "backend_config", "kernel_idx", "grid", "arg_names", "constant_args_key",
     "has_collectives"}
)  # fmt: skip


def nki(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> KernelCall | None:
    """A call of the NKI kernel wrapper, whichever toolkit's: all parameters are keywords."""
    if args or not {"kernel_idx", "backend_config", "operand_output_aliases", "args"} <= kwargs.keys():
        return None
    aliases = {int(result): int(position) for position, result in kwargs["operand_output_aliases"].items()}
    if len(aliases) < len(kwargs["operand_output_aliases"]):
        raise CompileError(f"two operands share one result in {kwargs['operand_output_aliases']}")
    return KernelCall(
        tuple(kwargs["args"]),
        aliases,
        kwargs["backend_config"],
        int(kwargs["kernel_idx"]),
        tuple(map(int, kwargs.get("grid") or ())),
        tuple(map(str, kwargs.get("arg_names") or ())),
        int(kwargs.get("constant_args_key", -1)),
        kwargs.get("has_collectives"),
        settings={name: value for name, value in kwargs.items() if name not in _READ},
        configured=bool(kwargs["backend_config"]) or bool(aliases),
    )


def on_values(reader: KernelReader) -> KernelReader:
    """Reads the same calls in an out-of-place graph, where each is a function of values."""

    def read(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> KernelCall | None:
        call = reader(target, args, kwargs)
        return replace(call, pure=True) if call is not None else None

    return read


READERS: tuple[KernelReader, ...] = (nki,)


def read_kernel(
    readers: Sequence[KernelReader], target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> KernelCall | None:
    """The call as the first reader that knows it sees it."""
    return next((call for reader in readers if (call := reader(target, args, kwargs)) is not None), None)


def expand_kernel(
    expander: Expander, target: Any, call: KernelCall, args: Any, kwargs: Any
) -> tuple[Expansion, list[Handle]]:
    """One call on handles that reads every tensor and writes those that a result is the new value of.

    A kernel that has not been compiled may do anything to the tensors it is given.
    """
    name = target.name()
    operands = list(tensors_of(call.args))
    outs, out = expander.results_of(target, args, kwargs)
    numbers = _operand_numbers(call.args)
    owner = {result: _owner(name, numbers, result, position) for result, position in call.aliases.items()}
    if max(owner, default=-1) >= len(outs):
        raise CompileError(f"the alias table of kernel {name} names result {max(owner)} of {len(outs)}")
    if len(set(owner.values())) < len(owner):
        raise CompileError(f"two results of kernel {name} are the new value of one operand")
    made: list[Made] = []
    for number, tensor in enumerate(outs):
        given = operands[owner[number]].form if number in owner else None
        shape = tuple(tensor.shape)
        if given is not None and (given.dtype, given.sizes) != (tensor.dtype, shape):
            raise CompileError(
                f"result {number} of kernel {name} is {tensor.dtype} {list(shape)}, but the operand it is the new value "
                f"of is {given.dtype} {list(given.sizes)}"
            )
        if given is not None and not call.pure:
            made.append(Made(given, owner[number], 0))
        else:
            fresh = expander.forms.get(tensor.dtype, shape, row_major(shape), 0, "")
            made.append(Made(fresh, -1, tensor.numel() * tensor.element_size()))
    count, overload = len(operands), f"higher_order.{name}"
    stored = () if call.pure else tuple((operand, result) for result, operand in owner.items())
    properties = _properties(overload, call) | memory_of_kernel(overload, count, len(outs), stored)
    written = tuple(sorted(operand for operand, _ in stored))
    if not call.configured:
        properties |= {"effects": Effects(None), "aliases": results([ResultAlias("may")] * len(outs))}
        written = tuple(range(count))
    step = Step(properties, tuple(range(count)), tuple(made), written, CallOp)
    tree = pytree.tree_structure(out)
    return Expansion((step,), pytree.tree_unflatten([Slot(count + n) for n in range(len(outs))], tree), ()), operands


def tensors_of(value: Any) -> Iterator[Handle]:
    """The tensors among a kernel's arguments, in the order of its operands."""
    if isinstance(value, Handle):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)


def _operand_numbers(args: Sequence[Any]) -> dict[int, int]:
    """Position among the arguments -> operand number, for arguments that are tensors themselves."""
    numbers: dict[int, int] = {}
    count = 0
    for position, value in enumerate(args):
        if isinstance(value, Handle):
            numbers[position] = count
        count += sum(1 for _ in tensors_of(value))
    return numbers


def _owner(name: str, numbers: dict[int, int], result: int, position: int) -> int:
    if position not in numbers:
        raise CompileError(
            f"the alias table of kernel {name} says that result {result} lives in argument {position}, which is no tensor",
            hint="positions count all arguments of the kernel, scalars included",
        )
    return numbers[position]


def _properties(target: str, call: KernelCall) -> dict[str, Attribute]:
    """The call in the IR; an argument that has no form there is named by its type."""
    count = 0

    def form(value: Any) -> Attribute:
        nonlocal count
        if isinstance(value, Handle):
            count += 1
            return Operand(count - 1)
        if isinstance(value, (list, tuple)):
            return ArrayAttr([form(item) for item in value])
        try:
            return attribute(value)
        except UnsupportedError:
            return Constant(f"object:{type(value).__qualname__}")

    properties: dict[str, Attribute] = {
        "target": StringAttr(target),
        "arguments": form(call.args),
        "kernel_idx": integer(call.kernel_idx),
        "grid": Numbers(call.grid),
        "backend_config": StringAttr(call.backend_config),
        "operand_output_aliases": Stored(
            tuple(sorted((position, result) for result, position in call.aliases.items()))
        ),
        "constant_args_key": integer(call.constant_args_key),
    }
    if call.arg_names:
        properties["arg_names"] = ArrayAttr([StringAttr(n) for n in call.arg_names])
    if call.settings:
        properties["keywords"] = DictionaryAttr({n: form(v) for n, v in call.settings.items()})
    talks = call.has_collectives
    if has_collectives(call.backend_config) if talks is None else talks:
        properties["has_collectives"] = UnitAttr()
    return properties


__all__ = ["READERS", "KernelCall", "KernelReader", "expand_kernel", "nki", "on_values", "read_kernel", "tensors_of"]
