"""What goes wrong, said to the person who has to fix it: what, where, why, and what to do instead."""

from __future__ import annotations


class CompileError(Exception):
    """The program or the input cannot be compiled.

    Attributes:
        location: the user's `file:line`, or "" when there is none.
        node: the FX node or operation concerned, or "".
        hint: what to do instead, or "".
    """

    def __init__(self, message: str, *, location: str = "", node: str = "", hint: str = ""):
        self.message, self.location, self.node, self.hint = message, location, node, hint
        where = f"{location}: " if location else ""
        which = f" (node {node})" if node else ""
        super().__init__(f"{where}{message}{which}" + (f"\n  instead: {hint}" if hint else ""))


class UnsupportedError(CompileError):
    """The program is valid PyTorch, and this compiler cannot express it."""


class GuardError(CompileError, RuntimeError):
    """A call breaks what was assumed when the program was compiled; nothing has run."""


class ValidationError(CompileError):
    """A pass changed what the program computes, or an operator does what its schema does not say.

    Attributes:
        pass_name: the pass that is at fault ("import" for what the operators say of themselves).
        slice: the text of a minimal program that shows the fault, or "".
    """

    def __init__(
        self, message: str, *, pass_name: str, slice: str = "", location: str = "", node: str = "", hint: str = ""
    ):
        self.pass_name, self.slice = pass_name, slice
        hint += f"\n{slice}" if slice else ""
        super().__init__(f"pass {pass_name}: {message}", location=location, node=node, hint=hint)
