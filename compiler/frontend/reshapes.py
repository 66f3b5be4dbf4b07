"""Arguments whose metadata a program changes in place (`x.t_()`): which can be carried out, and what they end up as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from compiler.errors import UnsupportedError
from compiler.frontend.forms import Form, Handle, Root
from compiler.frontend.inputs import Input
from compiler.program import Reshaped


class Reshapes:
    """The changes of one program. Only those of inputs that are passed once are carried out, if `allowed` at all."""

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed
        self._before: dict[int, tuple[Handle, Form]] = {}
        self._changed: set[int] = set()

    def start(self, inputs: Sequence[Input], handles: Mapping[int, Handle]) -> None:
        """The arguments as the program is given them; `handles` by the id of their input."""
        times = Counter(id(item.tensor) for item in inputs)
        for item in inputs if self._allowed else ():
            if item.kind == "input" and item.real and times[id(item.tensor)] == 1:
                handle = handles[id(item)]
                self._before[id(handle)] = handle, handle.form

    def change(self, handle: Handle, root: Root, nested: bool) -> None:
        """An argument gets other metadata, on the memory of `root`; `nested`: in a branch or in the body of a loop."""
        if root is not handle.root:
            raise UnsupportedError(
                "an argument is given other memory than the caller's, which an executable cannot do to the caller's tensor",
                hint="write into the argument with copy_, or return the other tensor",
            )
        if id(handle) not in self._before or nested:
            raise UnsupportedError(
                "the metadata of an argument changes, which can be carried out for an input tensor that is passed once, "
                "outside of branches and loops, by an executable of `compile`",
                hint="call the out-of-place form, or change a view of the argument",
            )
        self._changed.add(id(handle))

    def ends(self, positions: Mapping[int, int]) -> dict[int, Reshaped]:
        """What the arguments that were changed end up as; `positions` are those of their handles, by id."""
        found: dict[int, Reshaped] = {}
        for number in sorted(self._changed, key=positions.__getitem__):
            handle, before = self._before[number]
            after = handle.form
            if after.offset < before.offset:
                raise UnsupportedError(
                    "an argument is made to begin before its first element", hint="pass the tensor that begins there"
                )
            found[positions[number]] = Reshaped(after.sizes, after.strides, after.offset - before.offset)
        return found

    def returned(self, results: Sequence[Handle], positions: Mapping[int, int]) -> dict[int, int]:
        """Results that are such an argument itself: result -> argument."""
        return {n: positions[id(handle)] for n, handle in enumerate(results) if id(handle) in self._changed}


__all__ = ["Reshapes"]
