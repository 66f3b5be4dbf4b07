"""The part of the HLO module wire format that export reads or edits, as protobuf classes made at import.

Needs only the `protobuf` package: no protoc, no generated file. Field numbers are those of XLA's public hlo.proto and
xla_data.proto; enumerations are declared as int32, which has the same encoding. Fields that are not listed survive a
parse and a serialise as unknown fields, so a subset is enough.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "fx2hlo.hlo"

# message -> {field: (number, type)}; "*" is repeated, a capitalised type is a message, "map" is string to string.
SCHEMA: dict[str, dict[str, tuple[int, str]]] = {
    "Layout": {"minor_to_major": (1, "*int64")},
    "Shape": {
        "element_type": (2, "int32"),
        "dimensions": (3, "*int64"),
        "tuple_shapes": (4, "*Shape"),
        "layout": (5, "Layout"),
        "is_dynamic_dimension": (6, "*bool"),
    },
    "ProgramShape": {"parameters": (1, "*Shape"), "result": (2, "Shape"), "parameter_names": (3, "*string")},
    "OpMetadata": {"source_file": (3, "string"), "source_line": (4, "int32"), "stack_frame_id": (15, "int32")},
    "FileLocation": {"file_name_id": (1, "int32"), "function_name_id": (2, "int32"), "line": (3, "int32")},
    "StackFrame": {"file_location_id": (1, "int32"), "parent_frame_id": (2, "int32")},
    "StackFrameIndex": {
        "file_names": (1, "*string"),
        "function_names": (2, "*string"),
        "file_locations": (3, "*FileLocation"),
        "stack_frames": (4, "*StackFrame"),
    },
    "FrontendAttributes": {"map": (1, "map")},
    "ReplicaGroup": {"replica_ids": (1, "*int64")},
    "CollectiveDeviceList": {"replica_groups": (1, "*ReplicaGroup"), "iota_replica_group_list": (2, "bytes")},
    "Instruction": {
        "name": (1, "string"),
        "opcode": (2, "string"),
        "shape": (3, "Shape"),
        "metadata": (7, "OpMetadata"),
        "parameter_number": (9, "int64"),
        "id": (35, "int64"),
        "operand_ids": (36, "*int64"),
        "control_predecessor_ids": (37, "*int64"),
        "called_computation_ids": (38, "*int64"),
        "replica_groups": (49, "*ReplicaGroup"),
        "frontend_attributes": (68, "FrontendAttributes"),
        "collective_device_list": (87, "CollectiveDeviceList"),
        # Written instead of 87 for groups given as an iota or by mesh axes.
        "iota_groups": (92, "bytes"),
        "mesh_groups": (93, "bytes"),
    },
    "Computation": {
        "name": (1, "string"),
        "instructions": (2, "*Instruction"),
        "program_shape": (4, "ProgramShape"),
        "id": (5, "int64"),
        "root_id": (6, "int64"),
    },
    "AliasEntry": {
        "output_shape_index": (1, "*int64"),
        "parameter_number": (2, "int64"),
        "parameter_shape_index": (3, "*int64"),
        "kind": (4, "int32"),
    },
    "InputOutputAlias": {"entries": (1, "*AliasEntry")},
    "Module": {
        "name": (1, "string"),
        "entry_computation_name": (2, "string"),
        "computations": (3, "*Computation"),
        "host_program_shape": (4, "ProgramShape"),
        "id": (5, "int64"),
        "entry_computation_id": (6, "int64"),
        "schedule": (7, "bytes"),
        "input_output_alias": (8, "InputOutputAlias"),
        "stack_frame_index": (17, "StackFrameIndex"),
        "buffer_donor": (18, "bytes"),
    },
}

MUST_ALIAS = 2
TUPLE, TOKEN = 13, 17
"""Element types that have no layout of their own."""

PRIMITIVE_TYPES: dict[int, str] = {
    1: "i1", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "ui8", 7: "ui16", 8: "ui32", 9: "ui64", 10: "f16", 11: "f32",
    12: "f64", 15: "complex<f32>", 16: "bf16", 18: "complex<f64>", 19: "f8E5M2", 20: "f8E4M3FN",
}  # fmt: skip
"""XLA's number of an element type -> MLIR spelling, for the types a program of ours can have."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}


def _descriptor() -> descriptor_pb2.FileDescriptorProto:
    """SCHEMA as protoc would describe the same messages."""
    file = descriptor_pb2.FileDescriptorProto(name="fx2hlo_hlo.proto", package=PACKAGE, syntax="proto3")
    for message_name, fields in SCHEMA.items():
        message = file.message_type.add(name=message_name)
        for name, (number, kind) in fields.items():
            repeated = kind.startswith("*") or kind == "map"
            label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            field = message.field.add(name=name, number=number, label=label)
            kind = kind.lstrip("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
                continue
            if kind == "map":  # on the wire, a repeated message of key and value
                entry = message.nested_type.add(name="MapEntry")
                entry.options.map_entry = True
                for n, part in enumerate(("key", "value"), 1):
                    entry.field.add(name=part, number=n, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
                kind = f"{message_name}.MapEntry"
            field.type = _Field.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{kind}"
    return file


def _module_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_descriptor())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Module"))


Module: Any = _module_class()
"""Protobuf class of an HLO module."""
