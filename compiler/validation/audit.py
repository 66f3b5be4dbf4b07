"""Operators do to memory what the IR says of them: results share with the operands named, and nothing else is written.

A custom operator can return memory of an operand, keep a buffer and return it again, or write an operand, without a
word of it in its schema. Compilers believe schemas; here they are compared with what the operator really does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation, SSAValue

from compiler.errors import CompileError, ValidationError
from compiler.locations import source_of
from compiler.reference import entry, run_handles
from compiler.torch_types import DTYPES
from compiler.validation.answers import Answers
from compiler.validation.inputs import copies
from compiler.validation.observe import seeded, tensor_difference
from dialects.alias import ResultAlias
from dialects.calls import HandleCall
from dialects.types import element_name, geometry

IMPORT = "import"
AGREE = "make the fake (meta) kernel of the operator agree with the real one"


def audit(module: ModuleOp, arguments: Sequence[torch.Tensor]) -> None:
    """Run a program over handles and compare what every operator does to memory with its attributes.

    Raises:
        ValidationError: for the first operator that does something else; pass "import".
    """
    own = copies(arguments)
    watcher = _Auditor(entry(module).body.block.args, own)
    with seeded(), Answers():
        try:
            run_handles(module, own, watcher)
        except CompileError:
            raise
        except Exception as error:
            if watcher.running is None:
                raise
            raise _fault(
                watcher.running,
                f"fails, or leaves operands that cannot be read: {type(error).__name__}: {str(error).splitlines()[0]}",
                "an operator may touch the memory that its operands show, and leaves their storages as large as they are",
            ) from error


class _Auditor:
    """Remembers the storage of every handle; storages stay alive, so that their identities stay theirs."""

    def __init__(self, handles: Sequence[SSAValue], arguments: Sequence[torch.Tensor]):
        self.running: HandleCall | None = None
        self.storages: dict[int, str] = {}
        self.alive: list[torch.UntypedStorage] = []
        for handle, tensor in zip(handles, arguments, strict=True):
            self.remember(tensor, f"argument {handle.name_hint or handle.index}")  # type: ignore[attr-defined]

    def remember(self, tensor: torch.Tensor, name: str) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.storages:
            self.alive.append(storage)
            self.storages[storage._cdata] = name

    def __call__(self, op: Operation, operands: Sequence[Any]) -> Callable[[Sequence[torch.Tensor]], None]:
        assert isinstance(op, HandleCall)
        self.running = op
        written = op.effects.writes()
        before = {
            n: t.clone()
            for n, t in enumerate(operands)
            if isinstance(t, torch.Tensor) and written is not None and not self._shared(n, written, operands)
        }

        def done(results: Sequence[torch.Tensor]) -> None:
            for n, old in before.items():
                if found := tensor_difference(old, operands[n], exact=True):
                    raise _fault(op, f"writes operand {n}, which it does not declare: the operand {found}",
                                 f"mark the operand as written in the schema (Tensor(a{n}!))")  # fmt: skip
            for n, (alias, result) in enumerate(zip(op.aliases.data, results, strict=True)):
                self.result(op, n, alias, result, operands)

        return done

    @staticmethod
    def _shared(number: int, written: Sequence[int], operands: Sequence[Any]) -> bool:
        """Whether a declared write may change this operand."""
        storage = operands[number].untyped_storage()._cdata
        return any(
            isinstance(operands[w], torch.Tensor) and operands[w].untyped_storage()._cdata == storage for w in written
        )

    def result(
        self, op: HandleCall, number: int, alias: ResultAlias, result: torch.Tensor, operands: Sequence[Any]
    ) -> None:
        storage = result.untyped_storage()
        self.geometry(op, number, result)
        if not storage.nbytes():
            return
        if alias.kind == "fresh":
            owner = next(
                (f"operand {n}" for n, t in enumerate(operands)
                 if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata == storage._cdata),
                self.storages.get(storage._cdata),
            )  # fmt: skip
            if owner is not None:
                raise _fault(
                    op, f"returns memory of {owner} as result {number}, which it does not declare",
                    "declare the alias in the schema (Tensor(a) x -> Tensor(a)), or return a .clone()",
                )  # fmt: skip
            self.remember(result, f"an earlier result, of {op.target.data}")
        elif alias.kind in ("same", "view"):
            source = operands[alias.operand]
            if source.untyped_storage()._cdata != storage._cdata:
                raise _fault(
                    op, f"declares result {number} as memory of operand {alias.operand}, but returns other memory",
                    "return the operand or a view of it, or drop the alias from the schema",
                )  # fmt: skip
            kinds = [cast(MemRefType, v.type) for v in (op.args[alias.operand], op.outs[number])]
            declared = geometry(kinds[1]).offset * result.itemsize - geometry(kinds[0]).offset * source.itemsize
            found = int(result.storage_offset()) * result.itemsize - int(source.storage_offset()) * source.itemsize
            if result.numel() and source.numel() and geometry(kinds[0]).static and declared != found:
                raise _fault(
                    op, f"result {number} starts {found} bytes after operand {alias.operand}, not {declared}", ""
                )

    def geometry(self, op: HandleCall, number: int, result: torch.Tensor) -> None:
        """Sizes and the strides that are ever taken are those of the type."""
        kind = op.outs[number].type
        if not isinstance(kind, MemRefType):
            return
        if result.dtype != (promised := DTYPES[element_name(kind.element_type)]):
            raise _fault(
                op, f"gives result {number} the dtype {result.dtype}; its fake kernel promised {promised}", AGREE
            )
        if not geometry(kind).static:
            return
        window = geometry(kind)
        have = [(n, s) for n, s in zip(result.shape, result.stride(), strict=True) if n > 1]
        want = [(n, s) for n, s in zip(window.sizes, window.strides, strict=True) if n > 1]
        if tuple(result.shape) != window.sizes or (result.numel() and have != want):
            raise _fault(
                op,
                f"gives result {number} sizes {list(result.shape)} and strides {list(result.stride())}; its fake kernel "
                f"promised {list(window.sizes)} and {list(window.strides)}",
                AGREE,
            )


def _fault(op: HandleCall, message: str, hint: str) -> ValidationError:
    location, node = source_of(op)
    return ValidationError(
        f"{op.target.data} {message}",
        pass_name=IMPORT,
        location=location,
        node=node,
        hint=hint,
    )


__all__ = ["IMPORT", "audit"]
