"""Run a saved artifact with nothing but its directory, jaxlib and PyTorch's view, copy and dlpack.

A second executor, apart from the compiler: what it computes, the HLO module and its alias table have computed.

    python tools/replay_artifact.py DIRECTORY [--random]     # describe it, and run it on zeros or random inputs
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from jaxlib import _jax, utils, xla_client  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils.dlpack import from_dlpack, to_dlpack

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2, "i1": torch.bool,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "ui64": torch.uint64, "ui32": torch.uint32, "ui16": torch.uint16, "ui8": torch.uint8,
    "complex<f32>": torch.complex64, "complex<f64>": torch.complex128,
}  # fmt: skip


def window(memory: torch.Tensor, entry: dict[str, Any], start: int = 0) -> torch.Tensor:
    """The window an entry describes, on flat bytes, counted from byte `start`."""
    dtype = DTYPES[entry["element"]]
    whole = memory[start:]
    whole = whole[: whole.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    return whole.as_strided(entry["size"], entry["stride"], whole.storage_offset() + entry["offset"])


def lazily(tensor: torch.Tensor, bits: str) -> torch.Tensor:
    """The tensor with its conj and neg bits set."""
    tensor = tensor.conj() if "conj" in bits else tensor
    return torch._neg_view(tensor) if "neg" in bits else tensor


def plainly(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its conj and neg bits: its memory as it is."""
    tensor = tensor.conj() if tensor.is_conj() else tensor
    return torch._neg_view(tensor) if tensor.is_neg() else tensor


def assign(target: torch.Tensor, value: torch.Tensor) -> None:
    """Copy, also into a window that overlaps itself, which PyTorch refuses as a whole."""
    try:
        target.copy_(value)
    except RuntimeError:
        if not target.dim():
            raise
        for part, item in zip(target.unbind(0), value.unbind(0), strict=True):
            assign(part, item)


def stretch(argument: torch.Tensor, entry: dict[str, Any], count: int) -> tuple[torch.Tensor, slice]:
    """The bytes of an argument's storage that are in its parameter, of `count` bytes, and where in it they are."""
    storage = argument.untyped_storage()
    start = (argument.storage_offset() - entry["offset"]) * argument.dtype.itemsize
    low, high = max(-start, 0), min(count, storage.nbytes() - start)
    return torch.empty(0, dtype=torch.uint8).set_(storage, start + low, (high - low,), (1,)), slice(low, high)


def reaches(entry: dict[str, Any]) -> bool:
    return math.prod(entry["size"]) > 0


def head(node: dict[str, Any]) -> tuple[str, Any]:
    """Kind and contents of a node of a structure."""
    return ("registered", node) if "registered" in node else next(iter(node.items()))


class Replay:
    """An artifact that can be called again and again; its state moves with every call."""

    def __init__(self, directory: str | Path, state: dict[str, torch.Tensor] | None = None):
        root = Path(directory)
        self.index: dict[str, Any] = json.loads((root / "aliases.json").read_text())
        if (self.index["format"], self.index["version"]) != ("fx2hlo-artifact", 1):
            raise ValueError(f"{root} is not an artifact of version 1")
        utils.absl_set_min_log_level(2)  # errors only
        client = xla_client.make_cpu_client(asynchronous=False)
        self.device = client.local_devices()[0]
        program = _jax.mlir.hlo_to_stablehlo((root / "model.hlo_module.pb").read_bytes())
        devices = xla_client.DeviceList((self.device,))
        self.executable = client.compile_and_load(program, devices, xla_client.CompileOptions())
        self.state = dict(state or {})
        files: dict[str, torch.Tensor] = {}
        for entry in self.index["state"]:
            if entry["file"] not in files:
                data = bytearray((root / entry["file"]).read_bytes())
                files[entry["file"]] = (
                    torch.tensor(data, dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
                )
            self.state[entry["name"]] = lazily(window(files[entry["file"]], entry), entry["lazy"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = self._arguments(args, kwargs)
        results = self._execute(arguments)
        outputs: list[torch.Tensor] = []
        for source in self.index["plan"]:
            kind, number = source["kind"], source["index"]
            if kind == "argument":
                outputs.append(arguments[number])
            elif kind == "output":
                outputs.append(outputs[number])
            elif kind == "result":
                outputs.append(lazily(window(results[number], source), source["lazy"]))
            else:
                outputs.append(self._view(arguments[number], self.index["arguments"][number], source))
        for entry, argument in zip(self.index["arguments"], arguments, strict=True):
            if (now := entry.get("reshaped")) is not None:
                argument.as_strided_(
                    now["size"], now["stride"], argument.storage_offset() - entry["offset"] + now["offset"]
                )
        for entry in self.index["arguments"]:
            if entry["kind"] == "generator" and not entry["written"]:  # a seed, and another one for every call
                self.state[entry["name"]].add_(1).remainder_(1 << 31)
        for name, number in self.index["rebound"].items():
            self.state[name] = outputs[number]
        return self._build(self.index["outputs"], outputs)

    def _view(self, base: torch.Tensor, own: dict[str, Any], source: dict[str, Any]) -> torch.Tensor:
        """A view of an argument's memory; offsets count from the start of the argument's parameter."""
        base = plainly(base)
        whole = base.as_strided((base.untyped_storage().nbytes() // base.dtype.itemsize,), (1,), 0).view(torch.uint8)
        start = (base.storage_offset() - own["offset"]) * base.dtype.itemsize
        return lazily(window(whole, source, start), source["lazy"])

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        found: dict[int, torch.Tensor] = {}

        def walk(node: dict[str, Any], value: Any) -> None:
            kind, content = head(node)
            if kind == "argument":
                found[content] = value
            elif kind in ("tuple", "list"):
                for child, item in zip(content, value, strict=True):
                    walk(child, item)
            elif kind in ("dict", "ordered_dict"):
                for key, child in content:
                    walk(child, value[key])
            elif kind == "registered":
                raise TypeError(f"inputs of type {content['registered']} are not replayed")

        walk(self.index["inputs"], (args, kwargs))
        entries = enumerate(self.index["arguments"])
        given = [found[n] if entry["kind"] == "input" else self.state[entry["name"]] for n, entry in entries]
        for entry, argument in zip(self.index["arguments"], given, strict=True):
            if entry.get("storage_offset", argument.storage_offset()) != argument.storage_offset():
                raise ValueError(f"{entry['name']} does not begin at element {entry['storage_offset']} of its storage")
        return given

    def _execute(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """Run on copies of the parameters' memory and copy written values back; results as flat bytes."""
        if not self.index["results"]:
            return []
        bound = [(entry, argument) for entry, argument in zip(self.index["arguments"], arguments, strict=True)]
        buffers: list[Any] = []
        before: dict[int, torch.Tensor] = {}
        for number, kind in enumerate(self.index["parameters"]):
            dtype = DTYPES[kind["element"]]
            memory = torch.zeros(math.prod(kind["shape"]) * dtype.itemsize, dtype=torch.uint8)
            for entry, argument in bound:
                if entry["parameter"] == number and reaches(entry):
                    there, here = stretch(argument, entry, memory.numel())
                    memory[here] = there
            if any(entry["parameter"] == number and entry.get("around") for entry, _ in bound):
                before[number] = memory.clone()
            value = memory.view(dtype).view(kind["shape"])
            buffers.append(_jax.dlpack_managed_tensor_to_buffer(to_dlpack(value), self.device, None, True))
        outputs = self.executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        results = [from_dlpack(_jax.buffer_to_dlpack_managed_tensor(o[0].block_until_ready(), None)) for o in outputs]
        results = [result.reshape(-1).view(torch.uint8) for result in results]
        for alias in self.index["aliases"]:
            for entry, argument in bound:
                if entry["parameter"] == alias["parameter"] and reaches(entry):
                    new = results[alias["output"]]
                    assign(plainly(argument).detach(), window(new, entry))
                    if entry.get("around"):
                        old = before[alias["parameter"]]
                        there, here = stretch(argument, entry, new.numel())
                        changed = new[here] != old[here]
                        there[changed] = new[here][changed]
        return results

    def _build(self, node: dict[str, Any], outputs: list[torch.Tensor]) -> Any:
        kind, content = head(node)
        if kind == "output":
            return outputs[content]
        if kind == "number":
            return outputs[content].item()
        if kind == "constant":
            return self._constant(content)
        if kind in ("dict", "ordered_dict"):
            return {key: self._build(child, outputs) for key, child in content}
        children = content["children"] if kind == "registered" else content
        return (list if kind == "list" else tuple)(self._build(child, outputs) for child in children)

    @staticmethod
    def _constant(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "float":
            return float.fromhex(content)
        if kind == "complex":
            return complex(*map(float.fromhex, content))
        if kind in ("tuple", "list"):
            return (list if kind == "list" else tuple)(map(Replay._constant, content))
        if kind == "size":
            return torch.Size(content)
        return torch.device(content) if kind == "device" else getattr(torch, content)


def replay(directory: str | Path, *args: Any, **kwargs: Any) -> Any:
    """The outputs of one call of the artifact in a directory; written arguments are updated."""
    return Replay(directory)(*args, **kwargs)


def example(entry: dict[str, Any], random: bool) -> torch.Tensor:
    """An input of the right geometry."""
    dtype = DTYPES[entry["element"]]
    reach = 1 + sum((n - 1) * s for n, s in zip(entry["size"], entry["stride"], strict=True)) if reaches(entry) else 0
    memory = torch.zeros(max(reach, 0), dtype=dtype)
    if random and dtype.is_floating_point:
        memory.copy_(torch.rand(memory.shape))
    return lazily(memory.as_strided(entry["size"], entry["stride"], 0), entry["lazy"])


def main() -> None:
    options = argparse.ArgumentParser(description="Describe a saved artifact and run it once.")
    options.add_argument("directory", type=Path)
    options.add_argument("--random", action="store_true", help="floating-point inputs are random, not zero")
    chosen = options.parse_args()
    program = Replay(chosen.directory)
    index = program.index
    for number, kind in enumerate(index["parameters"]):
        names = ", ".join(entry["name"] for entry in index["arguments"] if entry["parameter"] == number)
        print(f"parameter {number}: {kind['element']}{kind['shape']} holds {names}")
    for alias in index["aliases"]:
        print(f"output {alias['output']} must alias parameter {alias['parameter']}")
    for entry in index["arguments"]:
        if entry["kind"] != "input" and entry["name"] not in program.state:
            print(f"state {entry['name']!r} was left out; zeros are used")
            program.state[entry["name"]] = example(entry, chosen.random)
    inputs = {n: example(e, chosen.random) for n, e in enumerate(index["arguments"]) if e["kind"] == "input"}

    def fill(node: Any) -> Any:
        kind, content = head(node)
        if kind == "argument":
            return inputs[content]
        if kind == "constant":
            return Replay._constant(content)
        if kind in ("dict", "ordered_dict"):
            return {key: fill(child) for key, child in content}
        return (list if kind == "list" else tuple)(map(fill, content))

    args, kwargs = fill(index["inputs"])
    print(program(*args, **kwargs))


if __name__ == "__main__":
    main()
