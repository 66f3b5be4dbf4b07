"""An out-of-place FX graph as the bytes of an HLO module for the Neuron compiler: no device and no lazy tensors needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import fx
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from compiler.errors import CompileError, UnsupportedError
from compiler.export.hlo import to_hlo
from compiler.frontend.constants import constant_data
from compiler.frontend.kernels import READERS, KernelReader, on_values
from compiler.integrations.vllm_neuron.host import HostProgram, import_host
from compiler.integrations.vllm_neuron.manager import clean_name
from compiler.integrations.vllm_neuron.replica_groups import groups_in
from compiler.lowering.module import lower
from compiler.process_groups import resolve_process_group, this_rank
from compiler.targets.neuron import check
from compiler.targets.neuron_module import finish_for_neuron
from compiler.transforms.decompose import Decompose
from compiler.transforms.flat_interface import flatten_interface
from compiler.transforms.in_place_to_out_of_place import make_out_of_place
from compiler.transforms.resolve_replica_groups import Permutations, resolve_replica_groups
from compiler.transforms.scatters_to_inserts import scatters_to_inserts
from compiler.transforms.seed_parameter import NAME as SEED
from compiler.transforms.seed_parameter import add_seed_parameter
from compiler.verify import verify
from dialects.alias import Root
from dialects.types import form


@dataclass(frozen=True)
class HloProgram:
    """An HLO module and how its numbers relate to the graph's.

    Attributes:
        proto: serialised HloModuleProto.
        parameters: FX input of each HLO parameter, but for the seed.
        results: FX result -> HLO output, for results that are tensors; the tensors of one that is a structure are the
            outputs in between.
        unused_input_indices: FX inputs that are no parameter: unused, or no tensors.
        aliases: HLO output -> HLO parameter.
        has_rng_seed_parameter: whether there is one more parameter, the last: an s64 seed for random operators.
    """

    proto: bytes
    parameters: tuple[int, ...]
    results: dict[int, int]
    unused_input_indices: tuple[int, ...]
    aliases: dict[int, int]
    has_rng_seed_parameter: bool = False


def convert_fx_to_hlo(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any] | None = None,
    aliasing_map: Mapping[int, int] | None = None,
    replica_groups: Mapping[str, Sequence[Sequence[int]]] | None = None,
    permutations: Permutations | None = None,
    kernels: Sequence[KernelReader] = (),
) -> bytes:
    """`convert(...).proto`."""
    return convert(gm, example_inputs, aliasing_map, replica_groups, permutations, kernels).proto


def convert(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any] | None = None,
    aliasing_map: Mapping[int, int] | None = None,
    replica_groups: Mapping[str, Sequence[Sequence[int]]] | None = None,
    permutations: Permutations | None = None,
    kernels: Sequence[KernelReader] = (),
) -> HloProgram:
    """Lower a graph that the passes have made pure.

    HLO parameters are the used tensor inputs in order, HLO outputs the tensor results in order, repeated ones included;
    captured tensors become constants. A graph that draws random numbers takes a seed as its last parameter. The graph
    itself is left alone.

    Args:
        example_inputs: real or fake tensors; without them, the placeholders' metadata.
        replica_groups: partition of the world by process group; by default what the replica groups pass stored, and for other
            groups the regular partition that the live process group shows.
        permutations: the permutations of ranks in use, by process group (`resolve-replica-groups` says when they are needed).
        kernels: readers of other toolkits' kernel operators.
        aliasing_map: FX result -> FX input whose memory it must be written to (`io_map`). No other input may have bytes of it.

    Raises:
        UnsupportedError: something has no lowering, or the Neuron compiler does not accept it; all of it is listed.
        CompileError: the aliasing map is wrong.
    """
    host = import_host(gm, example_inputs, kernels=tuple(map(on_values, (*kernels, *READERS))), draws=True)
    module, function = host.program.module, host.function
    resolve_replica_groups(
        module,
        groups_in(gm) if replica_groups is None else replica_groups,
        resolver=resolve_process_group,
        permutations=permutations,
        rank=this_rank(),
    )
    _refuse_sharing(host, (aliasing_map or {}).values())
    make_out_of_place(function, carriers=False)
    position_of = {n: host.position(n) for n in range(len(host.inputs))}
    argument_of = {position: n for n, position in position_of.items() if position >= 0}
    tensors = {position: n for n, position in enumerate(host.result_positions()) if position is not None}
    aliases: dict[int, int] = {}
    for result, position in (aliasing_map or {}).items():
        if int(result) not in tensors or int(position) not in argument_of:
            raise CompileError(
                f"aliasing_map entry {result}: {position} does not join a tensor result with a tensor input"
            )
        aliases[tensors[int(result)]] = argument_of[int(position)]
    constants = {
        n: constant_data(host.program.state[argument.name])
        for n, argument in enumerate(host.program.arguments)
        if host.inputs[n] is None and argument.kind != "generator"
    }
    seed = add_seed_parameter(function)
    flat = flatten_interface(function, aliases, constants)
    scatters_to_inserts(function)
    Decompose().apply(Context(), module)
    verify(module)
    names = [SEED if n == seed else clean_name(host.program.arguments[n].name) for n in flat.parameters]
    of_input = dict(zip(flat.parameters, names, strict=True))
    outputs = [of_input[aliases[k]] if k in aliases else f"output{k}" for k in range(len(flat.results))]
    proto = finish_for_neuron(to_hlo(lower(module, target="neuron"), names, outputs))
    check(proto)
    number_of = {argument: number for number, argument in enumerate(flat.parameters)}
    parameters = tuple(position_of[n] for n in flat.parameters if n != seed)
    return HloProgram(
        proto,
        parameters,
        tensors,
        tuple(sorted(set(range(len(host.placeholders))) - set(parameters))),
        {result: number_of[argument] for result, argument in sorted(aliases.items())},
        has_rng_seed_parameter=seed in flat.parameters,
    )


def _refuse_sharing(host: HostProgram, written: Iterable[int]) -> None:
    """The pure graph has a value for each input; where one is written that has bytes of another, both would change."""
    extents = [form(cast("MemRefType[Attribute]", value.type)).extent for value in host.function.body.block.args]
    roots = [cast(Root, attributes.data["alias.root"]).data.id for attributes in host.function.arg_attrs or ()]
    positions = set(map(int, written))
    for argument, (low, high) in enumerate(extents):
        if host.position(argument) not in positions:
            continue
        for other, (start, end) in enumerate(extents):
            if other != argument and roots[other] == roots[argument] and max(low, start) < min(high, end):
                name, second = (host.program.arguments[n].name for n in (argument, other))
                raise UnsupportedError(
                    f"inputs {name} and {second} share memory and a result is written to {name}, but a pure graph takes "
                    "them as independent",
                    hint="pass the whole tensor once and take the views inside the program",
                )
