"""StableHLO to the bytes of an HLO module that an older XLA reads as meant, with every alias a must-alias.

jaxlib writes ids above 2**31, collective groups in a field that older readers skip, and layouts that are not row-major
after a transpose. These are repaired; the result is then loaded again and compared with what was converted. Alias
tables are checked here, before anything compiles them: XLA accepts some wrong ones and aborts the process on others.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from jaxlib import _hlo, _jax  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, stablehlo
from jaxlib.mlir.passmanager import PassManager

from compiler.errors import CompileError
from compiler.export.hlo_schema import MUST_ALIAS, PRIMITIVE_TYPES, TOKEN, TUPLE, Module
from compiler.export.signature import Alias, TensorType, check_aliases

PASSES = "builtin.module(func.func(chlo-legalize-to-stablehlo),inline,symbol-dce,canonicalize)"
"""Calls stay calls and dead functions stay computations unless they go before the conversion."""

NAME_ATTRIBUTES = ("neff_input_names", "neff_output_names")


class Interface(NamedTuple):
    """What an HLO module takes and gives."""

    parameters: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    aliases: tuple[Alias, ...]


def to_hlo(module: ir.Module, input_names: Sequence[str] = (), output_names: Sequence[str] = ()) -> bytes:
    """The serialised HloModuleProto of a StableHLO module with function `main`. The module itself is left as it is.

    Names, when given, are one per parameter or result and are recorded where the Neuron tools look for them.
    """
    with module.context as context:
        mhlo.register_mhlo_dialect(context)
        chlo.register_dialect(context)
        copy = ir.Module.parse(_bytecode(module))
        _check_main(copy)
        stablehlo.register_stablehlo_passes()
        try:
            PassManager.parse(PASSES).run(copy.operation)
            data = _bytecode(copy)
            computation = _jax.mlir.mlir_module_to_xla_computation(data, use_tuple_args=False, return_tuple=False)
        except (ir.MLIRError, RuntimeError, ValueError) as error:
            raise CompileError(f"StableHLO cannot be converted to HLO: {_first_line(error)}") from error
    converted = computation.as_serialized_hlo_module_proto()
    finished = finish(converted, input_names, output_names)
    verify(converted, finished)
    return finished


def hlo_text(data: bytes) -> str:
    """HLO text of a serialised module."""
    return _load(data).to_string()


def interface(data: bytes) -> Interface:
    """Parameters, results and alias table of a serialised module, which need not be a correct one."""
    module = _parse(data)
    parameters = tuple(_tensor_type(s, f"parameter {n}") for n, s in enumerate(module.host_program_shape.parameters))
    results = tuple(_tensor_type(s, f"result {n}") for n, s in enumerate(_results(module)))
    tupled = module.host_program_shape.result.element_type == TUPLE
    aliases: list[Alias] = []
    for entry in module.input_output_alias.entries:
        index = list(entry.output_shape_index)
        if entry.parameter_shape_index or len(index) != int(tupled):
            raise CompileError(f"alias table: parameter {entry.parameter_number} or output {index} is part of a tuple")
        aliases.append(Alias(index[0] if tupled else 0, entry.parameter_number))
    return Interface(parameters, results, tuple(sorted(aliases)))


def finish(data: bytes, input_names: Sequence[str] = (), output_names: Sequence[str] = ()) -> bytes:
    """The repaired bytes of a serialised module; a module that needs no repair comes back equal."""
    module = _parse(data)
    if module.buffer_donor:
        raise CompileError("a buffer donor names no output", hint="alias the parameter with an output")
    check_aliases(*_alias_arguments(data))
    for entry in module.input_output_alias.entries:
        entry.kind = MUST_ALIAS
    _renumber(module)
    _use_row_major_layouts(module)
    _list_replica_groups(module)
    _name_tensors(module, input_names, output_names)
    return module.SerializeToString(deterministic=True)


def verify(original: bytes, finished: bytes) -> None:
    """Raise CompileError unless `finished` loads, is well formed, and says the same as `original`."""
    _check_ids(_parse(finished))
    if _body_text(original) != _body_text(finished):
        raise CompileError("the repaired HLO module differs from the one that was converted")
    check_shapes(finished)


def check_shapes(data: bytes) -> bytes:
    """StableHLO bytecode of a serialised module, after the StableHLO verifier has passed it.

    Loading an HLO module checks ids and operands only; shapes are checked on this way back.
    """
    try:
        bytecode = _jax.mlir.hlo_to_stablehlo(data)
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)
        with ir.Context() as context:
            context.append_dialect_registry(registry)
            context.load_all_available_dialects()
            stablehlo.register_dialect(context)
            mhlo.register_mhlo_dialect(context)
            ir.Module.parse(bytecode)
    except (ir.MLIRError, RuntimeError, ValueError) as error:
        raise CompileError(f"the HLO module is malformed: {_first_line(error)}") from error
    return bytecode


# -- StableHLO side ------------------------------------------------------------------------------


def _bytecode(module: ir.Module) -> bytes:
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _check_main(module: ir.Module) -> None:
    """The function `main` exists, is static, and its alias table is one that XLA honours."""
    main = next((op for op in module.body.operations if _symbol(op) == "main"), None)
    if main is None:
        raise CompileError("the StableHLO module has no function `main`")
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    inputs, results = list(kind.inputs), list(kind.results)
    for side, types in (("parameter", inputs), ("result", results)):
        for number, type_ in enumerate(types):
            shaped = ir.RankedTensorType(type_)
            for dimension in range(shaped.rank):
                if shaped.is_dynamic_dim(dimension):
                    raise CompileError(
                        f"{side} {number} is {type_}: dimension {dimension} is not static",
                        hint="HLO needs static shapes; compile for one size of it",
                    )
    entries: list[tuple[int, int]] = []
    if "mhlo.input_output_alias" in module.operation.attributes:
        for item in ir.ArrayAttr(module.operation.attributes["mhlo.input_output_alias"]):
            entry = ir.DictAttr(item)
            parameter = ir.IntegerAttr(ir.DictAttr(entry["alias"])["parameter_number"]).value
            index = list(ir.DenseI64ArrayAttr(entry["output_index"]))
            if len(index) != int(len(results) != 1):
                raise CompileError(f"alias table: {index} is not the index of an output")
            entries.append((index[0] if index else 0, parameter))
    check_aliases(entries, inputs, results)


def _symbol(operation: Any) -> str:
    attributes = operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else ""


# -- proto side ----------------------------------------------------------------------------------


def _parse(data: bytes) -> Any:
    try:
        module = Module.FromString(data)
    except DecodeError as error:
        raise CompileError("these bytes are not an HLO module") from error
    if not module.computations:
        raise CompileError("these bytes are not an HLO module: no computation in them")
    return module


def _load(data: bytes) -> Any:
    try:
        return _hlo.HloModule.from_serialized_hlo_module_proto(data)
    except (RuntimeError, ValueError) as error:
        raise CompileError(f"the HLO module cannot be loaded: {_first_line(error)}") from error


def _results(module: Any) -> list[Any]:
    result = module.host_program_shape.result
    return list(result.tuple_shapes) if result.element_type == TUPLE else [result]


def _tensor_type(shape: Any, where: str) -> TensorType:
    if shape.element_type not in PRIMITIVE_TYPES or any(shape.is_dynamic_dimension):
        raise CompileError(f"{where} of the HLO module has a type that tensors do not have")
    return TensorType(PRIMITIVE_TYPES[shape.element_type], tuple(shape.dimensions))


def _alias_arguments(data: bytes) -> tuple[tuple[Alias, ...], tuple[TensorType, ...], tuple[TensorType, ...]]:
    parts = interface(data)
    return parts.aliases, parts.parameters, parts.results


def _renumber(module: Any) -> None:
    """Number computations, and instructions over the whole module, from 1."""
    computations = {c.id: n for n, c in enumerate(module.computations, 1)}
    first = 1
    for computation in module.computations:
        ids = {i.id: n for n, i in enumerate(computation.instructions, first)}
        first += len(ids)
        for instruction in computation.instructions:
            instruction.id = ids[instruction.id]
            instruction.operand_ids[:] = [ids[i] for i in instruction.operand_ids]
            instruction.control_predecessor_ids[:] = [ids[i] for i in instruction.control_predecessor_ids]
            instruction.called_computation_ids[:] = [computations[i] for i in instruction.called_computation_ids]
        computation.root_id = ids[computation.root_id]
        computation.id = computations[computation.id]
    module.entry_computation_id = computations[module.entry_computation_id]
    module.ClearField("id")  # counts the modules of this process
    module.ClearField("schedule")  # it speaks of the old ids, and is optional before compilation


def _arrays(shape: Any) -> Iterator[Any]:
    """The array shapes inside a shape, in index order."""
    if shape.element_type == TUPLE:
        for part in shape.tuple_shapes:
            yield from _arrays(part)
    elif shape.element_type != TOKEN:
        yield shape


def _use_row_major_layouts(module: Any) -> None:
    """Make every layout row-major. Before layout assignment only `bitcast` gives a layout a meaning."""
    shapes = [module.host_program_shape.result, *module.host_program_shape.parameters]
    for computation in module.computations:
        shapes += [computation.program_shape.result, *computation.program_shape.parameters]
        for instruction in computation.instructions:
            if instruction.opcode == "bitcast":
                raise CompileError(f"HLO instruction {instruction.name}: the meaning of a bitcast depends on layouts")
            shapes.append(instruction.shape)
    for shape in shapes:
        for array in _arrays(shape):
            array.layout.minor_to_major[:] = range(len(array.dimensions) - 1, -1, -1)


def _list_replica_groups(module: Any) -> None:
    """Move listed groups to field 49, which every reader knows: a reader that finds none there uses all replicas."""
    for computation in module.computations:
        for instruction in computation.instructions:
            devices = instruction.collective_device_list
            if instruction.iota_groups or instruction.mesh_groups or devices.iota_replica_group_list:
                raise CompileError(
                    f"HLO instruction {instruction.name}: replica groups in a compact form are not read everywhere",
                    hint="list the replica groups one by one",
                )
            if devices.replica_groups:
                instruction.ClearField("replica_groups")
                for group in devices.replica_groups:
                    instruction.replica_groups.add(replica_ids=group.replica_ids)
            instruction.ClearField("collective_device_list")


def _name_tensors(module: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    counts = (("input", inputs, module.host_program_shape.parameters), ("output", outputs, _results(module)))
    for side, names, there in counts:
        if names and len(names) != len(there):
            raise CompileError(f"{len(names)} {side} names for {len(there)} {side}s of the HLO module")
    entry = next(c for c in module.computations if c.id == module.entry_computation_id)
    for instruction in entry.instructions:
        if inputs and instruction.opcode == "parameter":
            instruction.frontend_attributes.map[NAME_ATTRIBUTES[0]] = inputs[instruction.parameter_number]
        if outputs and instruction.id == entry.root_id:
            instruction.frontend_attributes.map[NAME_ATTRIBUTES[1]] = ",".join(outputs)


# -- comparison ----------------------------------------------------------------------------------


def _check_ids(module: Any) -> None:
    """Ids fit 32 bits, are unique, and every reference is to something defined earlier."""
    computations: set[int] = set()
    instructions: set[int] = set()

    def require(condition: bool, what: str) -> None:
        if not condition:
            raise CompileError(f"the repaired HLO module is malformed: {what}")

    for computation in module.computations:
        local: set[int] = set()
        for instruction in computation.instructions:
            number = instruction.id
            require(0 < number < 2**31 and number not in instructions, f"id of {instruction.name}")
            require(local.issuperset(instruction.operand_ids), f"operands of {instruction.name}")
            require(computations.issuperset(instruction.called_computation_ids), f"calls of {instruction.name}")
            local.add(number)
            instructions.add(number)
        require(computation.root_id in local, f"root of {computation.name}")
        require(0 < computation.id < 2**31 and computation.id not in computations, f"id of {computation.name}")
        computations.add(computation.id)
    require(module.entry_computation_id in computations, "entry computation")


def _body_text(data: bytes) -> str:
    """HLO text without the header, the layouts and the tensor names; computations sorted, since XLA prints those that
    nothing orders by their ids."""
    module = _parse(data)
    for computation in module.computations:
        for instruction in computation.instructions:
            for key in NAME_ATTRIBUTES:
                instruction.frontend_attributes.map.pop(key, None)
    options = _hlo.HloPrintOptions.short_parsable()
    options.include_layout_in_shapes = False
    body = _load(module.SerializeToString()).to_string(options).split("\n", 1)[1]
    return "\n\n".join(sorted(body.strip().split("\n\n")))


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
