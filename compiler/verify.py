"""The verifier that runs between the stages: one linear walk, one short message with a location.

It holds afterwards that every operand is defined before its use and in scope, that use lists and parent
pointers agree with the operations, that symbols are unique and found, that every block ends with
its terminator, that every operation meets its own rules, and that what a function says about memory
(roots, alias table, output plan) fits its types. A function of values that names the program over handles it stands
for (`alias.program = @program`) has its tables proved.
"""

from __future__ import annotations

from typing import NoReturn

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr, UnregisteredOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, SymbolTable
from xdsl.utils.exceptions import VerifyException

from compiler.errors import CompileError
from compiler.locations import node_name, place_of
from compiler.memory_rules import Storages, verify_signature
from dialects.calls import HandleCall
from dialects.control import CondOp, WhileOp
from dialects.traits import RulesOfTypes

PROGRAM = "alias.program"
"""Attribute of a function of values: the function over handles that it stands for."""


def verify(module: ModuleOp) -> None:
    """Raise CompileError at the first operation that breaks a rule."""
    try:
        _Verifier().check(module)
    except RecursionError:
        raise CompileError("operations are nested too deeply", location=place_of(module)) from None


class _Verifier:
    def __init__(self) -> None:
        self.traits: dict[type[Operation], tuple[bool, bool, bool]] = {}
        self.of_types: dict[type[Operation], bool] = {}
        self.met: set[tuple[object, ...]] = set()
        self.symbols: dict[Operation, dict[str, Operation]] = {}
        self.uses: dict[SSAValue, int] = {}
        self.order: list[Operation] = []
        self.storages = Storages()

    def check(self, module: ModuleOp) -> None:
        self.operation(module, set(), (module,))
        for value, count in self.uses.items():
            self.use_list(value, count)
        # Rules of operations walk through the structure themselves: only now that it is sound.
        # What a branch or a loop does follows from the operations inside it, so their rules come first.
        for op in self.order:
            if not isinstance(op, CondOp | WhileOp):
                self.rules(op)
        for op in reversed(self.order):
            if isinstance(op, CondOp | WhileOp):
                self.rules(op)
        for op in self.order:
            if isinstance(op, FuncOp) and PROGRAM in op.attributes:
                self.tables(op, module)

    def traits_of(self, op: Operation) -> tuple[bool, bool, bool]:
        """(terminates a block, hides the values around it, its blocks need a terminator)."""
        kind = type(op)
        found = self.traits.get(kind)
        if found is None:
            found = self.traits[kind] = (
                op.has_trait(IsTerminator, value_if_unregistered=False),
                op.has_trait(IsolatedFromAbove, value_if_unregistered=False),
                not op.has_trait(NoTerminator),
            )
        return found

    def operation(self, op: Operation, scope: set[SSAValue], tables: tuple[Operation, ...]) -> None:
        """Check `op` and what is inside it; `scope` holds the values that it may use."""
        uses = self.uses
        for number, operand in enumerate(op._operands):
            if operand not in scope:
                self.fail_scope(op, number, operand)
            uses[operand] = uses.get(operand, 0) + 1
        for number, result in enumerate(op.results):
            if result.op is not op or result.index != number:
                fail(op, f"result {number} does not point back to the operation")
            uses.setdefault(result, 0)
        self.order.append(op)
        if op.regions and op.has_trait(SymbolTable, value_if_unregistered=False):
            self.symbols[op] = _symbols(op)
        for name, value in op.properties.items():
            if isinstance(value, SymbolRefAttr):
                self.symbol(op, name, value, tables)
        if op.regions:
            isolated = self.traits_of(op)[1]
            inner_tables = (*tables, op) if op in self.symbols else tables
            for region in op.regions:
                self.region(op, region, set() if isolated else scope, inner_tables)

    def rules(self, op: Operation) -> None:
        """What the operation itself demands, and what it says about memory."""
        try:
            alike = self.alike(op)
            if alike not in self.met:
                op.verify_()
                if alike is not None:
                    self.met.add(alike)
            if isinstance(op, FuncOp):
                verify_signature(op)
                self.storages.arguments(op)
            elif isinstance(op, HandleCall):
                self.storages.call(op)
        except VerifyException as error:
            fail(op, " ".join(str(error).split()))

    def alike(self, op: Operation) -> tuple[object, ...] | None:
        """Equal for operations that meet the same rules, or None when the rules of `op` speak of more than its types.

        The module keeps types and properties alive, and equal ones are mostly one object: identity tells them apart.
        """
        kind = type(op)
        of_types = self.of_types.get(kind)
        if of_types is None:
            of_types = self.of_types[kind] = op.has_trait(RulesOfTypes, value_if_unregistered=False)
        if not of_types or op.attributes or op.regions or op.successors:
            return None
        operands, results, properties = op._operands, op.results, op.properties
        types = [id(value.type) for value in (*operands, *results)]
        return (kind, len(operands), *types, *properties, *map(id, properties.values()))

    def region(self, parent: Operation, region: Region, scope: set[SSAValue], tables: tuple[Operation, ...]) -> None:
        if region.parent is not parent:
            fail(parent, "a region does not point back to the operation")
        if region.first_block is not region.last_block:
            fail(parent, "a region has one block: control flow is an operation with regions")
        for block in region.blocks:
            if block.parent is not region:
                fail(parent, "a block does not point back to its region")
            self.block(parent, block, scope, tables)

    def block(self, parent: Operation, block: Block, scope: set[SSAValue], tables: tuple[Operation, ...]) -> None:
        added: list[SSAValue] = list(block.args)
        scope.update(added)
        for argument in block.args:
            self.uses.setdefault(argument, 0)
        last = block.last_op
        needs_terminator = self.traits_of(parent)[2]
        if needs_terminator and last is None:
            fail(parent, "a block without operations: it needs a terminator")
        op = block.first_op
        while op is not None:
            if op.parent is not block:
                fail(op, "the operation does not point back to its block")
            terminates = self.traits_of(op)[0]
            if terminates and op is not last:
                fail(op, "a terminator is the last operation of its block")
            if not terminates and op is last and needs_terminator and not isinstance(op, UnregisteredOp):
                fail(op, "the last operation of the block is no terminator")
            self.operation(op, scope, tables)
            scope.update(op.results)
            added += op.results
            op = op.next_op
        # What a region defines is out of scope after it.
        scope.difference_update(added)

    def tables(self, values: FuncOp, module: ModuleOp) -> None:
        """What a function of values says about memory is what the program does that it names."""
        from compiler.analysis.table_verifier import verify_function

        reference = values.attributes[PROGRAM]
        if not isinstance(reference, SymbolRefAttr):
            fail(values, f"`{PROGRAM}` is the name of a function: @program")
        handles = self.symbols.get(module, {}).get(reference.root_reference.data)
        if not isinstance(handles, FuncOp) or "alias.plan" in handles.attributes:
            fail(values, f"`{PROGRAM}` names @{reference.root_reference.data}, which is no function over handles")
        try:
            proved = verify_function(handles, values)
        except CompileError as error:
            fail(values, error.message)
        if not proved:
            fail(values, "nobody can prove its tables: it writes an element twice, or memory in too many pieces")

    def symbol(self, op: Operation, name: str, reference: SymbolRefAttr, tables: tuple[Operation, ...]) -> None:
        found = self.symbols.get(tables[-1], {}).get(reference.root_reference.data)
        if found is None:
            fail(op, f"`{name}` names @{reference.root_reference.data}, which is not defined")

    def use_list(self, value: SSAValue, count: int) -> None:
        """The uses that a value lists are exactly the operands that name it."""
        listed = 0
        for use in value.uses:
            listed += 1
            user, index = use._operation, use._index
            if index >= len(user._operands) or user._operands[index] is not value:
                fail(user, f"operand {index} lists a use that is not there")
            if user.parent is None and not isinstance(user, ModuleOp):
                fail(_owner(value), f"a result is used by `{user.name}`, which is in no block")
        if listed != count:
            fail(_owner(value), f"a value lists {listed} uses, but {count} operands name it")

    def fail_scope(self, op: Operation, number: int, operand: SSAValue) -> NoReturn:
        owner = operand.owner
        if isinstance(owner, Operation) and owner.parent is None:
            reason = f"the result of `{owner.name}`, which has been removed"
        elif isinstance(owner, Operation) and owner.parent is op.parent:
            reason = "defined after its use"
        else:
            reason = "not defined in this scope"
        fail(op, f"operand {number} is {reason}")


def _symbols(table: Operation) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for region in table.regions:
        for block in region.blocks:
            for op in block.ops:
                name = op.properties.get("sym_name") or op.attributes.get("sym_name")
                if isinstance(name, StringAttr) and found.setdefault(name.data, op) is not op:
                    fail(op, f"a second definition of @{name.data}")
    return found


def _owner(value: SSAValue) -> Operation:
    owner = value.owner
    if isinstance(owner, Operation):
        return owner
    parent = owner.parent_op()
    assert parent is not None
    return parent


def fail(op: Operation, message: str) -> NoReturn:
    raise CompileError(f"`{op.name}`: {message}", location=place_of(op), node=node_name(op.location))
