"""Runs passes in order: each sees what the earlier ones found, a failure says which pass it was, and dumps show every step."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import fx

from compiler.integrations.vllm_neuron.aliasing import AliasingOutputRewritePass
from compiler.integrations.vllm_neuron.devices import DeviceRewriterPass
from compiler.integrations.vllm_neuron.kernels import KernelCompiler, NkiKernelWriteBackendConfigPass
from compiler.integrations.vllm_neuron.out_of_place import InPlaceToOutOfPlacePass
from compiler.integrations.vllm_neuron.replica_groups import CollectiveReplicaGroupsPass

log = logging.getLogger(__name__)


class FXPass(Protocol):
    """A pass gives back the module and its metadata; one that gives back the module alone has none.

    The manager recompiles the module, unless the pass says that it does so itself (`recompiles`).
    """

    name: ClassVar[str]

    def run(self, gm: fx.GraphModule, **kwargs: Any) -> Any: ...


class FXPassManager:
    """A sequence of passes."""

    def __init__(self, passes: Iterable[FXPass] = ()) -> None:
        self.passes: list[FXPass] = list(passes)

    def add_pass(self, each: FXPass) -> None:
        self.passes.append(each)

    def run_passes(self, gm: fx.GraphModule, **kwargs: Any) -> tuple[fx.GraphModule, dict[str, dict[str, Any]]]:
        """Run every pass.

        Args:
            kwargs: handed to every pass, with the metadata of the earlier ones under their names. With
                `compiler_workdir` the graph is written there before the first pass and after each one.

        Raises:
            RuntimeError: a pass failed; its name is in the text and its error is the cause.
        """
        metadata: dict[str, dict[str, Any]] = {}
        workdir = kwargs.get("compiler_workdir")
        _dump(gm, workdir, "00_original")
        for number, each in enumerate(self.passes, 1):
            try:
                outcome = each.run(gm, **{**kwargs, **metadata})
            except Exception as error:
                raise RuntimeError(f"FX pass {each.name!r} failed: {error}") from error
            gm, found = outcome if isinstance(outcome, tuple) else (outcome, {})
            if not getattr(each, "recompiles", False):
                gm.recompile()
            metadata[each.name] = found
            log.debug("%s: %s", each.name, _readable(found, gm))
            _dump(gm, workdir, f"{number:02d}_after_{each.name}")
        return gm, metadata


def get_default_pass_manager(kernel_compiler: KernelCompiler | None = None) -> FXPassManager:
    """The passes between Dynamo and HLO, in the order in which each finds what it needs."""
    return FXPassManager(
        [
            DeviceRewriterPass(),
            NkiKernelWriteBackendConfigPass(kernel_compiler),
            AliasingOutputRewritePass(),
            InPlaceToOutOfPlacePass(),
            CollectiveReplicaGroupsPass(),
        ]
    )


def run_passes(
    gm: fx.GraphModule, kernel_compiler: KernelCompiler | None = None, **kwargs: Any
) -> tuple[fx.GraphModule, dict[str, dict[str, Any]]]:
    """`get_default_pass_manager(kernel_compiler).run_passes(gm, **kwargs)`."""
    return get_default_pass_manager(kernel_compiler).run_passes(gm, **kwargs)


_MANGLED = re.compile(r"^[lL]_+(?:self_+)?(?:(?:modules|parameters|buffers)_+)?")


def clean_name(name: str) -> str:
    """A Dynamo name as a person wrote it: `L_self_modules_fc_parameters_weight_` is `fc.weight`.

    >>> clean_name("L_self_modules_layers_modules_0_modules_fc_parameters_weight_")
    'layers.0.fc.weight'
    >>> clean_name("L_kv_")
    'kv'
    """
    if not _MANGLED.match(name):
        return name
    short = _MANGLED.sub("", name).strip("_")
    return re.sub(r"_+(?:modules|parameters|buffers)_+", ".", short)


def _readable(metadata: dict[str, Any], gm: fx.GraphModule) -> dict[str, Any]:
    """Metadata for a log, inputs by name."""
    names = [clean_name(node.name) for node in gm.graph.nodes if node.op == "placeholder"]
    shown = dict(metadata)
    if isinstance(shown.get("io_map"), dict):
        shown["io_map"] = {result: names[position] for result, position in shown["io_map"].items()}
    return shown


def _dump(gm: fx.GraphModule, workdir: str | os.PathLike[str] | None, name: str) -> None:
    """Graph text, generated code and replica groups; a dump that cannot be written is a warning."""
    if workdir is None:
        return
    try:
        folder = Path(workdir) / "passes"
        folder.mkdir(parents=True, exist_ok=True)
        groups: Sequence[str] = [
            f"# {node.name}: replica_groups={node.meta['replica_groups']}"
            for node in gm.graph.nodes
            if "replica_groups" in node.meta
        ]
        (folder / f"{name}.txt").write_text("\n".join([*groups, str(gm.graph), "", gm.code]))
    except Exception as error:  # a dump must never stop a compilation
        log.warning("the dump %s cannot be written: %s", name, error)
