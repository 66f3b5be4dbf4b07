"""The whole road from a captured program to an executable."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr

from compiler.errors import CompileError
from compiler.export.hlo import to_hlo
from compiler.export.signature import Signature, signature_of
from compiler.frontend.capture import ALONE, capture
from compiler.frontend.importer import import_graph
from compiler.frontend.inputs import Captured
from compiler.frontend.kernels import READERS, KernelReader
from compiler.lowering.module import lower
from compiler.process_groups import resolve_process_group, this_rank
from compiler.program import Program
from compiler.random_bits import fresh_seed
from compiler.reference import entry
from compiler.runtime.client import compile_options
from compiler.runtime.executable import Executable
from compiler.runtime.guards import refuse_overlap_of_storages
from compiler.targets.neuron import COMMAND_FILE, command_line
from compiler.targets.neuron import check as check_neuron
from compiler.targets.neuron_module import finish_for_neuron
from compiler.torch_types import meta_tensor
from compiler.transforms.decompose import Decompose
from compiler.transforms.eliminate_clones import eliminate_whole_copies, has_writers_without_twin
from compiler.transforms.in_place_to_out_of_place import make_out_of_place
from compiler.transforms.print_alias import PrintAlias
from compiler.transforms.resolve_replica_groups import resolve_replica_groups
from compiler.transforms.seed_parameter import NAME as SEED
from compiler.transforms.seed_parameter import add_seed_parameter
from compiler.transforms.write_nki_backend_config import KernelCompiler, write_nki_backend_config
from compiler.validation.checks import Checks, Validation
from compiler.verify import verify
from dialects.alias import DONATED
from dialects.calls import HandleCall

TARGETS = ("xla", "neuron")

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Stages:
    """Seconds per stage of one compilation, and counts of what it handled."""

    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def _alone(function: Callable[P, R]) -> Callable[P, R]:
    """`function` in one thread at a time."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with ALONE:
            return function(*args, **kwargs)

    return run


@_alone
def compile_program(
    program: Any,
    example_inputs: Sequence[Any] | None,
    *,
    donate: Sequence[int | str] | str = (),
    target: str = "xla",
    trust: bool = False,
    validate: bool = False,
    xla_flags: Mapping[str, str | bool | int] | None = None,
    replica_groups: Mapping[str, Sequence[Sequence[int]]] | None = None,
    kernels: Sequence[KernelReader] = (),
    kernel_compiler: KernelCompiler | None = None,
) -> Executable:
    """See `compiler.compile`."""
    if target not in TARGETS:
        raise CompileError(f"unknown target {target!r}", hint=f"one of {', '.join(TARGETS)}")
    if xla_flags is not None and not isinstance(xla_flags, Mapping):
        raise CompileError(
            f"xla_flags are a {type(xla_flags).__name__}", hint="give values by the names of options, in a dict"
        )
    stages, readers = Stages(), (*kernels, *READERS)
    with stages.measure("capture"):
        captured = capture(program, example_inputs, trust=trust)
    with stages.measure("import"):
        imported = import_graph(captured, readers, reshapes=True)
        mark_donated(imported, donate)
        if kernel_compiler is not None:
            write_nki_backend_config(imported.module, kernel_compiler, meta_tensor)
        if target == "neuron":
            resolve_replica_groups(
                imported.module, replica_groups or {}, resolver=resolve_process_group, rank=this_rank()
            )
    function = entry(imported.module)
    stages.counts["imported"] = sum(1 for _ in function.body.block.ops)
    stages.counts["writes"] = sum(
        1 for op in function.body.block.ops if isinstance(op, HandleCall) and op.effects.writes()
    )
    checks = Validation(captured, imported) if validate else Checks()
    if has_writers_without_twin(function):
        with stages.measure("eliminate clones"):
            checks.apply("eliminate-clones", imported.module, lambda module: eliminate_whole_copies(entry(module)))
    with stages.measure("out of place"):
        checks.apply("in-place-to-out-of-place", imported.module, lambda module: make_out_of_place(entry(module)))
    with stages.measure("decompose"):
        checks.apply("decompose", imported.module, lambda module: Decompose().apply(Context(), module))
    with stages.measure("verify"):
        verify(imported.module)
    state = dict(imported.state)
    if target == "neuron":
        with stages.measure("seed"):
            seed = checks.seeded(imported.module, lambda module: add_seed_parameter(entry(module)))
            if seed is not None:
                del state[imported.arguments[seed].name]
                state[SEED] = fresh_seed()
    with stages.measure("StableHLO"):
        stablehlo = checks.lowered(imported.module, lambda module: lower(module, target=target))
    with stages.measure("HLO"):
        signature = signature_of(imported, function)
        refuse_overlap_of_storages(signature, _examples(captured))
        names = [b.name for b in signature.bindings]
        inputs = [", ".join(names[a] for a in signature.bound(p)) for p in range(len(signature.parameters))]
        proto = to_hlo(stablehlo, inputs, _output_names(signature, inputs) if target == "neuron" else ())
    checks.exported(imported.module, stablehlo, proto)
    files: dict[str, bytes] = {}
    if target == "neuron":
        with stages.measure("target"):
            proto = finish_for_neuron(proto)
            check_neuron(proto)
            files[COMMAND_FILE] = command_line().encode()
    executable = Executable(
        signature,
        proto,
        lambda: str(stablehlo),
        state=state,
        owner=imported.owner,
        training=imported.training,
        assumed=imported.assumed,
        stages=_stage_texts(captured, readers, imported.module, donate),
        options=compile_options(**xla_flags) if xla_flags else None,
        files=files,
    )
    executable.timings, executable.counts = stages.seconds, stages.counts
    checks.executable(executable)
    return executable


def _examples(captured: Captured) -> dict[str, torch.Tensor]:
    """The tensors that the program is compiled for, where they have memory."""
    return {
        i.name: i.tensor for i in captured.inputs if i.real and i.tensor is not None and i.tensor.device.type == "cpu"
    }


def _output_names(signature: Signature, parameters: Sequence[str]) -> list[str]:
    """The aliased output is called like its parameter."""
    aliased = {alias.output: parameters[alias.parameter] for alias in signature.aliases}
    return [aliased.get(k, f"output{k}") for k in range(len(signature.results))]


def _stage_texts(
    captured: Captured, readers: Sequence[KernelReader], functional: ModuleOp, donate: Sequence[int | str] | str
) -> dict[str, Any]:
    """The texts behind `Executable.ir`. The first two are imported again when asked for: keeping them costs more."""

    @_alone
    def handles() -> ModuleOp:
        imported = import_graph(captured, readers, reshapes=True)
        mark_donated(imported, donate)
        return imported.module

    def analyzed() -> str:
        module = handles()
        PrintAlias().apply(Context(), module)
        return str(module)

    return {"import": lambda: str(handles()), "analyzed": analyzed, "functional": lambda: str(functional)}


def mark_donated(program: Program, donate: Sequence[int | str] | str) -> None:
    """Put `alias.donated` on the arguments whose memory the caller gives up.

    Indices count the program's inputs; names are argument names, state included; "all" means all inputs.
    """
    if not donate:
        return
    inputs = [n for n, a in enumerate(program.arguments) if a.kind == "input"]
    names = {a.name: n for n, a in enumerate(program.arguments)}
    chosen: set[int] = set()
    for item in range(len(inputs)) if donate == "all" else _items(donate):
        if isinstance(item, str) and item in names:
            chosen.add(names[item])
        elif isinstance(item, int) and 0 <= item < len(inputs):
            chosen.add(inputs[item])
        else:
            raise CompileError(f"donate: there is no argument {item!r}", hint=f"names are {', '.join(names)}")
    function = entry(program.module)
    assert function.arg_attrs is not None
    function.properties["arg_attrs"] = ArrayAttr(
        DictionaryAttr({**a.data, DONATED: UnitAttr()}) if n in chosen else a
        for n, a in enumerate(function.arg_attrs.data)
    )


def _items(donate: Sequence[int | str] | str) -> Iterable[int | str]:
    if not isinstance(donate, Iterable):
        raise CompileError(
            f"donate={donate!r} is no list of arguments", hint="give indices or names in a list, or 'all'"
        )
    return (donate,) if isinstance(donate, str) else donate
