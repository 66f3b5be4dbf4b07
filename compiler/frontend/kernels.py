"""Calls of hand-written accelerator kernels: a higher-order operator that says which result lives in which operand.

A toolkit's operator is recognised by a reader: a function that gives a `KernelCall` for a call it knows and None for
any other. `nki` reads the kernel wrapper of the Neuron toolkits by the shape of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute

from compiler.errors import CompileError, UnsupportedError
from compiler.frontend.constants import attribute
from compiler.frontend.expansion import Expander
from compiler.frontend.forms import Handle, element_of
from compiler.frontend.recording import Expansion, Made, Slot, Step
from dialects.alias import ResultAlias, effects, results
from dialects.fx import Constant, Operand, ValueForm, ValueFormData, ValueOutput
from dialects.types import ELEMENTS, row_major


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel.

    Attributes:
        args: the kernel's arguments in order, tensors among scalars and containers.
        aliases: result -> position in `args` of the tensor that it is the new value of.
        settings: everything else that names and configures the kernel.
        configured: whether the kernel has been compiled, so that `aliases` is known.
        pure: the call gives new values for what it writes and leaves its arguments alone, as in an out-of-place graph.
    """

    args: tuple[Any, ...]
    aliases: Mapping[int, int]
    settings: Mapping[str, Any]
    configured: bool = True
    pure: bool = False


KernelReader = Callable[[Any, Sequence[Any], Mapping[str, Any]], KernelCall | None]


def nki(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> KernelCall | None:
    """A call of the NKI kernel wrapper, whichever toolkit's: all parameters are keywords."""
    if args or not {"kernel_idx", "backend_config", "operand_output_aliases", "args"} <= kwargs.keys():
        return None
    aliases = {int(result): int(position) for position, result in kwargs["operand_output_aliases"].items()}
    if len(aliases) < len(kwargs["operand_output_aliases"]):
        raise CompileError(f"two operands share one result in {kwargs['operand_output_aliases']}")
    settings = {name: value for name, value in kwargs.items() if name not in ("args", "operand_output_aliases")}
    return KernelCall(tuple(kwargs["args"]), aliases, settings, bool(kwargs["backend_config"]) or bool(aliases))


def nki_values(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> KernelCall | None:
    """The same in an out-of-place graph, where a call is a function of values."""
    call = nki(target, args, kwargs)
    return replace(call, pure=True) if call is not None else None


READERS: tuple[KernelReader, ...] = (nki,)


def read_kernel(
    readers: Sequence[KernelReader], target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> KernelCall | None:
    """The call as the first reader that knows it sees it."""
    return next((call for reader in readers if (call := reader(target, args, kwargs)) is not None), None)


def expand_kernel(
    expander: Expander, target: Any, call: KernelCall, args: Any, kwargs: Any
) -> tuple[Expansion, list[Handle]]:
    """One call on handles that reads every tensor and writes those that a result is the new value of."""
    name = target.name()
    if not call.configured:
        raise UnsupportedError(
            f"kernel {name} has no configuration yet, so what it writes is unknown",
            hint="run the kernel configuration pass first, with a kernel compiler",
        )
    operands = list(_handles(call.args))
    outs, out = expander.results_of(target, args, kwargs)
    numbers = _operand_numbers(call.args)
    owner = {result: _owner(name, numbers, result, position) for result, position in call.aliases.items()}
    made: list[Made] = []
    entries: list[ResultAlias] = []
    outputs: list[ValueOutput] = []
    for number, tensor in enumerate(outs):
        operand = owner.pop(number, None)
        shape = tuple(tensor.shape)
        if operand is None:
            form = expander.forms.get(tensor.dtype, shape, row_major(shape), 0, "")
            made.append(Made(form, -1, tensor.numel() * ELEMENTS[element_of(tensor.dtype)][1]))
            entries.append(ResultAlias("fresh"))
            outputs.append(ValueOutput("result", number))
            continue
        form = operands[operand].form
        if call.pure:
            form = expander.forms.get(form.dtype, form.sizes, row_major(form.sizes), 0, "")
        if (form.dtype, form.sizes) != (tensor.dtype, shape):
            raise CompileError(
                f"result {number} of kernel {name} is {tensor.dtype} {list(shape)}, but the operand it is the new value "
                f"of is {form.dtype} {list(form.sizes)}"
            )
        if call.pure:
            made.append(Made(form, -1, tensor.numel() * tensor.element_size()))
            entries.append(ResultAlias("fresh"))
            continue
        made.append(Made(form, operand, 0))
        entries.append(ResultAlias("same", operand))
        outputs.append(ValueOutput("write", operand))
    if owner:
        raise CompileError(f"the alias table of kernel {name} names result {min(owner)} of {len(outs)}")
    written = sorted(o.index for o in outputs if o.kind == "write")
    if len(set(written)) < len(written):
        raise CompileError(f"two results of kernel {name} are the new value of one operand")
    overload = f"higher_order.{name}"
    properties: dict[str, Attribute] = {
        "target": StringAttr(overload),
        "arguments": ArrayAttr([]),
        "keywords": DictionaryAttr(_keywords(call)),
        "effects": effects(range(len(operands)), written),
        "aliases": results(entries),
    }
    if written:
        properties["value"] = ValueForm(ValueFormData(overload, tuple(outputs)))
    step = Step(properties, tuple(range(len(operands))), tuple(m.form.type for m in made), tuple(made), tuple(written))
    tree = pytree.tree_structure(out)
    slots = [Slot(len(operands) + n) for n in range(len(outs))]
    return Expansion((step,), pytree.tree_unflatten(slots, tree), ()), operands


def _handles(value: Any) -> Iterator[Handle]:
    if isinstance(value, Handle):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _handles(item)


def _operand_numbers(args: Sequence[Any]) -> dict[int, int]:
    """Position among the arguments -> operand number, for arguments that are tensors themselves."""
    numbers: dict[int, int] = {}
    count = 0
    for position, value in enumerate(args):
        if isinstance(value, Handle):
            numbers[position] = count
        count += sum(1 for _ in _handles(value))
    return numbers


def _owner(name: str, numbers: dict[int, int], result: int, position: int) -> int:
    if position not in numbers:
        raise CompileError(
            f"the alias table of kernel {name} says that result {result} lives in argument {position}, which is no tensor",
            hint="positions count all arguments of the kernel, scalars included",
        )
    return numbers[position]


def _keywords(call: KernelCall) -> dict[str, Attribute]:
    """The call's arguments in the IR, keyword by keyword; what has no form there is named by its type."""
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

    operands = form(call.args)
    pairs = [[result, position] for result, position in sorted(call.aliases.items())]
    return {"args": operands, "result_positions": attribute(pairs), **{n: form(v) for n, v in call.settings.items()}}


def is_kernel(target: str) -> bool:
    """Whether a call of the IR is a kernel's."""
    return target.startswith("higher_order.")


__all__ = ["READERS", "KernelCall", "KernelReader", "expand_kernel", "is_kernel", "nki", "nki_values", "read_kernel"]
