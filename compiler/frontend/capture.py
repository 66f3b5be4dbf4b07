"""Any PyTorch program as a graph before functionalization, with the real tensors behind its inputs.

In-place writes, views and sharing are those of the program. A callable or a module is traced on fake tensors that share
storages as the real ones do; a graph that exists already is taken as it is, never traced again.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx
from torch._dynamo.convert_frame import compile_lock
from torch._export.utils import _compiling_state_context
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, UnsupportedFakeTensorException
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from compiler.errors import CompileError, UnsupportedError
from compiler.export.trees import is_size
from compiler.frontend.data_checks import DataChecks
from compiler.frontend.exported import capture_exported
from compiler.frontend.inputs import Captured, Input, unique
from compiler.frontend.keywords import name_keywords
from compiler.frontend.lifting import GRADIENTS, Lifting, held_tensors
from compiler.frontend.logs import quiet_torch
from compiler.frontend.pt2 import load_exported
from compiler.frontend.scalars import SYMBOLIC, numbers_to_tensors
from compiler.frontend.sources import code_source, keep_user_frames, node_source, traceback_source
from compiler.frontend.subscripts import Subscripts
from compiler.frontend.surroundings import Attributes, Reached, is_constant, links, plain_values, refusal
from compiler.program import Assumptions, Leaf

ALONE = compile_lock
"""Held by whoever captures and imports: tracing in PyTorch has one state for all threads. It is the lock of torch.compile."""


def capture(
    program: Any,
    example_inputs: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    *,
    trust: bool = False,
) -> Captured:
    """The graph of `program`.

    Args:
        program: a callable, an nn.Module, an ExportedProgram, the path of a `.pt2` file, or an fx.GraphModule.
        example_inputs: positional arguments; nested lists, dicts and Python values are welcome.
        trust: load a `.pt2` file even if that runs code from it.

    Raises:
        CompileError: the program cannot be captured; `location` is the user's line.
    """
    if isinstance(program, (str, os.PathLike)):
        program = load_exported(program, trust=trust)
    if isinstance(program, ExportedProgram):
        return capture_exported(program, example_inputs, kwargs)
    if isinstance(program, fx.GraphModule):
        return _graph_module(program, example_inputs, kwargs)
    if not callable(program):
        raise CompileError(
            f"cannot capture a {type(program).__name__}",
            hint="give a callable, an nn.Module, an ExportedProgram, a .pt2 path or an fx.GraphModule",
        )
    if isinstance(program, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise UnsupportedError(
            "TorchScript runs where it cannot be traced", hint="give the Python program it was made from"
        )
    if example_inputs is None or isinstance(example_inputs, torch.Tensor):
        raise CompileError("example inputs are missing", hint="give the positional arguments as a tuple")
    if isinstance(example_inputs, (str, bytes, Mapping)) or not isinstance(example_inputs, Iterable):
        raise CompileError(
            f"example inputs are a {type(example_inputs).__name__}", hint="give the positional arguments as a tuple"
        )
    return _traced(program, tuple(example_inputs), dict(kwargs or {}))


# -- a graph that exists -----------------------------------------------------------------------


def _graph_module(
    graph: fx.GraphModule, example_inputs: Sequence[Any] | None, kwargs: dict[str, Any] | None = None
) -> Captured:
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    in_spec, out_spec = _structures(graph)
    if example_inputs is None:
        given: list[Any] = [_hinted(n) for n in placeholders]
    elif in_spec is not None:
        given, spec = pytree.tree_flatten((tuple(example_inputs), kwargs or {}))
        if spec != in_spec:
            raise CompileError(f"the graph takes arguments of the structure {in_spec}, {spec} was given")
    else:
        given = list(example_inputs)
    taken = len(given)
    given += [node.args[0] for node in placeholders[taken:] if node.args]
    if len(given) != len(placeholders):
        raise CompileError(f"the graph has {len(placeholders)} inputs, {len(given)} were given")
    inputs: list[Input] = []
    for node, value in zip(placeholders, given, strict=True):
        if isinstance(value, torch.Tensor):
            inputs.append(Input(node.name, "input", value, real=not isinstance(value, FakeTensor)))
        else:
            inputs.append(Input(node.name, "input", None, constant=value))
    leaves = [
        Leaf(i) if item.tensor is not None else Leaf(constant=item.constant) for i, item in enumerate(inputs[:taken])
    ]
    output = next(n for n in graph.graph.nodes if n.op == "output")
    # FX keeps its own list and dict types; the caller gets plain ones.
    plain = pytree.tree_map(lambda x: x, _plain(output.args[0]))
    found, out_tree = pytree.tree_flatten(plain)
    out_leaves = tuple(Leaf(i) if isinstance(x, fx.Node) else Leaf(constant=x) for i, x in enumerate(found))
    in_tree = in_spec or pytree.tree_structure((tuple(0 for _ in leaves), {}))
    out_tree = out_spec or out_tree
    held = held_tensors(graph)
    return Captured(graph, tuple(inputs), in_tree, tuple(leaves), out_tree, out_leaves, held=held)


def _structures(graph: fx.GraphModule) -> tuple[pytree.TreeSpec | None, pytree.TreeSpec | None]:
    """The structures of `(args, kwargs)` and of the result that a graph with flat inputs and results is called with."""
    info = getattr(graph.graph._codegen, "pytree_info", None)
    if info is None or info.in_spec is None or info.out_spec is None:
        return None, None
    if info.in_spec.num_children != 2:
        return None, None
    args, kwargs = info.in_spec.children()
    return (info.in_spec, info.out_spec) if args.type is tuple and kwargs.type is dict else (None, None)


def _hinted(node: fx.Node) -> Any:
    for key in ("val", "example_value"):
        if key in node.meta:
            return node.meta[key]
    raise CompileError(
        f"input {node.name} has neither an example nor metadata", node=node.name, hint="give example_inputs"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if type(value) is tuple:
        return tuple(_plain(item) for item in value)
    return value


# -- tracing -----------------------------------------------------------------------------------


@dataclass
class _Outcome:
    """What the traced call returned."""

    tree: pytree.TreeSpec | None = None
    leaves: list[Leaf] = field(default_factory=list)
    rebound: dict[str, int] = field(default_factory=dict)
    past_names: tuple[torch.Tensor, ...] = ()
    counted: tuple[torch.Tensor, ...] = ()


def _traced(program: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured:
    owner = program if isinstance(program, torch.nn.Module) else None
    state = list(_state(owner)) if owner is not None else []
    taken = {name for item in state for name in item.names}
    paths, in_tree = pytree.tree_flatten_with_path((args, kwargs), is_leaf=is_size)
    user: list[Input] = []
    for path, value in paths:
        name = unique(_input_name(program, path), taken)
        tensor = value if isinstance(value, torch.Tensor) else None
        if tensor is None and not is_constant(value):
            raise CompileError(
                f"the argument {name} is a {type(value).__qualname__}, whose inside cannot be seen",
                hint="pass tensors, numbers and strings, in lists, dicts and tuples, or register the type with "
                "torch.utils._pytree.register_pytree_node or register_dataclass",
            )
        if tensor is not None and _takes_part(tensor):
            raise UnsupportedError(
                f"the argument {name} is a {type(tensor).__qualname__}, whose class has a part in each operator",
                hint="pass a plain tensor, as x.as_subclass(torch.Tensor) is",
            )
        user.append(Input(name, "input", tensor, real=True, constant=None if tensor is not None else value))
    inputs = [Input(s.names[0], s.kind, s.tensor, real=True) for s in state] + [i for i in user if i.tensor is not None]
    # Shapes stay static; a number from data is an unbacked symbol, until it becomes a tensor again.
    shapes = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=False)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes)
    fakes: dict[int, torch.Tensor] = {}
    for item in inputs:
        assert item.tensor is not None
        if torch.nn.parameter.is_lazy(item.tensor):
            raise UnsupportedError(
                f"{item.name} has no elements yet", hint="run the module once eagerly before compiling"
            )
        if item.tensor.is_nested or item.tensor.layout != torch.strided or item.tensor.device.type == "meta":
            kind = "nested" if item.tensor.is_nested else item.tensor.layout
            raise UnsupportedError(
                f"{item.name} is a {kind} tensor on {item.tensor.device}", hint="pass strided tensors that have memory"
            )
        if id(item.tensor) not in fakes:
            try:
                fakes[id(item.tensor)] = mode.from_tensor(item.tensor, static_shapes=True)
            except UnsupportedFakeTensorException as error:
                kind = f"a tensor of {item.tensor.dtype}"
                raise UnsupportedError(f"{item.name} is {kind}: {error}", hint="pass plain tensors") from error
    outcome = _Outcome()

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        proxies = get_proxy_mode()
        assert proxies is not None
        # By itself the tracer keeps frames of functions called `forward` only.
        proxies.tracer._filter_traceback_frames = keep_user_frames
        rest = iter(tensors[len(state) :])
        leaves = [next(rest) if item.tensor is not None else item.constant for item in user]
        call_args, call_kwargs = pytree.tree_unflatten(leaves, in_tree)
        lifting = Lifting(proxies, inputs, tensors)
        subscripts = Subscripts(proxies.tracer.graph, lifting.keep)
        made_at = functools.partial(_made_at, proxies.tracer)
        attributes = [set(vars(tensor)) for tensor in tensors]
        with _Substituted(program, owner, state, tensors[: len(state)]) as substituted:
            with lifting, subscripts, DataChecks():
                returned = program(*call_args, **call_kwargs)
            outcome.counted = lifting.on(subscripts.located)
            subscripts.check_held(outcome.counted)
            outcome.past_names = tuple(lifting.past_names.values())
            after, after_tree = pytree.tree_flatten((call_args, call_kwargs), is_leaf=is_size)
            if after_tree != in_tree or any(a is not b for a, b in zip(after, leaves, strict=True)):
                raise UnsupportedError(
                    "the call changes a list or dict that it is given",
                    hint="return the new one, or write into its tensors",
                )
            for item, tensor, before in zip(inputs, tensors, attributes, strict=True):
                if new := sorted(key for key in vars(tensor).keys() - before if not key.startswith("_")):
                    raise UnsupportedError(
                        f"the call sets the attribute {new[0]} of the tensor {item.name}",
                        hint="keep it in a tensor; a compiled program changes elements only",
                    )
            found, outcome.tree = pytree.tree_flatten(returned, is_leaf=is_size)
            results: list[torch.Tensor] = []
            for value in found:
                if isinstance(value, torch.Tensor):
                    outcome.leaves.append(Leaf(len(results)))
                    results.append(value)
                elif isinstance(value, SYMBOLIC):
                    outcome.leaves.append(Leaf(len(results), number=True))
                    results.append(value)  # type: ignore[arg-type]
                elif is_constant(value):
                    outcome.leaves.append(Leaf(constant=value))
                else:
                    raise UnsupportedError(
                        f"the call returns a {type(value).__qualname__}",
                        hint="return tensors, numbers and strings, in lists, dicts and tuples",
                    )
            for name, value in substituted.rebound(made_at, lifting.is_used, found).items():
                outcome.rebound[name] = len(results)
                results.append(value)
            subscripts.check([value for value in results if isinstance(value, torch.Tensor)])
        name_keywords(proxies.tracer.graph)
        return results

    tracer = make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True, record_stack_traces=True)
    try:
        # Libraries ask torch.compiler.is_exporting(). Inside Dynamo the tracer would take Dynamo's fake mode for ours.
        # Nodes inside branches and loops keep the lines that Dynamo has noted for them.
        with quiet_torch(), torch.no_grad(), _compiling_state_context(), tracing(None), preserve_node_meta():
            graph = tracer(*(fakes[id(item.tensor)] for item in inputs))
    except CompileError as error:
        if error.location or type(error) not in (CompileError, UnsupportedError):
            raise
        where = str(traceback_source(error) or code_source(program) or "")
        raise type(error)(error.message, location=where, node=error.node, hint=error.hint) from error
    except Exception as error:
        raise _trace_error(error) from error
    assert outcome.tree is not None
    numbers_to_tensors(graph)
    numbers = {id(item): i for i, item in enumerate(inputs)}
    in_leaves = tuple(Leaf(numbers[id(i)]) if i.tensor is not None else Leaf(constant=i.constant) for i in user)
    training = {name: module.training for name, module in owner.named_modules()} if owner is not None else {}
    found = held_tensors(graph)
    ties = tuple(tuple(slot.names) for slot in state if len(slot.names) > 1)
    assumed = Assumptions(ties, plain_values(owner), links(program, (*found, *outcome.past_names)))
    return Captured(
        graph, tuple(inputs), in_tree, in_leaves, outcome.tree, tuple(outcome.leaves), owner, outcome.rebound, (), training,
        held=found, assumed=assumed, traced=True, counted=outcome.counted,
    )  # fmt: skip


def _trace_error(error: Exception) -> CompileError:
    where = str(traceback_source(error) or "")
    kind = type(error).__name__
    data_dependent = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")
    # The last is a composite operator that reads its operand in C++, as tensor_split does its tensor of sections.
    if kind in data_dependent or (isinstance(error, RuntimeError) and "data is not allocated yet" in str(error)):
        return UnsupportedError(
            "the program takes a Python value or a shape from the data of a tensor", location=where,
            hint="keep it a tensor: torch.where, index_copy_, masked_fill",
        )  # fmt: skip
    if isinstance(error, NotImplementedError) and "argument of type" in str(error):
        return UnsupportedError(
            f"an operator takes an {error}, which has no place in a graph", location=where,
            hint="use tensors: x.set_(y) for x.set_(y.untyped_storage(), ...), with y.as_strided",
        )  # fmt: skip
    if isinstance(error, RuntimeError) and "does not require grad" in str(error):
        return UnsupportedError(
            "the program asks for a gradient, and none is recorded: a program runs under torch.no_grad()",
            location=where, hint=GRADIENTS,
        )  # fmt: skip
    return CompileError(f"the program fails on the example inputs: {kind}: {error}", location=where)


def _input_name(program: Callable[..., Any], path: tuple[Any, ...]) -> str:
    """`x`, `caches_0_k`: the formal argument, then the keys inside it."""
    first, *rest = path
    code = getattr(program.forward if isinstance(program, torch.nn.Module) else program, "__code__", None)
    keys = [str(getattr(k, "idx", getattr(k, "key", getattr(k, "name", k)))) for k in rest]
    if first.idx == 0 and code is not None:
        skip = 1 if isinstance(program, torch.nn.Module) else 0
        position = int(keys[0])
        if position + skip < code.co_argcount:
            return "_".join([code.co_varnames[position + skip], *keys[1:]])
        if code.co_flags & 0x04:
            extra = position + skip - code.co_argcount
            return "_".join([code.co_varnames[code.co_argcount + code.co_kwonlyargcount], str(extra), *keys[1:]])
    return "_".join(keys if first.idx else ["arg" + keys[0], *keys[1:]])


@dataclass
class _Slot:
    """One parameter or buffer: every place that holds it, the first by name first."""

    tensor: torch.Tensor
    kind: Literal["parameter", "buffer"]
    names: list[str] = field(default_factory=list)
    places: list[tuple[dict[str, Any], str]] = field(default_factory=list)


def _state(owner: torch.nn.Module) -> Iterator[_Slot]:
    """Parameters and buffers; tied names are one slot."""
    found: dict[int, _Slot] = {}
    for prefix, module in owner.named_modules(remove_duplicate=False):
        groups: tuple[tuple[Literal["parameter", "buffer"], dict[str, Any]], ...] = (
            ("parameter", module._parameters), ("buffer", module._buffers),
        )  # fmt: skip
        for kind, held in groups:
            for name, tensor in held.items():
                if tensor is not None:
                    slot = found.setdefault(id(tensor), _Slot(tensor, kind))
                    slot.names.append(f"{prefix}.{name}" if prefix else name)
                    slot.places.append((held, name))
    yield from found.values()


def _made_at(tracer: Any, value: object) -> str:
    """The user's line of the operator that made the first tensor in a traced value; "" where none did."""
    for leaf in pytree.tree_leaves(value):
        slot = get_proxy_slot(leaf, tracer, None) if isinstance(leaf, torch.Tensor) else None
        if slot is not None and (source := node_source(slot.proxy.node)) is not None:
            return str(source)
    return ""


def _takes_part(tensor: torch.Tensor) -> bool:
    """Whether operators ask the class of a tensor what to do. Modes that are asked too, such as a default device, say nothing of it."""
    kind = type(tensor)
    return kind is not torch.Tensor and kind.__torch_function__ is not torch._C._disabled_torch_function_impl


class _Substituted:
    """The module with its tensors replaced for one traced call; on exit it, and what the program reaches, is as it was."""

    def __init__(
        self, program: Any, owner: torch.nn.Module | None, state: Sequence[_Slot], tensors: Sequence[torch.Tensor]
    ) -> None:
        self._owner, self._state, self._tensors = owner, state, tensors
        self._attributes = Attributes(owner)
        self._reached = Reached(program, owner)

    def __enter__(self) -> _Substituted:
        for slot, tensor in zip(self._state, self._tensors, strict=True):
            for held, name in slot.places:
                held[name] = tensor
        for module in self._owner.modules() if self._owner is not None else ():
            if isinstance(module, torch.nn.RNNBase):
                module._init_flat_weights()  # its own list of its weights, which it renews when they change
        self._substituted = Attributes(self._owner)
        return self

    def rebound(
        self, made_at: Callable[[object], str], is_used: Callable[[torch.Tensor], bool], returned: Sequence[object]
    ) -> dict[str, torch.Tensor]:
        """What the call bound to a name of a parameter or buffer, where it is another tensor than before, or to one of a plain
        attribute whose tensor it neither used nor `returned`, nor bound to another name."""
        attributes = self._substituted.check(made_at, is_used)
        found = {name: new for name, (_, new) in attributes.items()}
        self._reached.check(made_at)
        parameters = {id(t) for s, t in zip(self._state, self._tensors, strict=True) if s.kind == "parameter"}
        for slot, tensor in zip(self._state, self._tensors, strict=True):
            for (held, name), qualified in zip(slot.places, slot.names, strict=True):
                now = held.get(name)
                if now is tensor:
                    continue
                if not isinstance(now, torch.Tensor):
                    raise UnsupportedError(
                        f"the call sets {qualified} to {type(now).__name__}", hint="keep it a tensor"
                    )
                if slot.kind == "parameter" and id(now) not in parameters:
                    raise UnsupportedError(
                        f"the call binds the parameter {qualified} to a new one", location=made_at(now),
                        hint="write into it with copy_ under torch.no_grad()",
                    )  # fmt: skip
                if len({(id(place), key) for place, key in slot.places}) > 1:
                    raise UnsupportedError(
                        f"the call binds {qualified} to a new tensor, and {', '.join(slot.names)} are one tensor",
                        hint="write into it with copy_, or untie them",
                    )
                found[qualified] = now
                break  # further names are the same place
        kept = {id(value) for value in (*returned, *found.values())}
        for name, (old, new) in attributes.items():
            if id(old) in kept:
                raise refusal(name, old, new, made_at(new))
        return found

    def __exit__(self, *error: object) -> None:
        self._attributes.restore()
        self._reached.restore()
