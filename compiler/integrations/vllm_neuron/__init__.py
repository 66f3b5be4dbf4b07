"""The FX passes between Dynamo and the Neuron compiler, with the names and metadata of the plugin they replace.

    manager = get_default_pass_manager(kernel_compiler)
    gm, metadata = manager.run_passes(gm, target_device="xla")
    metadata["aliasing_output_rewrite"]["io_map"]        # result -> input

No pass decides by an operator's name: schemas, strides and byte ranges decide.
"""

from typing import Any

from compiler.integrations.vllm_neuron import tables
from compiler.integrations.vllm_neuron.aliasing import AliasingOutputRewritePass
from compiler.integrations.vllm_neuron.caching import cache_key
from compiler.integrations.vllm_neuron.devices import DeviceRewriterPass
from compiler.integrations.vllm_neuron.hlo import HloProgram, convert, convert_fx_to_hlo
from compiler.integrations.vllm_neuron.kernels import NkiKernelWriteBackendConfigPass
from compiler.integrations.vllm_neuron.manager import FXPassManager, clean_name, get_default_pass_manager, run_passes
from compiler.integrations.vllm_neuron.out_of_place import InPlaceToOutOfPlacePass
from compiler.integrations.vllm_neuron.replica_groups import CollectiveReplicaGroupsPass

__all__ = [
    "AliasingOutputRewritePass",
    "CollectiveReplicaGroupsPass",
    "DeviceRewriterPass",
    "FXPassManager",
    "InPlaceToOutOfPlacePass",
    "NkiKernelWriteBackendConfigPass",
    "HloProgram",
    "cache_key",
    "clean_name",
    "convert",
    "convert_fx_to_hlo",
    "get_default_pass_manager",
    "run_passes",
]

_TABLES = {
    "ALIASING_ATEN_OPS": "aliasing_aten_ops",
    "ALIASING_METHODS": "aliasing_methods",
    "INPLACE_METHODS": "inplace_methods",
}


def __getattr__(name: str) -> Any:
    """The tables of names, generated when somebody asks."""
    if name in _TABLES:
        return getattr(tables, _TABLES[name])()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
