"""The checks that compilation makes at its stages: none, or translation validation of every one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from xdsl.dialects.builtin import ModuleOp

from compiler.random_bits import SEEDS, seeded
from compiler.validation.inputs import require_offsets

if TYPE_CHECKING:
    from jaxlib.mlir import ir

    from compiler.frontend.inputs import Captured
    from compiler.program import Program
    from compiler.runtime.executable import Executable


class Checks:
    """Runs the stages of a compilation and checks nothing."""

    def apply(self, name: str, module: ModuleOp, transform: Callable[[ModuleOp], None]) -> None:
        """Run a pass."""
        transform(module)

    def seeded(self, module: ModuleOp, transform: Callable[[ModuleOp], int | None]) -> int | None:
        """Put a seed in the place of the hidden random state; what `transform` says is the number of the argument."""
        return transform(module)

    def lowered(self, module: ModuleOp, lower: Callable[[ModuleOp], ir.Module]) -> ir.Module:
        """Lower a program of values."""
        return lower(module)

    def exported(self, module: ModuleOp, stablehlo: ir.Module, hlo: bytes) -> None:
        """Look at the HLO module."""

    def executable(self, executable: Executable) -> None:
        """Look at the result."""


class Validation(Checks):
    """Runs every stage on random inputs, before and after."""

    def __init__(self, captured: Captured, imported: Program):
        from compiler.validation.imported import suitable
        from compiler.validation.validator import Validator

        examples = {item.name: item.tensor for item in captured.inputs if item.real}
        known = [examples.get(a.name, imported.state.get(a.name)) for a in imported.arguments]
        self.program, self.left = imported.module.clone(), imported.left
        require_offsets(imported.arguments, known, imported.offsets)
        self.validator = Validator.of(imported.module, known)
        self.validator.operators(imported.module)
        draws = any(a.kind == "generator" for a in imported.arguments)  # eager has another stream: nothing to compare
        if not draws:
            self.validator.rounds = suitable(captured, imported, self.validator.rounds)

    def apply(self, name: str, module: ModuleOp, transform: Callable[[ModuleOp], None]) -> None:
        self.validator.apply(name, module, transform)

    def seeded(self, module: ModuleOp, transform: Callable[[ModuleOp], int | None]) -> int | None:
        before = module.clone()
        number = transform(module)
        if number is not None:  # from here on the program has another argument
            for arguments in self.validator.rounds:
                seed = torch.remainder(arguments[number][0], SEEDS)
                started = [seeded(int(seed)) if n == number else x for n, x in enumerate(arguments)]
                arguments[number] = seed
                self.validator.same_but(number, "seed-parameter", (before, started), (module, arguments))
            self.program = module.clone()
        return number

    def lowered(self, module: ModuleOp, lower: Callable[[ModuleOp], ir.Module]) -> ir.Module:
        return self.validator.lowered(module, lower)

    def exported(self, module: ModuleOp, stablehlo: ir.Module, hlo: bytes) -> None:
        self.validator.exported(module, stablehlo, hlo)

    def executable(self, executable: Executable) -> None:
        from compiler.validation.whole import check_call

        again = not executable.signature.reshaped  # else its arguments are others after a call
        self.validator.called(
            self.program, executable.run, self.left, again, [n for n, _ in executable.signature.offsets]
        )
        check_call(executable, self.program, self.validator.rounds[-1], self.left)


__all__ = ["Checks", "Validation"]
