"""The last touches for the Neuron compiler: computed outputs, and source lines where an older reader looks for them."""

from __future__ import annotations

from typing import Any

from compiler.export.hlo_schema import Module


def finish_for_neuron(data: bytes) -> bytes:
    """A serialised module in which

    * a `copy` stands in front of each output that is a parameter without an alias to it;
    * every instruction has its source line in its own metadata, not in the module's table of stack frames.
    """
    module = Module.FromString(data)
    _write_source_lines(module)
    _copy_passed_through(module)
    return module.SerializeToString(deterministic=True)


def _write_source_lines(module: Any) -> None:
    index = module.stack_frame_index
    for computation in module.computations:
        for instruction in computation.instructions:
            metadata = instruction.metadata
            if metadata.stack_frame_id and not metadata.source_file:
                frame = index.stack_frames[metadata.stack_frame_id - 1]
                place = index.file_locations[frame.file_location_id - 1]
                file = index.file_names[place.file_name_id - 1]
                if not file.startswith("<"):  # no line of the user's
                    metadata.source_file, metadata.source_line = file, place.line
            metadata.ClearField("stack_frame_id")
    module.ClearField("stack_frame_index")


def _copy_passed_through(module: Any) -> None:
    entry = next(c for c in module.computations if c.id == module.entry_computation_id)
    aliased = {(tuple(e.output_shape_index), e.parameter_number) for e in module.input_output_alias.entries}
    instructions = {i.id: i for i in entry.instructions}
    root = instructions[entry.root_id]
    free = max(i.id for c in module.computations for i in c.instructions) + 1
    outputs = list(root.operand_ids) if root.opcode == "tuple" else [root.id]
    replaced: list[int] = []
    for number, operand in enumerate(outputs):
        index = (number,) if root.opcode == "tuple" else ()
        source = instructions[operand]
        if source.opcode != "parameter" or (index, source.parameter_number) in aliased:
            replaced.append(operand)
            continue
        made = type(source)(name=f"copy.{free}", opcode="copy", id=free, operand_ids=[operand])
        made.shape.CopyFrom(source.shape)
        entry.instructions.append(made)
        replaced.append(free)
        free += 1
    if replaced == outputs:
        return
    if root.opcode == "tuple":
        root.operand_ids[:] = replaced
        # Definitions come before uses.
        ordered = [i for i in entry.instructions if i.id != root.id] + [instructions[root.id]]
        copies = [type(i).FromString(i.SerializeToString()) for i in ordered]
        del entry.instructions[:]
        entry.instructions.extend(copies)
    else:
        made = entry.instructions[-1]
        made.frontend_attributes.CopyFrom(root.frontend_attributes)
        made.frontend_attributes.map.pop("neff_input_names", None)
        root.frontend_attributes.map.pop("neff_output_names", None)
        entry.root_id = replaced[0]
