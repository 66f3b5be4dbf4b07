"""A program through the Neuron passes, and the pure graph that they make served the way their host does.

The graph is a function of values: it touches no input. Result k with `io_map[k] = i` is produced in the memory of input i
and the caller gets input i itself; `output_views` names views of inputs; all other results have memory of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from compiler.errors import CompileError
from compiler.integrations.vllm_neuron import AliasingOutputRewritePass, FXPassManager, InPlaceToOutOfPlacePass
from tools.fuzz.judge import offsets
from tools.fuzz.observe import bytes_of_storage, observe
from tools.fuzz.program import Program
from tools.replay_artifact import assign

Runner = Callable[..., Any]


def served(program: Program) -> Runner:
    """The program as the host runs it; the graph is Dynamo's for even seeds, else one of ATen calls."""
    arguments = program.make_arguments()
    if program.seed % 2 == 0 and not any(a.lazy for a in program.arguments):
        run = _through_dynamo(program)
        if run is not None:
            return run
    with torch.no_grad():
        graph = make_fx(program.function(), tracing_mode="fake")(*arguments)
    flat = rewritten(graph, arguments)

    def call(*given: torch.Tensor) -> Any:
        results = flat(*given)
        if program.bare and len(program.outputs) < 2:
            return results[0] if results else None
        return tuple(results)

    return call


def _through_dynamo(program: Program) -> Runner | None:
    """None: Dynamo cannot capture the program as one graph."""
    from torch import _dynamo as dynamo
    from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException

    dynamo.reset()

    def backend(graph: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Runner:
        return rewritten(graph, inputs)

    run = torch.compile(program.function(), backend=backend, fullgraph=True, dynamic=False)
    try:
        with torch.no_grad():
            run(*program.make_arguments())
    except BackendCompilerFailed as error:
        raise error.inner_exception from None
    except TorchDynamoException:
        return None
    return run


def rewritten(graph: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., list[Any]]:
    """The graph made out of place, as a function that serves it and gives the flat results.

    Raises:
        CompileError: a pass refuses.
        AssertionError: a call finds that the contract is broken.
    """
    passes = FXPassManager([AliasingOutputRewritePass(), InPlaceToOutOfPlacePass()])
    try:
        graph, metadata = passes.run_passes(graph, example_inputs=inputs)
    except RuntimeError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, CompileError):
            cause = cause.__cause__
        raise (cause or error) from None
    graph.graph.lint()
    writers = [node.name for node in graph.graph.nodes if _writes(node)]
    assert not writers, f"the graph still writes in place: {writers}"
    found = metadata["aliasing_output_rewrite"]
    io_map, views, count = found["io_map"], found["output_views"], found["original_output_count"]
    assert len(set(io_map.values())) == len(io_map), f"two results are one input: {io_map}"

    def call(*given: torch.Tensor) -> list[Any]:
        lent = _lent(given)
        before = [(bytes_of_storage(t), t._version) for t in lent]
        with torch.no_grad():
            values = _flat(graph(*lent))
            touched = [n for n, t in enumerate(lent) if (bytes_of_storage(t), t._version) != before[n]]
            assert not touched, f"the rewritten graph writes inputs {touched} itself"
            assert len(values) >= max([count, *(k + 1 for k in io_map)]), f"only {len(values)} results"
            values = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
            for k, i in io_map.items():
                value, target = values[k], given[i]
                assert (value.dtype, value.shape) == (target.dtype, target.shape), f"result {k} does not fit input {i}"
                assign(target, value)
            results: list[Any] = []
            for k in range(count):
                if k in io_map:
                    results.append(given[io_map[k]])
                elif k in views:
                    i, size, stride, offset = views[k]
                    results.append(given[i].as_strided(size, stride, given[i].storage_offset() + offset))
                else:
                    results.append(values[k])
        return results

    return call


def _lent(given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs on copies of their storages, a few bytes longer: eager's `slice_scatter` aborts on a storage of odd length."""
    storages: dict[int, torch.UntypedStorage] = {}
    lent: list[torch.Tensor] = []
    for tensor in given:
        whole = bytes_of_storage(tensor)
        padded = bytearray(whole + bytes(-len(whole) % 16))
        memory = torch.frombuffer(padded, dtype=torch.uint8) if padded else torch.empty(0, dtype=torch.uint8)
        storage = storages.setdefault(tensor.untyped_storage()._cdata, memory.untyped_storage())
        window = tensor.storage_offset(), tensor.shape, tensor.stride()
        own = torch.empty(0, dtype=tensor.dtype).set_(storage, *window)
        own = own.conj() if tensor.is_conj() else own
        lent.append(torch._neg_view(own) if tensor.is_neg() else own)
    return lent


def writes_elsewhere(program: Program) -> bool:
    """Whether eager writes memory that several arguments of the program share, or bytes that are no elements of one."""
    storages = [a.storage for a in program.arguments]
    arguments = program.make_arguments()
    right = observe(program.function(), arguments)
    shared = any(storages.count(storages[n]) > 1 for n in right.bumped)
    return shared or any(
        changed and byte not in set(offsets(a).tolist())
        for a, old, new in zip(
            program.make_arguments(), map(bytes_of_storage, program.make_arguments()), right.memory, strict=True
        )
        for byte, changed in enumerate(x != y for x, y in zip(old, new, strict=True))
    )


def _writes(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and any(
        a.alias_info is not None and a.alias_info.is_write for a in target._schema.arguments
    )


def _flat(results: Any) -> list[Any]:
    return [] if results is None else pytree.tree_leaves(results, is_leaf=lambda x: x is None)
