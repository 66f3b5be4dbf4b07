"""Passes by name, and pipelines of them as text: `in-place-to-out-of-place,remove-dead-values`.

The table of passes is plain text, so that listing it loads nothing; a pass is imported when a pipeline names it.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


class Entry(NamedTuple):
    where: str
    help: str


PASSES: dict[str, Entry] = {
    "print-alias": Entry(
        "compiler.transforms.print_alias:PrintAlias", "annotate every handle with its root and byte region"
    ),
    "donate-activations": Entry(
        "compiler.transforms.donate_activations:DonateActivations",
        "make calls that may consume their activations functional, and arguments given to them donated",
    ),
    "lower-implementations": Entry(
        "compiler.transforms.lower_implementations:LowerImplementations",
        "choose an implementation for each call that has several; what it would overwrite is copied first",
    ),
    "eliminate-clones": Entry(
        "compiler.transforms.eliminate_clones:EliminateClones", "remove copies that nothing can tell from their source"
    ),
    "in-place-to-out-of-place": Entry(
        "compiler.transforms.in_place_to_out_of_place:InPlaceToOutOfPlace",
        "replace memory by values: nothing is written and nothing aliases afterwards",
    ),
    "decompose": Entry(
        "compiler.transforms.decompose:Decompose", "replace value calls without a lowering rule by simpler ones"
    ),
    "rewrite-devices": Entry(
        "compiler.transforms.rewrite_devices:RewriteDevices",
        "put the target in place of every device that a call mentions",
    ),
    "write-nki-backend-config": Entry(
        "compiler.transforms.write_nki_backend_config:WriteNkiBackendConfig",
        "compile each distinct kernel once; its calls then say what they write",
    ),
    "resolve-replica-groups": Entry(
        "compiler.transforms.resolve_replica_groups:ResolveReplicaGroups", "spell out which ranks each collective joins"
    ),
    "scatters-to-inserts": Entry(
        "compiler.transforms.scatters_to_inserts:ScattersToInserts",
        "make functional scatters of slices inserts of windows",
    ),
    "seed-parameter": Entry(
        "compiler.transforms.seed_parameter:SeedParameter",
        "replace the hidden random state by a seed, the last parameter",
    ),
    "remove-dead-values": Entry(
        "compiler.transforms.remove_dead_values:RemoveDeadValues", "remove pure operations whose results nobody uses"
    ),
}
"""Pass name -> where its class is, and one line of help."""

TARGETS = ("mlir", "stablehlo", "hlo-text", "hlo-proto", "aliases-json")
"""The forms in which a program can be written."""

DEFAULT = "in-place-to-out-of-place,remove-dead-values"
"""From an imported program to values that can be lowered. Alias analysis is part of the first pass."""


class UsageError(ValueError):
    """The command is wrong, not the program."""


@dataclass(frozen=True)
class Pipeline:
    """Passes in order. `str` gives back a text that `parse` reads to an equal pipeline."""

    passes: tuple[ModulePass, ...]

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Read `name{option=value option=value,value},name`; UsageError says what is wrong with it."""
        from xdsl.utils.arg_spec import parse_pipeline
        from xdsl.utils.exceptions import ArgSpecParseError

        try:
            specs = tuple(parse_pipeline(text))
        except ArgSpecParseError as error:
            raise UsageError(f"in the pipeline: {' '.join(str(error).splitlines()[-1:]).strip() or text}") from None
        except Exception as error:
            raise UsageError(f"in the pipeline {text!r}: {error}") from None
        passes: list[ModulePass] = []
        for spec in specs:
            entry = PASSES.get(spec.name)
            if entry is None:
                raise UsageError(f"no pass is called {spec.name!r} (--list-passes shows them)")
            try:
                passes.append(pkgutil.resolve_name(entry.where).from_spec(spec))
            except ValueError as error:
                raise UsageError(f"pass {spec.name}: {error}") from None
        return Pipeline(tuple(passes))

    def __str__(self) -> str:
        return ",".join(str(p.spec()) for p in self.passes)

    def run(
        self,
        context: Context,
        module: ModuleOp,
        after: Callable[[ModulePass, ModuleOp, float], None] = lambda _pass, _module, _seconds: None,
        apply: Callable[[ModulePass, ModuleOp], None] | None = None,
    ) -> None:
        """Apply every pass; `after` sees each one with the module it left and the seconds it took.

        `apply` stands in for the pass's own `apply`: validation runs the program before and after.
        """
        for each in self.passes:
            start = time.perf_counter()
            if apply is None:
                each.apply(context, module)
            else:
                apply(each, module)
            after(each, module, time.perf_counter() - start)
