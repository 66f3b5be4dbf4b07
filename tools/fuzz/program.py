"""A PyTorch program as plain data: it prints as Python, is stored as JSON, and shrinks by dropping parts."""

from __future__ import annotations

import json
import linecache
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from tools.fuzz import custom_ops as custom_ops
from tools.fuzz.regions import IMPORTS, PLAIN
from tools.fuzz.regions import NAMES as REGIONS
from tools.fuzz.structure import Name, filled, nested, places, text

DTYPES: dict[str, torch.dtype] = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
    "bool": torch.bool, "c64": torch.complex64,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
WORLDS = 2
"""Every program has this many sets of argument values, and is fit for all of them."""


@dataclass(frozen=True)
class Storage:
    """Memory of the caller. `fill`: "small" integers, "index" (a permutation of 0..count-1) or random "bits"."""

    dtype: str
    count: int
    fill: str
    seed: int

    def make(self, world: int, misaligned: bool) -> torch.UntypedStorage:
        dtype, source = DTYPES[self.dtype], random.Random(self.seed * WORLDS + world)
        raw = memory(self.count * dtype.itemsize, misaligned)
        if self.fill == "bits":
            raw.copy_(torch.tensor([source.randrange(256) for _ in range(raw.numel())], dtype=torch.uint8))
        elif self.count:
            low = 0 if dtype in (torch.uint8, torch.bool) else -4
            values = (
                list(range(self.count))
                if self.fill == "index"
                else [source.randint(low, 1 if dtype is torch.bool else 5) for _ in range(self.count)]
            )
            if self.fill == "index":
                source.shuffle(values)
            elif self.count > 1 and source.random() < 0.6:
                values = [value or 1 for value in values]  # zeros turn into -0.0 under negation and are then unfit
            raw.view(dtype).copy_(torch.tensor(values).to(dtype))
        return raw.untyped_storage()


def memory(count: int, misaligned: bool) -> torch.Tensor:
    """`count` bytes, on a 64 byte boundary as PyTorch's allocator gives them, or 16 bytes behind one."""
    if not count:
        return torch.empty(0, dtype=torch.uint8)
    buffer = bytearray(count + 128)
    address = np.frombuffer(buffer, dtype=np.uint8).ctypes.data
    start = -address % 64 + (16 if misaligned else 0)
    return torch.frombuffer(buffer, dtype=torch.uint8, offset=start, count=count)


@dataclass(frozen=True)
class Argument:
    """A window on a storage, or (`same_as` >= 0) the very object that an earlier argument is.

    Attributes:
        held: "" when the caller passes it; else the program is a module, and it is a "parameter", a "buffer", a "transient"
            buffer (which a state dict leaves out) or a plain "attribute" of it.
        module: the submodule that holds it, or "".
    """

    storage: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    lazy: str = ""
    same_as: int = -1
    held: str = ""
    module: str = ""

    def make(self, storage: torch.UntypedStorage) -> torch.Tensor:
        tensor = torch.empty(0, dtype=DTYPES[self.dtype]).set_(storage, self.offset, self.sizes, self.strides)
        tensor = tensor.conj() if self.lazy == "conj" else tensor
        tensor = torch._neg_view(tensor) if self.lazy == "neg" else tensor
        if self.held != "parameter":
            return tensor
        return torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point() or tensor.is_complex())


@dataclass(frozen=True)
class Step:
    """One statement: `results = text`, with `{0}`, `{1}` in the text standing for operands."""

    results: tuple[str, ...]
    text: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """Argument memory, arguments `a0, a1, ...`, statements, and the names returned.

    Attributes:
        bare: return the only output itself rather than a tuple; without outputs, None rather than ().
        order_dependent: eager's own answer depends on the order in which elements are visited; a refusal is right.
        seed: the seed it was made from.
        packed, wrapped: when positive, the seed of a nesting of the arguments, and of the results.
    """

    storages: tuple[Storage, ...]
    arguments: tuple[Argument, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    bare: bool = False
    order_dependent: bool = False
    seed: int = -1
    packed: int = 0
    wrapped: int = 0

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(f"a{number}" for number in range(len(self.arguments)))

    @property
    def has_custom_ops(self) -> bool:
        return any("torch.ops.fuzz" in step.text for step in self.steps)

    @property
    def held(self) -> tuple[int, ...]:
        """Arguments that are a module's state."""
        return tuple(number for number, a in enumerate(self.arguments) if a.held)

    @property
    def is_flat(self) -> bool:
        """Whether it is a function of tensors that returns tensors."""
        return not (self.held or self.packed or self.wrapped or self.has_regions)

    @property
    def has_regions(self) -> bool:
        return any(f"{name}(" in step.text for step in self.steps for name in REGIONS)

    @property
    def has_own_versions(self) -> bool:
        """Whether a tensor may share memory with another and count its writes apart: eager does, after `set_`."""
        return any(".set_(" in step.text for step in self.steps)

    @property
    def counts(self) -> bool:
        """Whether a call may depend on where in their storages its arguments begin."""
        return any(word in step.text for step in self.steps for word in ("as_strided", "storage_offset"))

    def _signature(self) -> list[Any]:
        """What the caller passes: a name or a tree for each formal argument."""
        passed = [f"a{number}" for number, a in enumerate(self.arguments) if not a.held]
        return nested(passed, random.Random(self.packed)) if self.packed else [Name(name) for name in passed]

    def written(self, name: str) -> str:
        """A name as the program writes it."""
        if name.startswith("a") and (argument := self.arguments[int(name[1:])]).held:
            return f"self.{argument.module}.{name}" if argument.module else f"self.{name}"
        return name

    def statement(self, step: Step) -> str:
        expression = step.text.format(*map(self.written, step.operands))
        return f"{', '.join(map(self.written, step.results))} = {expression}" if step.results else expression

    def source(self) -> str:
        """The program as a Python function, or as a module that is told its state later."""
        signature = self._signature()
        formal = [item.name if isinstance(item, Name) else f"p{position}" for position, item in enumerate(signature)]
        formal = [name if name not in formal[:position] else f"p{position}" for position, name in enumerate(formal)]
        lines = [
            f"{name} = p{position}{path}"
            for position, item in enumerate(signature)
            if not isinstance(item, Name)
            for name, path in places(item)
        ]
        lines += [*map(self.statement, self.steps), f"return {self._returned()}"]
        if not self.held:
            return "\n    ".join([f"def program({', '.join(formal)}):", *lines]) + "\n"
        head = f"class program(torch.nn.Module):\n    def forward({', '.join(['self', *formal])}):"
        return "\n        ".join([head, *lines]) + "\n"

    def _returned(self) -> str:
        if self.wrapped:
            return text(tuple(nested(self.outputs, random.Random(self.wrapped))), self.written)
        names = [self.written(name) for name in self.outputs]
        if self.bare and len(names) < 2:
            return names[0] if names else "None"
        return f"({''.join(f'{name}, ' for name in names).rstrip()})"

    def function(self, regions: Mapping[str, Callable[..., Any]] = PLAIN) -> Callable[..., Any]:
        """The function, or the class of the module, with a meaning for `cond`, `while_loop` and `scan`."""
        source, name = self.source(), f"fuzz_{self.seed}.py"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        scope: dict[str, Any] = {"torch": torch, **regions}
        exec(compile(source, name, "exec"), scope)
        return scope["program"]

    def make_arguments(self, world: int = 0, *, misaligned: bool = False) -> list[torch.Tensor]:
        """Fresh arguments."""
        storages = [storage.make(world, misaligned) for storage in self.storages]
        made: list[torch.Tensor] = []
        for argument in self.arguments:
            made.append(made[argument.same_as] if argument.same_as >= 0 else argument.make(storages[argument.storage]))
        return made

    def pack(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """The passed ones of the arguments, nested as the program takes them."""
        return tuple(filled(self._signature(), dict(zip(self.parameters, tensors))))

    def next_arguments(
        self, tensors: Sequence[torch.Tensor], world: int, *, misaligned: bool = False
    ) -> list[torch.Tensor]:
        """Fresh arguments for another call, but for memory that is a module's."""
        stay = {a.storage for a in self.arguments if a.held}
        fresh = self.make_arguments(world, misaligned=misaligned)
        return [old if a.storage in stay else new for a, old, new in zip(self.arguments, tensors, fresh)]

    def separate_arguments(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Fresh arguments that share no memory and differ in values, but for those that share a module's."""
        stay = {a.storage for a in self.arguments if a.held}
        return [
            old if a.storage in stay else a.make(self.storages[a.storage].make(number % 2, False))
            for number, (a, old) in enumerate(zip(self.arguments, tensors, strict=True))
        ]

    def joined_arguments(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Fresh arguments, of which those that look alike are one tensor, but for a module's."""
        stay = {a.storage for a in self.arguments if a.held}
        alike: dict[Argument, torch.Tensor] = {}
        return [
            old if a.storage in stay else alike.setdefault(replace(a, storage=0, same_as=-1), new)
            for a, old, new in zip(self.arguments, tensors, self.make_arguments(), strict=True)
        ]

    def script(self) -> str:
        """A Python program that runs this one in eager PyTorch and prints what it returns."""
        lines = ["import torch", "", "", self.source(), "", "storages = ["]
        for storage in self.storages:
            raw = torch.empty(0, dtype=torch.uint8).set_(storage.make(0, False))
            if storage.fill == "bits" or not storage.count:
                value = f"torch.tensor({raw.tolist()}, dtype=torch.uint8)"
            else:
                value = f"torch.tensor({raw.view(DTYPES[storage.dtype]).to(torch.int64).tolist()}).to({DTYPES[storage.dtype]})"
            lines.append(f"    {value}.untyped_storage(),")
        lines.append("]")
        for number, a in enumerate(self.arguments):
            lines.append(f"a{number} = {f'a{a.same_as}' if a.same_as >= 0 else _made(a)}")
        called = "program"
        if self.held:
            called = "module"
            lines.append("module = program()")
            lines += [f"module.{m} = torch.nn.Module()" for m in sorted({a.module for a in self.arguments if a.module})]
            for number in self.held:
                place, name, kind = self.written(f"a{number}"), f"a{number}", self.arguments[number].held
                owner = place.rpartition(".")[0].replace("self", "module")
                call = f'{owner}.register_buffer("{name}", {name}, persistent={kind == "buffer"})'
                lines.append(f"{owner}.{name} = {name}" if kind in ("parameter", "attribute") else call)
        given = ", ".join(text(item, str) for item in self._signature())
        lines += ["with torch.no_grad():", f"    print({called}({given}))"]
        if self.has_custom_ops:
            lines.insert(1, "import tools.fuzz.custom_ops")
        if self.has_regions:
            lines[1:1] = IMPORTS
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Program:
        data = json.loads(text)
        return Program(
            tuple(Storage(**s) for s in data["storages"]),
            tuple(Argument(**a | {k: tuple(a[k]) for k in ("sizes", "strides")}) for a in data["arguments"]),
            tuple(Step(tuple(s["results"]), s["text"], tuple(s["operands"])) for s in data["steps"]),
            tuple(data["outputs"]), data["bare"], data["order_dependent"], data["seed"],
            data.get("packed", 0), data.get("wrapped", 0),
        )  # fmt: skip

    def with_steps(self, steps: tuple[Step, ...]) -> Program:
        return replace(self, steps=steps)


def _made(a: Argument) -> str:
    """The text that makes an argument."""
    window = f"storages[{a.storage}], {a.offset}, {a.sizes}, {a.strides}"
    made = f"torch.empty(0, dtype={DTYPES[a.dtype]}).set_({window})"
    made = f"{made}.conj()" if a.lazy == "conj" else f"torch._neg_view({made})" if a.lazy else made
    return f"torch.nn.Parameter({made}, {DTYPES[a.dtype].is_floating_point})" if a.held == "parameter" else made
