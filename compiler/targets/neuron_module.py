"""Every output of the module is computed: a parameter handed back is copied first, unless the output is its own memory."""

from __future__ import annotations

from compiler.export.hlo_schema import Module


def copy_passed_through(data: bytes) -> bytes:
    """A serialised module with a `copy` in front of each output that is a parameter without an alias to it."""
    module = Module.FromString(data)
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
        return data
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
    return module.SerializeToString(deterministic=True)
