"""Every kernel call carries its compiled configuration, and says which operands it writes and which result lives where.

    write-nki-backend-config{compiler="package.module:function"}

A kernel is compiled once for each distinct signature. The kernel compiler numbers tensors only; the calls count all arguments.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneType,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from compiler.errors import CompileError, UnsupportedError
from compiler.locations import source_of
from compiler.transforms.metadata import record
from dialects.arguments import Constant, Operand
from dialects.calls import HandleCall
from dialects.nki import KernelCall, Stored, has_collectives, memory_of_kernel
from dialects.types import element_name, geometry, row_major

KernelCompiler = Callable[..., tuple[str, Mapping[int, int]]]
"""`compiler(kernel_idx, args)`: configuration text, and {tensor operand: result}, operands counted among the tensors.

One that has parameters called `grid`, `arg_names` or `constant_args_key` gets these too.
"""

EXTRA = ("grid", "arg_names", "constant_args_key")


# -- compiling, whatever the form of the program -----------------------------------------------


@dataclass
class Configurations:
    """What the kernel compiler has said, by kernel and signature.

    Attributes:
        describe: of a tensor, what matters of it, as something with a hash; None of anything else.
    """

    compiler: KernelCompiler
    describe: Callable[[Any], Any]
    _known: dict[Any, tuple[str, dict[int, int]]] = field(default_factory=dict)

    def of(self, index: int, args: Sequence[Any], extra: Mapping[str, Any]) -> tuple[str, dict[int, int]]:
        """Configuration text, and {position among all arguments: result}, for a call of kernel `index`."""
        key = (index, self._signature(tuple(args)), *(self._signature(extra.get(name)) for name in EXTRA))
        if key not in self._known:
            wanted = {name: extra[name] for name in _parameters(self.compiler) if name in EXTRA and name in extra}
            text, table = self.compiler(index, tuple(args), **wanted)
            self._known[key] = (text, self._positions(args, table))
        return self._known[key]

    def _positions(self, args: Sequence[Any], table: Mapping[int, int]) -> dict[int, int]:
        places = [(position, value) for position, value in enumerate(args) for _ in self._tensors(value)]
        found: dict[int, int] = {}
        for operand, result in table.items():
            if not 0 <= int(operand) < len(places):
                raise CompileError(f"the kernel compiler names tensor {operand} of {len(places)}")
            position, value = places[int(operand)]
            if self.describe(value) is None:
                raise UnsupportedError(
                    f"result {result} is the new value of a tensor inside a list, which positions among arguments cannot name",
                    hint="pass that tensor as an argument of its own",
                )
            found[position] = int(result)
        return found

    def _tensors(self, value: Any) -> Iterator[Any]:
        if self.describe(value) is not None:
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self._tensors(item)

    def _signature(self, value: Any) -> Any:
        """What makes two calls compile to the same thing."""
        described = self.describe(value)
        if described is not None:
            return ("tensor", described)
        if isinstance(value, (list, tuple)):
            return (type(value).__name__, *map(self._signature, value))
        if isinstance(value, dict):
            return tuple((name, self._signature(item)) for name, item in value.items())
        if isinstance(value, (int, float, str, bool, type(None))):
            return (type(value), repr(value))
        try:
            hash(value)
        except TypeError:
            return id(value)
        return value


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


# -- on the IR ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a kernel is compiled for; the element type is spelled as in the IR (`f32`)."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def stride(self) -> tuple[int, ...]:
        return self.strides


@dataclass(frozen=True)
class WriteNkiBackendConfig(ModulePass):
    """See the module's text.

    Options:
        compiler: the kernel compiler, as `package.module:function`; it gets `TensorSpec`s for tensors.
    """

    name: ClassVar[str] = "write-nki-backend-config"
    compiler: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernel_compiler: KernelCompiler | None = None
        if self.compiler:
            try:
                kernel_compiler = pkgutil.resolve_name(self.compiler)
            except (ImportError, AttributeError, ValueError) as error:
                raise CompileError(f"compiler: {self.compiler!r} cannot be loaded: {error}") from None
        record(op, "kernel_call_count", write_nki_backend_config(op, kernel_compiler))


def write_nki_backend_config(
    module: ModuleOp, kernel_compiler: KernelCompiler | None, tensor: Callable[[TensorSpec], Any] = lambda spec: spec
) -> int:
    """Configure the kernel calls of a module; how many there were. Without a compiler, calls that have a configuration stay.

    Args:
        tensor: what the kernel compiler gets for a tensor.

    Raises:
        CompileError: a kernel cannot be compiled, or needs to be and there is no compiler.
    """
    specs: dict[int, TensorSpec] = {}

    def describe(value: Any) -> TensorSpec | None:
        return specs.get(id(value))

    def spec(value: SSAValue) -> Any:
        made = _spec(value.type)
        found = tensor(made)
        specs[id(found)] = made
        kept.append(found)
        return found

    kept: list[Any] = []  # ids stay valid while their owners live
    configurations = Configurations(kernel_compiler, describe) if kernel_compiler is not None else None
    calls = [op for op in module.walk() if isinstance(op, KernelCall)]
    for op in calls:
        location, node = source_of(op)
        try:
            _configure(op, configurations, spec)
        except CompileError as error:
            raise type(error)(_lead(op, error.message), location=location, node=node, hint=error.hint) from error
        except Exception as error:  # whatever a kernel compiler stumbles over
            raise CompileError(_lead(op, f"{type(error).__name__}: {error}"), location=location, node=node) from error
    return len(calls)


def _lead(op: KernelCall, message: str) -> str:
    return f"the backend configuration of kernel {op.kernel_idx.value.data} could not be written: {message}"


def _configure(op: KernelCall, configurations: Configurations | None, spec: Callable[[SSAValue], Any]) -> None:
    if configurations is None:
        if op.backend_config.data or op.operand_output_aliases.data:
            return
        raise CompileError("it has none yet, and no kernel compiler was given",
                           hint="write-nki-backend-config{compiler=package.module:function}")  # fmt: skip
    extra = {
        "grid": list(op.grid.data),
        "arg_names": [name.data for name in op.arg_names.data] if op.arg_names is not None else [],
        "constant_args_key": op.constant_args_key.value.data if op.constant_args_key is not None else -1,
    }
    args = [_argument(value, op.args, spec) for value in op.arguments.data]
    text, table = configurations.of(op.kernel_idx.value.data, args, extra)
    op.properties["backend_config"] = StringAttr(text)
    op.properties["operand_output_aliases"] = Stored(tuple(sorted(table.items())))
    op.properties.pop("has_collectives", None)
    if has_collectives(text):
        op.properties["has_collectives"] = UnitAttr()
    if isinstance(op, HandleCall) and op.effects.data is None:
        for operand, result in op.stored:
            if operand >= 0 and result < len(op.outs) and op.args[operand].type != op.outs[result].type:
                raise UnsupportedError(
                    f"result {result} lives in operand {operand}, a tensor of type {op.args[operand].type}, and was imported as "
                    f"fresh memory of type {op.outs[result].type}",
                    hint="configure the kernel before the program is imported, or pass the kernel a contiguous tensor",
                )
        op.properties.update(memory_of_kernel(op.target.data, len(op.args), len(op.outs), op.stored))


def _spec(kind: Attribute) -> TensorSpec:
    if isinstance(kind, MemRefType):
        window = geometry(kind)
        return TensorSpec(element_name(kind.element_type), tuple(window.sizes), tuple(window.strides))
    if isinstance(kind, TensorType):
        shape = tuple(kind.get_shape())
        return TensorSpec(element_name(kind.element_type), shape, tuple(row_major(shape)))
    raise UnsupportedError(f"a kernel takes tensors, not values of type {kind}")


def _argument(value: Attribute, operands: Sequence[SSAValue], spec: Callable[[SSAValue], Any]) -> Any:
    """What the kernel compiler gets for an argument."""
    match value:
        case Operand():
            return spec(operands[value.data])
        case NoneType():
            return None
        case IntegerAttr():
            return bool(value.value.data) if value.type == i1 else value.value.data
        case FloatAttr():
            return value.value.data
        case StringAttr():
            return value.data
        case ArrayAttr():
            return [_argument(item, operands, spec) for item in value.data]
        case Constant() if value.data.startswith("object:"):
            raise UnsupportedError(
                f"an argument is a Python object of type {value.data.removeprefix('object:')}, which the IR only names",
                hint="configure the kernel before the program is imported",
            )
        case Constant():
            return value.data
        case _:
            return element_name(value)


__all__ = [
    "Configurations",
    "EXTRA",
    "KernelCompiler",
    "TensorSpec",
    "WriteNkiBackendConfig",
    "write_nki_backend_config",
]
