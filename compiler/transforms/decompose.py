"""Every value call has a lowering rule, or PyTorch has no simpler form of it.

A call without a rule is replaced by what PyTorch's decomposition of that one operator computes: traced alone on
contiguous stand-ins, imported like any program, freed of views and writes, and put in place of the call. What the
replacement calls is replaced in turn. Calls of one signature (overload, operand types, plain arguments) are
traced once for each run of the pass. A call that nobody can simplify stays, for lowering to report.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass

from compiler.errors import CompileError
from dialects.alias import Bindings
from dialects.calls import ValueCall
from dialects.types import element_name

if TYPE_CHECKING:
    import torch
    from torch import fx

ToValues = Callable[["fx.GraphModule", Sequence["torch.Tensor"]], ModuleOp]
"""A traced graph and its example inputs -> its functional IR, one function argument or binding per input."""


@dataclass(frozen=True)
class Decompose(ModulePass):
    """See the module's text. The rules are those of `compiler.lowering`."""

    name: ClassVar[str] = "decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from compiler.lowering import load_rules
        from compiler.lowering.registry import RULES

        load_rules()
        decompose(op, RULES, graph_to_values)


def decompose(module: ModuleOp, supported: Container[str], to_values: ToValues) -> None:
    """Replace the value calls of every function whose overload is not `supported`."""
    decomposer = _Decomposer(supported, to_values)
    for function in module.ops:
        if isinstance(function, FuncOp) and function.body.blocks:
            decomposer.rewrite(function.body.block)


def graph_to_values(graph: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> ModuleOp:
    """The functional IR of a traced graph, by the same road that whole programs take."""
    from compiler.frontend.capture import capture
    from compiler.frontend.importer import import_graph
    from compiler.transforms.in_place_to_out_of_place import InPlaceToOutOfPlace

    module = import_graph(capture(graph, inputs)).module
    InPlaceToOutOfPlace(carriers=False).apply(Context(), module)
    return module


class _Decomposer:
    """The replacements found so far; None for a signature that has none, or whose search is under way."""

    def __init__(self, supported: Container[str], to_values: ToValues):
        self.supported = supported
        self.to_values = to_values
        self.replacements: dict[tuple[Any, ...], FuncOp | None] = {}

    def rewrite(self, block: Block) -> None:
        """Replace the calls in one block."""
        for op in tuple(block.ops):
            for region in op.regions:
                self.rewrite(region.block)
            if isinstance(op, ValueCall) and op.rule not in self.supported and op.writes is None:
                replacement = self._replacement(op)
                if replacement is not None:
                    _splice(op, replacement)

    def _replacement(self, op: ValueCall) -> FuncOp | None:
        signature = _signature(op)
        if signature not in self.replacements:
            self.replacements[signature] = None
            function = self._trace(op)
            if function is not None:
                self.rewrite(function.body.block)
                calls = [inner for inner in function.body.block.ops if isinstance(inner, ValueCall)]
                if any(_signature(inner) == signature for inner in calls):
                    function = None  # it comes back to itself: nothing is gained
            self.replacements[signature] = function
        return self.replacements[signature]

    def _trace(self, op: ValueCall) -> FuncOp | None:
        """A function of the operands that computes the results by simpler calls."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.utils import _pytree as pytree

        from compiler.frontend.logs import quiet_torch
        from compiler.torch_types import DTYPES, python_argument

        implementation = _implementation(op.target.data)
        if implementation is None:
            return None

        def run(*operands: torch.Tensor) -> list[torch.Tensor]:
            arguments = [python_argument(a, operands) for a in op.arguments.data]
            keywords = op.keywords.data if op.keywords is not None else {}
            results = implementation(*arguments, **{name: python_argument(a, operands) for name, a in keywords.items()})
            tensors = [r for r in pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]
            # Each in memory of its own, and in the type of what it is stored into where it is written in place.
            return [
                r.to(kind).clone(memory_format=torch.contiguous_format) for r, kind in zip(tensors, kinds, strict=True)
            ]

        types = [cast("TensorType[Attribute]", operand.type) for operand in op.args]
        kinds = [DTYPES[element_name(cast("TensorType[Attribute]", r.type).element_type)] for r in op.outs]
        with torch.no_grad(), FakeTensorMode():
            stand_ins = [torch.empty(t.get_shape(), dtype=DTYPES[element_name(t.element_type)]) for t in types]
        try:
            with quiet_torch(), torch.no_grad():
                graph = make_fx(run, tracing_mode="fake")(*stand_ins)
            module = self.to_values(graph, stand_ins)
        except Exception:  # whatever a foreign implementation stumbles over, the call stays as it is and is reported
            return None
        return _checked(op, module)


def _signature(op: ValueCall) -> tuple[Any, ...]:
    types = tuple(value.type for value in (*op.args, *op.outs))
    return (op.target.data, op.arguments, *op.settings().items(), len(op.args), types)


def _implementation(target: str) -> Callable[..., Any] | None:
    """What computes an overload by other operators: our decomposition, PyTorch's, or its own composite kernel."""
    import torch
    from torch._decomp import core_aten_decompositions, decomposition_table

    from compiler.decompositions import DECOMPOSITIONS, load_decompositions
    from compiler.torch_types import overload

    load_decompositions()
    if target in DECOMPOSITIONS:
        return DECOMPOSITIONS[target]

    try:
        operator = overload(target)
    except CompileError:
        return None
    if not isinstance(operator, torch._ops.OpOverload):
        return None
    found = decomposition_table.get(operator) or core_aten_decompositions().get(operator)
    if found is not None:
        return found
    for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
        if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key):
            dispatch_key = getattr(torch._C.DispatchKey, key)
            return lambda *args, **kwargs: operator._op_dk(dispatch_key, *args, **kwargs)
    return None


def _checked(op: ValueCall, module: ModuleOp) -> FuncOp | None:
    """The traced function, if it is one of the operands alone and gives results of the right types."""
    function = next(iter(f for f in module.ops if isinstance(f, FuncOp)), None)
    if function is None or len(_parameters(function)) != len(op.args):
        return None
    last = function.body.block.last_op
    if not isinstance(last, ReturnOp) or [v.type for v in last.operands] != [v.type for v in op.outs]:
        return None
    used = [(a, p) for a, p in zip(op.args, _parameters(function), strict=True) if p is not None]
    return function if all(a.type == p.type for a, p in used) else None


def _parameters(function: FuncOp) -> list[SSAValue | None]:
    """The function argument that holds each original argument; None for one nobody looks at."""
    arguments = list(function.body.block.args)
    bindings = function.attributes.get("alias.bindings")
    if not isinstance(bindings, Bindings):
        return list(arguments)
    return [arguments[b.parameter] if b.parameter >= 0 else None for b in bindings.data]


def _splice(op: ValueCall, function: FuncOp) -> None:
    """Put a copy of the function's body in place of the call; every copy comes from the call's source line."""
    parameters = _parameters(function)
    mapped: dict[SSAValue, SSAValue] = {p: a for p, a in zip(parameters, op.args, strict=True) if p is not None}
    block = op.parent_block()
    assert block is not None
    *body, last = function.body.block.ops
    for inner in body:
        copy = inner.clone(mapped)
        copy.location = op.location
        block.insert_op_before(copy, op)
    for result, value in zip(op.outs, last.operands, strict=True):
        result.replace_all_uses_with(mapped.get(value, value))
    block.erase_op(op)
