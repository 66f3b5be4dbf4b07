"""fx2hlo: PyTorch programs that mutate memory, as pure HLO with a true input/output alias table.

    exe = compiler.compile(program, example_inputs)
    outs = exe(*inputs)            # same structure, same mutations, same sharing as eager
    exe.save(directory); exe = compiler.load(directory)

Importing this package imports neither torch nor jaxlib; the functions do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from compiler.errors import CompileError, GuardError, UnsupportedError, ValidationError

if TYPE_CHECKING:
    import torch

    from compiler.integrations.fx_clones import CloneReport
    from compiler.runtime.executable import Executable

__all__ = [
    "CompileError", "Executable", "GuardError", "UnsupportedError", "ValidationError", "compile", "eliminate_clones", "load",
    "register_custom_call", "register_lowering",
]  # fmt: skip


def compile(
    program: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    donate: Sequence[int | str] | str = (),
    target: str = "xla",
    trust: bool = False,
    validate: bool = False,
    xla_flags: Mapping[str, str | bool | int] | None = None,
    replica_groups: Mapping[str, Sequence[Sequence[int]]] | None = None,
    kernels: Sequence[Any] = (),
    kernel_compiler: Any = None,
) -> Executable:
    """Compile a PyTorch program that may mutate its arguments and its module's state.

    Args:
        program: a callable, an nn.Module, an ExportedProgram, the path of a `.pt2` file, or an fx.GraphModule.
        example_inputs: positional arguments, nested as the program takes them. Their shapes, strides, dtypes, Python
            values and sharing of memory are what calls must have. An exported program brings its own.
        donate: inputs whose memory the caller gives up: indices, names, or "all".
        target: "xla", or "neuron": only what the Neuron compiler is documented to accept, checked before anything is written.
        trust: load a `.pt2` file even if that runs code from it.
        validate: check every pass by running the program before and after it on random inputs (slow).
        xla_flags: XLA's own options by name for the embedded compiler, such as `xla_backend_optimization_level`.
        replica_groups: for target "neuron", by process group: the partition of the world that it is part of. Of other groups
            the live process group is asked.
        kernels: readers of other toolkits' kernel operators (`compiler.frontend.kernels.KernelReader`).
        kernel_compiler: `compiler(kernel_idx, args)` for kernel calls (docs/neuron.md).

    Raises:
        ValidationError: a pass changed what the program computes, or an operator aliases or writes memory undeclared.
        UnsupportedError: the program is valid PyTorch, and HLO or this compiler cannot express it.
        CompileError: the input is wrong. Both carry the user's source line.
    """
    from compiler.compilation import compile_program

    return compile_program(
        program,
        example_inputs,
        donate=donate,
        target=target,
        trust=trust,
        validate=validate,
        xla_flags=xla_flags,
        replica_groups=replica_groups,
        kernels=kernels,
        kernel_compiler=kernel_compiler,
    )


def register_lowering(op: Any, rule: Any) -> None:
    """Say how an operator of yours becomes StableHLO.

    Args:
        op: `torch.ops.ns.name`, one of its overloads, or "ns::name".
        rule: `rule(builder, call)` gives the results as MLIR values, and after them the new value of every operand that the
            operator's schema marks as written (`call.writes`), in order.
    """
    from compiler.lowering.custom import register_lowering

    register_lowering(op, rule)


def register_custom_call(
    op: Any, target: str, *, backend_config: str = "", frontend_attributes: Mapping[str, str] | None = None
) -> None:
    """Lower an operator of yours to one custom call on its tensor operands.

    Operands that the schema marks as written come back as additional results, declared as aliases of the operands.
    """
    from compiler.lowering.custom import register_custom_call

    register_custom_call(op, target, backend_config=backend_config, frontend_attributes=frontend_attributes)


def eliminate_clones(
    gm_or_graph: torch.fx.GraphModule | torch.fx.Graph,
    example_inputs: Sequence[Any] | None = None,
    *,
    donated: Sequence[int | str | torch.fx.Node] = (),
    objective: Literal["bytes", "count"] = "bytes",
    hoist_reads: bool = False,
    overwrites: Mapping[torch._ops.OpOverload, Sequence[str]] = MappingProxyType({}),
) -> CloneReport:
    """Remove from an FX graph, in place, the copies that nothing can tell from their source.

    Args:
        example_inputs: one per placeholder; without them, the placeholders' `meta["val"]` or `meta["example_value"]`.
        donated: placeholders, by position, name or node, whose memory the caller gives up.
        objective: save most bytes, or remove most copies.
        hoist_reads: move nodes that only read above a write where that frees a copy.
        overwrites: per operator the parameters of which it writes every element without looking at one; a schema says
            only that they are written.

    Returns:
        What is gone (`removed`, `bytes_saved`), and for each copy that stays the reason (`kept`).
    """
    from compiler.integrations import fx_clones

    return fx_clones.eliminate_clones(
        gm_or_graph,
        example_inputs,
        donated=donated,
        objective=objective,
        hoist_reads=hoist_reads,
        overwrites=overwrites,
    )


def load(directory: str | PathLike[str]) -> Executable:
    """The executable that `Executable.save` wrote; runs without the original program."""
    from compiler.runtime.executable import Executable

    return Executable.load(directory)


def __getattr__(name: str) -> Any:
    if name == "Executable":
        from compiler.runtime.executable import Executable

        return Executable
    raise AttributeError(f"module 'compiler' has no attribute {name!r}")
