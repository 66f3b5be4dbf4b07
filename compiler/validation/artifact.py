"""A saved artifact is consistent: every table of its index against the others, against its HLO bytes, and its files.

Nothing of the writer is used: the index is read as plain JSON and the HLO by `compiler.export.decoder`. Afterwards the
artifact is read as `compiler.load` reads it, so that one called sound is one that loads. Nothing in the directory is executed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiler.errors import CompileError
from compiler.export.artifact import read
from compiler.export.decoder import DecodeError, Interface, check_module
from compiler.export.directory import Directory, snapshot

_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8E4M3FN": 1, "f8E5M2": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1,
    "ui64": 8, "ui32": 4, "ui16": 2, "ui8": 1, "complex<f32>": 8, "complex<f64>": 16,
}  # fmt: skip
_HLO = "model.hlo_module.pb"


def check_artifact(directory: str | os.PathLike[str]) -> str:
    """A report of an artifact in which everything agrees; CompileError says what does not."""
    root = Path(directory)
    report = snapshot(root, _report)
    try:
        read(root)
    except CompileError as error:
        raise _fault(root, error.message) from None
    return report


def _report(directory: Directory) -> str:
    root = directory.root
    try:
        index = json.loads(directory.read("aliases.json"))
        hlo = bytes(directory.read(_HLO))
        return _Check(directory, index, hlo).run()
    except CompileError as error:
        if error.location:
            raise
        raise _fault(root, error.message) from None
    except DecodeError as error:
        raise _fault(root, f"{_HLO}: {error}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _fault(root, f"it cannot be read: {error}") from None
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise _fault(root, f"the index is malformed: {type(error).__name__}: {error}") from None


def _fault(root: Path, message: str) -> CompileError:
    return CompileError(f"the artifact is not sound: {message}", location=str(root), hint="compile and save it again")


class _Check:
    def __init__(self, directory: Directory, index: dict[str, Any], hlo: bytes):
        self.directory, self.root, self.index, self.hlo = directory, directory.root, index, hlo
        self.arguments: list[dict[str, Any]] = index["arguments"]
        self.plan: list[dict[str, Any]] = index["plan"]

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise _fault(self.root, message)

    def run(self) -> str:
        self.require((self.index["format"], self.index["version"]) == ("fx2hlo-artifact", 1), "it is of another format")
        self.files()
        interface = check_module(self.hlo)
        self.signature(interface)
        self.bindings(interface)
        self.outputs(interface)
        self.contract()
        self.state()
        lines = [f"parameter {n}: {kind}" for n, kind in enumerate(interface.parameters)]
        lines += [f"output {output} must alias parameter {parameter}" for output, parameter in interface.aliases]
        return "\n".join([*lines, f"{self.root}: sound"]) + "\n"

    def files(self) -> None:
        listed = self.index["files"]
        there = {str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()} - {"aliases.json"}
        self.require(there == set(listed), f"files listed and files there differ in {sorted(there ^ set(listed))}")
        for name, entry in listed.items():
            data = self.directory.read(name)
            same = (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])
            self.require(same, f"{name!r} is not the file that was saved")

    def signature(self, interface: Interface) -> None:
        for key, have in (("parameters", interface.parameters), ("results", interface.results)):
            told = [(t["element"], tuple(t["shape"])) for t in self.index[key]]
            self.require(
                told == [tuple(h) for h in have], f"{key} are {told} in the index, {list(map(str, have))} in the HLO"
            )
        told = sorted((a["output"], a["parameter"]) for a in self.index["aliases"])
        self.require(
            told == interface.aliases, f"the alias table is {told} in the index and {interface.aliases} in the HLO"
        )
        self.require(all(a["kind"] == "must-alias" for a in self.index["aliases"]), "an alias is no must-alias")

    def bindings(self, interface: Interface) -> None:
        aliased = {parameter for _, parameter in interface.aliases}
        names = [a["name"] for a in self.arguments]
        self.require(len(set(names)) == len(names), "two arguments have one name")
        bound: set[int] = set()
        for entry in self.arguments:
            name, parameter = entry["name"], entry["parameter"]
            if parameter is None:
                self.require(not entry["written"], f"argument {name!r} is written and in no parameter")
                continue
            self.require(0 <= parameter < len(interface.parameters), f"argument {name!r} is in parameter {parameter}")
            bound.add(parameter)
            kind = interface.parameters[parameter]
            self.inside(entry, math.prod(kind.shape) * _BYTES[kind.element], f"argument {name!r}")
            self.require(
                entry["written"] or not entry.get("around"),
                f"argument {name!r} is not written, yet memory around it is",
            )
            if math.prod(entry["size"]):
                said = "written" if entry["written"] else "not written"
                self.require(
                    entry["written"] == (parameter in aliased), f"argument {name!r} is {said}, against the alias table"
                )
        self.require(bound == set(range(len(interface.parameters))), "a parameter holds no argument")
        for number, kind in enumerate(interface.parameters):
            self.shape_of_memory(number, kind.shape)

    def shape_of_memory(self, number: int, shape: tuple[int, ...]) -> None:
        """A parameter of several dimensions has those of an argument that is all of it, in the order of its strides."""
        if len(shape) < 2 or 0 in shape:
            return
        inside = [entry for entry in self.arguments if entry["parameter"] == number]
        orders = [_memory_order(entry["size"], entry["stride"]) for entry in inside]
        names = " and ".join(repr(entry["name"]) for entry in inside)
        self.require(
            [n for n in shape if n != 1] in orders,
            f"parameter {number} has the shape {list(shape)}, which the strides of {names} do not give",
        )

    def outputs(self, interface: Interface) -> None:
        aliased = {output for output, _ in interface.aliases}
        used: set[int] = set()
        for number, entry in enumerate(self.plan):
            kind, index, which = entry["kind"], entry["index"], f"output {number}"
            if kind == "output":
                self.require(0 <= index < number, f"{which} is output {index}, which is no earlier one")
            elif kind in ("argument", "argument_view"):
                self.require(0 <= index < len(self.arguments), f"{which} is made of argument {index}")
                parameter = self.arguments[index]["parameter"]
                if kind == "argument_view" and parameter is not None:
                    memory = interface.parameters[parameter]
                    self.inside(entry, math.prod(memory.shape) * _BYTES[memory.element], which)
            else:
                self.require(kind == "result" and 0 <= index < len(interface.results), f"{which} is {kind} {index}")
                self.require(index not in aliased, f"{which} is result {index}, which is written into a parameter")
                used.add(index)
                memory = interface.results[index]
                self.inside(entry, math.prod(memory.shape) * _BYTES[memory.element], which)
        unused = set(range(len(interface.results))) - used - aliased
        self.require(not unused, f"nobody uses result {min(unused, default=0)} of the HLO module")

    def contract(self) -> None:
        """`io_map` speaks of arguments: outputs that are one or a view of one, then a result for each written argument.

        Its outputs are the leaves of the result's tree, of which those that are no tensors have no entry in the plan.
        """
        leaves = list(_leaves(self.index["outputs"]))
        count = self.index["original_output_count"]
        self.require(count == len(leaves), f"original_output_count is {count}, the result has {len(leaves)} leaves")
        for leaf in leaves:
            self.require(
                leaf is None or leaf in range(len(self.plan)), f"a leaf of the result is output {leaf} of the plan"
            )
        io_map = {int(k): v for k, v in self.index["io_map"].items()}
        written = {n for n, a in enumerate(self.arguments) if a["written"]}
        missing = written - set(io_map.values())
        self.require(not missing, f"io_map does not name argument {min(missing, default=0)}, which is written")
        for number, leaf in enumerate(leaves):
            if number in io_map:
                argument = io_map[number]
                self.require(0 <= argument < len(self.arguments), f"io_map names argument {argument}")
                source: Any = self.plan[leaf] if leaf is not None else {"kind": "constant"}
                while source["kind"] == "output":
                    source = self.plan[source["index"]]
                self.require(
                    source["kind"] in ("argument", "argument_view"),
                    f"io_map says output {number} is an argument's memory",
                )
                one, two = self.arguments[source["index"]], self.arguments[argument]
                same = source["index"] == argument or (
                    one["parameter"] is not None and one["parameter"] == two["parameter"]
                )
                self.require(same, f"io_map and the plan disagree on output {number}")

    def inside(self, entry: dict[str, Any], size: int, which: str) -> None:
        numbers = [entry["offset"], *entry["size"], *entry["stride"]]
        self.require(all(type(n) is int and n >= 0 for n in numbers), f"{which}: a number is negative or none")
        self.require(len(entry["size"]) == len(entry["stride"]), f"{which}: sizes and strides do not match")
        if math.prod(entry["size"]):
            last = entry["offset"] + sum((n - 1) * s for n, s in zip(entry["size"], entry["stride"], strict=True))
            reach = (last + 1) * _BYTES[entry["element"]]
            self.require(reach <= size, f"{which} reaches byte {reach} of memory with {size}")

    def state(self) -> None:
        owned = {a["name"]: a for a in self.arguments if a["kind"] != "input"}
        for entry in self.index["state"]:
            name = entry["name"]
            self.require(name in owned, f"{name!r} is no state of the program")
            own = owned[name]
            same = all(entry[k] == own[k] for k in ("element", "size", "lazy"))
            self.require(same, f"the tensor of {name!r} is not what the argument is")
            self.inside(entry, self.index["files"][entry["file"]]["bytes"], f"the tensor of {name!r}")


def _memory_order(sizes: list[int], strides: list[int]) -> list[int] | None:
    """Sizes but for ones from the outermost in memory inwards; None where elements are not side by side."""
    found = sorted(((stride, n) for n, stride in zip(sizes, strides, strict=True) if n != 1), reverse=True)
    step = 1
    for stride, n in reversed(found):
        if stride != step:
            return None
        step *= n
    return [n for _, n in found]


def _leaves(node: Any) -> Iterator[int | None]:
    """The leaves of a result's tree in order: a number of the plan, or None for what is no tensor."""
    if "output" in node or "number" in node:
        yield node.get("output", node.get("number"))
    elif "constant" in node:
        yield None
    else:
        ((_, content),) = node.items() if "registered" not in node else (("children", node["children"]),)
        for child in content:
            yield from _leaves(child[1] if isinstance(child, list) else child)


__all__ = ["check_artifact"]
