"""Higher-order operators with subgraphs as operations with regions: `cond`, `while_loop`, and `scan` as a loop.

A subgraph is imported where it stands, on the handles of the graph around it; whatever it uses from outside, constants
included, then becomes an argument of its region. So effects and sharing of memory are those of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Block, OpResult, Region, SSAValue

from compiler.errors import UnsupportedError
from compiler.frontend.forms import Form, Handle, Root
from compiler.frontend.random import import_replayed_draw, import_saved_draw
from dialects.alias import Effects
from dialects.calls import HandleCall
from dialects.control import CondOp, ControlOp, WhileOp, YieldOp, block_effects, leaves_capture, summarize
from dialects.types import row_major

if TYPE_CHECKING:
    from compiler.frontend.importer import Importer

Body = Callable[[list[Handle]], Any]
"""Imports the inside of a region, given the handles of its carried values."""


def import_cond(importer: Importer, predicate: Any, then: Any, otherwise: Any, operands: Sequence[Any] = ()) -> Any:
    """Results of `torch.cond`. A predicate that is known when the program is captured chooses right away."""
    if not isinstance(predicate, Handle):
        return importer.run(then if predicate else otherwise, operands)

    def branch(graph: Any) -> Body:
        return lambda _: importer.run(graph, _inside(operands))

    _, first, yielded = _region(importer, [], branch(then))
    _, second, other = _region(importer, [], branch(otherwise))
    for left, right in zip(yielded, other, strict=True):
        if (left.form.dtype, left.form.sizes) != (right.form.dtype, right.form.sizes):
            raise UnsupportedError("the branches of a conditional give tensors of other shapes or types")
    outside = {h.root for h in yielded if _lies_outside(h.value, first)}
    outside |= {h.root for h in other if _lies_outside(h.value, second)}
    captures = _close([first, second])
    forms = [_fresh(importer, handle.form) for handle in yielded]
    importer.uses((*yielded, *other))
    results = _emit(importer, CondOp, [predicate.value, *captures], forms, [first, second], {})
    for n, result in enumerate(results):
        given = {yielded[n].root, other[n].root}
        result.root.is_of_one((yielded[n], other[n]))
        twins = {results[k].root for k in range(n) if not given.isdisjoint((yielded[k].root, other[k].root))}
        importer.chosen(result, given, (given & outside) | twins)
    return results


def import_while(
    importer: Importer, condition: Any, body: Any, carried: Sequence[Any], additional: Sequence[Any] = (), **_: Any
) -> Any:
    """Results of `while_loop`."""
    return _loop(
        importer, carried,
        lambda handles: importer.run(condition, [*handles, *_inside(additional)]),
        lambda handles: importer.run(body, [*handles, *_inside(additional)]),
    )  # fmt: skip


def import_scan(importer: Importer, combine: Any, init: Sequence[Any], xs: Sequence[Any], additional: Any = ()) -> Any:
    """Results of `scan`: a loop that carries a counter, the state, and the stacked results so far."""
    count = len(init)
    steps = xs[0].form.sizes[0]

    def step(state: Sequence[Handle], counter: Handle) -> list[Handle]:
        rows = [importer.call(_row, (x, counter)) for x in _inside(xs)]
        for row in rows:
            row.root.anywhere = True  # in eager PyTorch a view of the whole
        return list(importer.run(combine, [*state, *rows, *_inside(additional)]))

    counter = importer.call(torch.zeros, ((),), dtype=torch.int64)
    with importer.aside() as trial:  # only to see what one step gives
        made = step([_handle(h) for h in _inside(init)], counter)[count:]
    for op in reversed(trial):
        op.drop_all_references()
    stacked = [importer.call(torch.zeros, ((steps, *h.form.sizes),), dtype=h.form.dtype) for h in map(_handle, made)]

    def body(handles: list[Handle]) -> list[Handle]:
        place, state, stacks = handles[0], handles[1 : count + 1], handles[count + 1 :]
        found = step(state, place)
        stacks = [importer.call(_with_row, (s, place, y)) for s, y in zip(stacks, found[count:], strict=True)]
        return [importer.call(torch.add, (place, 1)), *found[:count], *stacks]

    results = _loop(
        importer, [counter, *init, *stacked], lambda handles: importer.call(torch.lt, (handles[0], steps)), body
    )
    return results[1:]


def import_map(importer: Importer, function: Any, xs: Sequence[Any], additional: Sequence[Any] = ()) -> Any:
    """Results of `map`: a scan without a state."""
    return import_scan(importer, function, (), xs, additional)


IMPORTS: dict[str, Callable[..., Any]] = {
    "cond": import_cond,
    "while_loop": import_while,
    "scan": import_scan,
    "map_impl": import_map,
    "run_and_save_rng_state": import_saved_draw,
    "run_with_rng_state": import_replayed_draw,
}
"""Higher-order operators by name."""


def _row(xs: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return xs.index_select(0, place.reshape(1)).squeeze(0)


def _with_row(stack: torch.Tensor, place: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    return stack.index_copy(0, place.reshape(1), row.unsqueeze(0))


# -- regions -----------------------------------------------------------------------------------


def _loop(importer: Importer, carried: Sequence[Any], condition: Body, body: Body) -> Any:
    initial = [_handle(value) for value in carried]
    forms = [_fresh(importer, handle.form) for handle in initial]
    roots = {handle.root for handle in initial}
    written = {root: root.written for root in roots}
    for root in roots:
        root.written = False
    tested, first, _ = _region(importer, forms, condition)
    given, second, yielded = _region(importer, forms, body)
    if any(root.written for root in roots):
        # In PyTorch the first round, and no other, sees the writes in what it carries.
        raise UnsupportedError(
            "a loop writes memory of a tensor that it is given to carry", hint="give it a clone of the tensor to carry"
        )
    for root in roots:
        root.written = written[root]
    for form, handle in zip(forms, yielded, strict=True):
        if (form.dtype, form.sizes) != (handle.form.dtype, handle.form.sizes):
            raise UnsupportedError(
                "a loop carries a tensor whose shape or type changes", hint="keep it at its final size"
            )
    for block in (first, second):
        if any(number < len(forms) for number in block_effects(block)[1]):
            raise UnsupportedError("a loop writes into a carried tensor", hint="yield its next value instead")
    captures = _close([first, second])
    importer.uses((*initial, *yielded))
    segments = DenseArrayBase.from_list(i32, [len(initial), len(captures)])
    operands = [*(h.value for h in initial), *captures]
    results = _emit(importer, WhileOp, operands, forms, [first, second], {"operandSegmentSizes": segments})
    for start, following, *handles in zip(initial, yielded, tested, given, results, strict=True):
        for handle in handles:
            handle.root.is_of_one((start, following))
    return results


def _emit(
    importer: Importer, kind: type[ControlOp], operands: Sequence[SSAValue], forms: Sequence[Form],
    blocks: Sequence[Block], properties: dict[str, Attribute],
) -> tuple[Handle, ...]:  # fmt: skip
    op = kind.create(
        operands=operands,
        result_types=[form.type for form in forms],
        properties={**properties, "effects": Effects(())},
        regions=[Region(block) for block in blocks],
        location=importer.location,
    )
    op.properties["effects"] = summarize(op)
    importer.ops.append(op)
    return tuple(Handle(value, form, Root(form.end)) for value, form in zip(op.results, forms, strict=True))


def _region(importer: Importer, forms: Sequence[Form], body: Body) -> tuple[list[Handle], Block, list[Handle]]:
    """Carried values, a block over them, and the handles it yields. What else it uses is still outside."""
    block = Block(arg_types=[form.type for form in forms])
    arguments = [Handle(v, f, Root(f.end), argument=True) for v, f in zip(block.args, forms, strict=True)]
    with importer.aside() as ops:
        found = body(arguments)
    found = found if isinstance(found, (list, tuple)) else [found]
    yielded = [_handle(value) for value in found]
    last = YieldOp.create(operands=[h.value for h in yielded], location=importer.location)
    block.add_ops([*ops, last])
    return arguments, block, yielded


def _close(blocks: Sequence[Block]) -> list[SSAValue]:
    """Give every block an argument for each value from outside that any of them uses; those values."""
    outside: dict[SSAValue, None] = {}
    for block in blocks:
        for op in block.ops:
            outside.update((value, None) for value in op.operands if not _defined_in(value, block))
    for block in blocks:
        captured = {value: block.insert_arg(value.type, len(block.args)) for value in outside}
        for op in block.ops:
            if any(value in captured for value in op.operands):
                op.operands = [captured.get(value, value) for value in op.operands]
        beyond = leaves_capture(block)
        if beyond is not None:
            raise UnsupportedError(
                "inside a region a view reaches outside the tensor it is taken of",
                hint="take the view before the region",
            )
    return list(outside)


def _defined_in(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return owner is block if isinstance(owner, Block) else owner.parent is block


def _lies_outside(value: SSAValue, block: Block) -> bool:
    """Whether a handle is on memory that a block, not closed yet, did not make."""
    while isinstance(op := value.owner, HandleCall) and op.parent is block and isinstance(value, OpResult):
        alias = op.aliases.data[value.index]
        if alias.kind not in ("same", "view"):
            return False
        value = op.args[alias.operand]
    return not _defined_in(value, block)


def _inside(operands: Sequence[Any]) -> list[Any]:
    """The operands as a region sees them: the same memory, but their metadata is not the region's to change."""
    return [Handle(h.value, h.form, h.root, argument=True) if isinstance(h, Handle) else h for h in operands]


def _handle(value: Any) -> Handle:
    if not isinstance(value, Handle):
        raise UnsupportedError(f"a region takes or gives {value!r}, which is no tensor", hint="make it a 0-d tensor")
    return value


def _fresh(importer: Importer, form: Form) -> Form:
    """The form of a copy in memory of its own, in the order of the original where that has one."""
    packed = sorted(zip(form.strides, form.sizes, strict=True))
    step = 1
    for stride, size in packed:
        if size != 1 and stride != step:
            break
        step *= size
    dense = step == torch.Size(form.sizes).numel()
    strides = form.strides if dense and form.sizes else row_major(form.sizes)
    return importer.forms.get(form.dtype, form.sizes, strides, 0, "")
