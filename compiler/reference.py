"""Both forms of the IR executed by eager PyTorch, op by op: what every other way of running a program must agree with.

`run_handles` runs a program over handles on real tensors, which it mutates as the program says. `run_values` runs a
purified function: it reads the parameters out of the arguments' memory, computes with fresh tensors only, writes the
aliased results back, and rebuilds the outputs from the plan. Neither shares code with the lowering or the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from compiler.errors import CompileError, ValidationError
from compiler.locations import source_of
from compiler.torch_types import DTYPES, overload, python_argument
from dialects.alias import Binding, Bindings, OutputSource, Plan, Table
from dialects.calls import HandleCall, OperatorCall, ValueCall
from dialects.control import CondOp, ValueCondOp, ValueWhileOp, WhileOp, YieldOp
from dialects.fx import ConstantOp, EmptyOp, ExtractOp, InsertOp, ReinterpretOp
from dialects.types import Geometry, element_name, geometry

Tensors = list[torch.Tensor]
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""A dtype of each width that PyTorch can index: moves are made on it, so that they keep every bit."""


def entry(module: ModuleOp) -> FuncOp:
    """The function `@main`."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise CompileError("the module has no function @main")


Watch = Callable[[Operation, Sequence[Any]], Callable[[Sequence[torch.Tensor]], None]]
"""Told of an op and its operands before the op runs; what it returns is told of the results."""


def run_handles(module: ModuleOp, arguments: Sequence[torch.Tensor], watch: Watch | None = None) -> Tensors:
    """Run a program over handles; arguments are mutated in place, results alias as eager PyTorch's do."""
    with torch.no_grad():
        return _run_block(entry(module).body.block, arguments, watch)


def _run_block(block: Block, arguments: Sequence[Any], watch: Watch | None = None) -> Tensors:
    """What a block over handles returns or yields; `watch` is told of its own ops, not of those in regions."""
    values: dict[SSAValue, Any] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[v] for v in op.operands]
        if isinstance(op, HandleCall):
            done = watch(op, operands) if watch is not None else None
            memory = [(n, t.untyped_storage()) for n, t in enumerate(operands) if isinstance(t, torch.Tensor)]
            sizes = [storage.nbytes() for _, storage in memory]
            results = _flat(_call(op, operands), op.outs)
            for (n, storage), size in zip(memory, sizes, strict=True):
                if storage.nbytes() < size:
                    raise _shrunk(op, n, storage.nbytes())
            if done is not None:
                done(results)
            for value, alias, result in zip(op.outs, op.aliases.data, results, strict=True):
                values[value] = operands[alias.operand] if alias.kind == "same" else result
        elif isinstance(op, ConstantOp):
            values[op.value] = constant_tensor(op)
        elif isinstance(op, CondOp | WhileOp):
            results = _branch(op, operands) if isinstance(op, CondOp) else _loop(op, operands)
            values.update((value, _fresh(value, result)) for value, result in zip(op.outs, results, strict=True))
        elif isinstance(op, ReturnOp | YieldOp):
            return operands
        else:
            raise CompileError(f"{op.name} cannot be run in eager PyTorch")
    raise CompileError("a block has no terminator")


def _shrunk(op: HandleCall, operand: int, size: int) -> ValidationError:
    """Other handles still point there, and PyTorch reads through them what is no memory of the process any more."""
    location, node = source_of(op)
    return ValidationError(
        f"{op.target.data} shrinks the storage of operand {operand} to {size} bytes, which no schema can declare",
        pass_name="import",
        location=location,
        node=node,
        hint="leave storages as large as they are; the compiler frees what is not used any more",
    )


def _branch(op: CondOp, operands: Sequence[Any]) -> Tensors:
    return _run_block((op.then if operands[0].item() else op.otherwise).block, operands[1:])


def _loop(op: WhileOp, operands: Sequence[Any]) -> Tensors:
    carried, captures = list(operands[: len(op.carried)]), operands[len(op.carried) :]
    places = op.condition.block.args[: len(carried)]
    while True:
        carried = [_fresh(place, value) for place, value in zip(places, carried, strict=True)]
        if not _run_block(op.condition.block, [*carried, *captures])[0].item():
            return carried
        carried = _run_block(op.body.block, [*carried, *captures])


def _fresh(place: SSAValue, value: torch.Tensor) -> torch.Tensor:
    """Memory of its own, in the layout that the handle's type says."""
    window = geometry(cast("MemRefType[Attribute]", place.type))
    if 0 in window.strides:  # elements that share memory have one value: they may as well not share it
        return value.clone()
    return torch.empty_strided(window.sizes, window.strides, dtype=value.dtype).copy_(value)


def run_values(
    module: ModuleOp,
    arguments: Sequence[torch.Tensor],
    run: Callable[[FuncOp, Tensors], Tensors] | None = None,
) -> Tensors:
    """Run a purified function on the original arguments: written ones are updated, outputs follow the plan.

    `run` computes the body; without it PyTorch does, op by op.
    """
    function = entry(module)
    bindings = cast(Bindings, function.attributes["alias.bindings"]).data
    types = [cast("TensorType[Attribute]", a.type) for a in function.body.block.args]
    bound: dict[int, list[int]] = {}
    for number, binding in enumerate(bindings):
        bound.setdefault(binding.parameter, []).append(number)
    parameters = [_parameter(number, kind, bound, bindings, arguments) for number, kind in enumerate(types)]
    with torch.no_grad():
        results = (run or compute)(function, [p.clone() for p in parameters])
        for output, parameter in cast(Table, function.attributes["alias.table"]).data:
            parameters[parameter].copy_(results[output])
            for number in bound[parameter]:
                torch.autograd.graph.increment_version(arguments[number])
        outputs: Tensors = []
        for source in cast(Plan, function.attributes["alias.plan"]).data:
            outputs.append(_rebuild(source, outputs, results, bindings, arguments))
    return outputs


def compute(function: FuncOp, parameters: Sequence[torch.Tensor], watch: Watch | None = None) -> Tensors:
    """Run the body of a purified function as a pure function of its parameters."""
    with torch.no_grad():
        return _compute_block(function.body.block, parameters, watch)


def _compute_block(block: Block, arguments: Sequence[torch.Tensor], watch: Watch | None = None) -> Tensors:
    """What a block over values returns or yields."""
    values: dict[SSAValue, torch.Tensor] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        if isinstance(op, ReturnOp | YieldOp):
            return [values[v] for v in op.operands]
        operands = [values[v] for v in op.operands]
        done = watch(op, operands) if watch is not None else None
        results = _compute_op(op, operands)
        if done is not None:
            done(results)
        for value, result in zip(op.results, results, strict=True):
            if tuple(result.shape) != _kind(value).get_shape():
                raise CompileError(f"{op.name} gives shape {tuple(result.shape)}, its type says {value.type}")
            values[value] = result.to(_dtype(value))
    raise CompileError("a block has no terminator")


def _kind(value: SSAValue) -> TensorType[Attribute]:
    return cast("TensorType[Attribute]", value.type)


def _dtype(value: SSAValue) -> torch.dtype:
    return DTYPES[element_name(_kind(value).element_type)]


def _empty(value: SSAValue) -> bool:
    return 0 in _kind(value).get_shape()


def _compute_op(op: Operation, operands: Tensors) -> Tensors:
    match op:
        case ValueCall() if op.results and all(_empty(value) for value in op.results):
            # There is one such value, also where PyTorch has no kernel for the elements that there are none of.
            return [torch.zeros(_kind(v).get_shape(), dtype=_dtype(v)) for v in op.results]
        case ValueCall():
            written, overwritten = op.writes.writes() if op.writes is not None else (), op.overwritten
            operands = [t.clone() if n in overwritten else t for n, t in enumerate(operands)]
            own = len(op.outs) - len(written or ())
            results = _flat(_call(op, operands), op.outs[:own])
            return [r.resolve_conj().resolve_neg() for r in results] + [operands[n] for n in written or ()]
        case ExtractOp():
            return [_window(operands[0].reshape(-1), "", op.window.data).clone()]
        case InsertOp():
            shape = _kind(op.result).get_shape()
            base = operands[1].clone() if len(operands) > 1 else torch.zeros(shape, dtype=operands[0].dtype)
            base, window = base.contiguous(), op.window.data
            # By position, because a window may meet one element several times, always with the same value then.
            places = torch.arange(base.numel()).as_strided(window.sizes, window.strides, window.offset)
            bits = BITS[base.element_size()]
            base.view(-1).view(bits)[places.reshape(-1)] = operands[0].contiguous().view(-1).view(bits)
            return [base]
        case ReinterpretOp():
            if not operands[0].numel():
                return [torch.empty(_kind(op.result).get_shape(), dtype=_dtype(op.result))]
            return [operands[0].contiguous().view(_dtype(op.result)).clone()]
        case EmptyOp():
            return [torch.zeros(_kind(op.value).get_shape(), dtype=_dtype(op.value))]
        case ConstantOp():
            return [constant_tensor(op)]
        case ValueCondOp():
            return _compute_block((op.then if operands[0].item() else op.otherwise).block, operands[1:])
        case ValueWhileOp():
            carried, captures = operands[: len(op.carried)], operands[len(op.carried) :]
            while _compute_block(op.condition.block, [*carried, *captures])[0].item():
                carried = _compute_block(op.body.block, [*carried, *captures])
            return carried
        case _:
            raise CompileError(f"{op.name} cannot be run in eager PyTorch")


def _call(op: OperatorCall, operands: Sequence[Any]) -> Any:
    arguments, keywords = op.in_pytorch()
    named = {name: python_argument(value, operands) for name, value in keywords.items()}
    return overload(op.target.data)(*(python_argument(a, operands) for a in arguments), **named)


def _flat(results: Any, places: Sequence[SSAValue]) -> Tensors:
    """The tensors an operator gave, lists flattened; an operator that returns nothing gives none."""
    if isinstance(results, torch.Tensor):
        return [results]
    flat = [r for part in results or () for r in (part if isinstance(part, list | tuple) else [part])]
    tensors = [r for r in flat if isinstance(r, torch.Tensor)][: len(places)]
    if (
        len(tensors) < len(places) <= len(flat)
    ):  # outside of training some kernels leave results out that fake ones give
        return [_none(place) if r is None else r for r, place in zip(flat, places, strict=False)]
    return tensors


def _none(place: SSAValue) -> torch.Tensor:
    kind = cast(MemRefType[Attribute] | TensorType[Attribute], place.type)
    return torch.zeros(kind.get_shape(), dtype=DTYPES[element_name(kind.element_type)])


def constant_tensor(op: ConstantOp) -> torch.Tensor:
    kind = cast(MemRefType[Attribute] | TensorType[Attribute], op.value.type)
    dtype = DTYPES[element_name(kind.element_type)]
    data = (
        torch.frombuffer(bytearray(op.data.data.data), dtype=dtype)
        if op.data.data.data
        else torch.empty(0, dtype=dtype)
    )
    sizes = kind.get_shape()
    if data.numel() == 1 != math.prod(sizes):
        data = data.expand(math.prod(sizes)).clone()
    dense = data.reshape(sizes)
    if isinstance(kind, MemRefType):
        window = geometry(kind)
        memory = torch.empty_strided(window.sizes, window.strides, dtype=dtype)
        return memory.copy_(dense)
    return dense


def _parameter(
    number: int,
    kind: TensorType[Attribute],
    bound: dict[int, list[int]],
    bindings: Sequence[Binding],
    arguments: Sequence[torch.Tensor],
) -> torch.Tensor:
    """The memory of one parameter, through the first argument bound to it."""
    if number not in bound:
        raise CompileError(f"no argument is bound to parameter {number}")
    dtype = DTYPES[element_name(kind.element_type)]
    binding, argument = bindings[bound[number][0]], arguments[bound[number][0]]
    start = (argument.storage_offset() - binding.geometry.offset) * argument.element_size()
    count = math.prod(kind.get_shape()) * dtype.itemsize
    raw = torch.empty(0, dtype=torch.uint8).set_(argument.untyped_storage())
    return raw[start : start + count].view(dtype).view(kind.get_shape())


def _resolved(argument: torch.Tensor) -> torch.Tensor:
    """The argument without lazy bits, on the same memory."""
    if argument.is_conj():
        argument = argument.conj()
    return torch._neg_view(argument) if argument.is_neg() else argument


def _window(flat: torch.Tensor, element: str, window: Geometry) -> torch.Tensor:
    """A window on a flat tensor, as another element type when `element` is given."""
    flat = flat.contiguous()
    if element:
        # Memory may end in the middle of a wider element, which the window does not meet.
        dtype = DTYPES[element]
        whole = flat.numel() * flat.element_size() // dtype.itemsize * dtype.itemsize // flat.element_size()
        typed = flat[:whole].view(dtype)
    else:
        typed = flat
    return typed.as_strided(window.sizes, window.strides, window.offset + typed.storage_offset())


def _rebuild(
    source: OutputSource,
    outputs: Tensors,
    results: Tensors,
    bindings: Sequence[Binding],
    arguments: Sequence[torch.Tensor],
) -> torch.Tensor:
    match source.kind:
        case "argument":
            return arguments[source.index]
        case "output":
            return outputs[source.index]
        case "argument_view":
            argument, binding = _resolved(arguments[source.index]), bindings[source.index]
            start = (argument.storage_offset() - binding.geometry.offset) * argument.element_size()
            dtype = DTYPES[source.element]
            view = torch.empty(0, dtype=dtype).set_(
                argument.untyped_storage(), int(start) // dtype.itemsize + source.geometry.offset,
                source.geometry.sizes, source.geometry.strides,
            )  # fmt: skip
            return _lazy(view, source.lazy)
        case "result":
            results[source.index] = results[source.index].contiguous()
            return _lazy(_window(results[source.index].reshape(-1), source.element, source.geometry), source.lazy)


def _lazy(view: torch.Tensor, bits: str) -> torch.Tensor:
    view = view.conj() if "conj" in bits else view
    return torch._neg_view(view) if "neg" in bits else view
