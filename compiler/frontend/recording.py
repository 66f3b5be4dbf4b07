"""A dispatch mode that writes down the ATen calls made under it: effects, and how each result's memory relates to operands.

What it writes is in terms of slots: the declared operands first, then every result in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, StringAttr, UnitAttr
from xdsl.ir import Attribute

from compiler.errors import UnsupportedError
from compiler.frontend import random
from compiler.frontend.collectives import collective, stored_collective
from compiler.frontend.constants import attribute, constant_data
from compiler.frontend.conversions import converted_store
from compiler.frontend.eager_views import eager_view
from compiler.frontend.forms import Form, Forms, Handle, has_gaps, number
from compiler.frontend.kernel_strides import as_the_kernel_lays_out
from compiler.frontend.layouts import copies_storage, plain_form
from compiler.frontend.optimizers import FUSED
from compiler.frontend.recorded_calls import (
    RecordedCall,
    alias_sets,
    arguments_by_name,
    draws,
    renumber,
    tensors_in,
    value_form,
    without_writes,
)
from compiler.frontend.schemas import (
    Facts,
    Parameter,
    bind,
    composite,
    counts_from_storage,
    expands,
    facts,
    metadata_twin,
    names_window,
    overload_name,
    writes_now,
)
from compiler.frontend.steps import Expansion, Made, Slot, Step
from compiler.frontend.subscripts import NodeSubscripts
from dialects.alias import ResultAlias, effects, results
from dialects.calls import ValueForm
from dialects.fx import CallOp, ConstantOp, Operand, SymbolOp
from dialects.types import DYNAMIC, row_major


@dataclass
class _Memory:
    """A storage seen during a recording."""

    base: int
    bytes: int
    gaps: bool = False


class Recorder(TorchDispatchMode):
    """Records the ATen calls made under it as steps over slots."""

    def __init__(self, forms: Forms, subscripts: NodeSubscripts) -> None:
        super().__init__()
        self.forms = forms
        self.subscripts = subscripts
        self.steps: list[Step] = []
        self._kept: list[torch.Tensor] = []  # ids stay valid while their owners live
        self.tensors: list[torch.Tensor | None] = []
        self._slot: dict[int, int] = {}
        self._form: list[Form] = []
        self._memory_of: list[_Memory] = []
        self._argument: list[bool] = []
        self._memory: dict[int, _Memory] = {}
        self._operands: list[torch.Tensor] = []
        self._placed: list[tuple[int, int]] = []
        self._counts = True
        """Places in storages are the program's, not those of a plain form."""
        self.stream: torch.Tensor | None = None
        """The operand that holds the state of the generator; None where random operators stay as they are."""

    def operand(self, fake: torch.Tensor, handle: Handle) -> None:
        """Declare the next operand of the node."""
        storage = fake.untyped_storage()._cdata
        memory = self._memory.setdefault(storage, _Memory(handle.root.base, handle.root.bytes, handle.root.gaps))
        self._operands.append(fake)
        self._new_slot(fake, handle.form, memory, handle.argument)

    def finish(self, out: Any) -> Expansion:
        rebound = tuple((i, self._slot[id(fake)]) for i, fake in enumerate(self._operands) if self._slot[id(fake)] != i)
        output = self._structure(out)
        return Expansion(
            tuple(self.steps),
            output,
            rebound,
            self.subscripts.copied,
            placed=tuple(self._placed),
            counted=self._counted(),
        )

    def _counted(self) -> tuple[int, ...]:
        """A slot on each memory that the node counts in from the first byte of its storage."""
        first: dict[int, int] = {}
        for slot, memory in enumerate(self._memory_of):
            first.setdefault(id(memory), slot)
        known = [self._memory.get(storage) for storage in self.subscripts.located]
        return tuple(first[id(memory)] for memory in known if id(memory) in first)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            raise UnsupportedError(
                f"{func} is no operator overload", hint="use ATen operators or registered custom ones"
            )
        with torch._C.DisableTorchFunction():  # below an operator it is not the program that asks
            result = self._dispatched(func, args, kwargs)
        if copies_storage(func, args) and id(args[0]) in self._slot:
            slot = self._slot[id(result)]
            form = self._form[slot]
            self._memory_of[slot].gaps = has_gaps(form.sizes, form.strides)
            self._placed.append((slot, self._slot[id(args[0])]))
        return result

    def _dispatched(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        if self._counts and names_window(func):
            for tensor in tensors_in(args):
                self._require_no_gaps(func, tensor)
                if counts_from_storage(func, args, kwargs):
                    self.subscripts.locate(tensor)
        if expands(func):
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)
        plain = plain_form(func, args)
        if plain is not None:
            counts, self._counts = self._counts, False
            try:
                with self:
                    return plain(*args, **kwargs)
            finally:
                self._counts = counts
        if composite(func):  # called from inside another operator, where they are not taken apart by themselves
            with self:
                return func.decompose(*args, **kwargs)
        fused = FUSED.get(func)
        if fused is not None:
            with self:
                return fused(*args, **kwargs)
        stored = stored_collective(func)
        if stored is not None:
            with self:
                return kwargs["out"].copy_(stored(*args))
        conversion = converted_store(func, args, kwargs)
        if conversion is not None:
            name, compute = conversion
            with self:
                return kwargs[name].copy_(compute(*args, **{k: v for k, v in kwargs.items() if k != name}))
        known = facts(func)
        if self.stream is not None and draws(func, known, args, kwargs):
            run = random.implementation(func, self.stream, kwargs.get("generator"))
            with self:
                return run(*args, **kwargs)
        if known.silent and not writes_now(known, arguments_by_name(func, args, kwargs)):
            known = without_writes(func, known)
        for tensor in tensors_in((args, list(kwargs.values()))):
            self._ensure(tensor)
        result = eager_view(func, args, kwargs) if known.view else None
        if result is None:
            result = as_the_kernel_lays_out(func, args, func(*args, **kwargs))
        self._record(func, known, args, kwargs, result)
        return result

    def _require_no_gaps(self, func: OpOverload, tensor: torch.Tensor) -> None:
        """Windows may have what lies between the elements of a tensor, which a copy of the tensor has not."""
        memory = self._memory.get(tensor.untyped_storage()._cdata)
        if memory is not None and memory.gaps:
            raise UnsupportedError(
                f"{func} looks between the elements of a copy that in eager PyTorch is one of a whole storage",
                hint="call contiguous() on the tensor before its elements are replaced",
            )

    # -- recording -----------------------------------------------------------------------------

    def _new_slot(self, tensor: torch.Tensor | None, form: Form, memory: _Memory, argument: bool = False) -> int:
        slot = len(self._form)
        self._form.append(form)
        self._memory_of.append(memory)
        self._argument.append(argument)
        self.tensors.append(tensor)
        if tensor is not None:
            self._kept.append(tensor)
            self._slot[id(tensor)] = slot
        return slot

    def _ensure(self, tensor: torch.Tensor) -> None:
        """A tensor made inside the node without a call (a Python number or list turned tensor) is a constant."""
        if id(tensor) in self._slot:
            return
        if isinstance(tensor, FakeTensor):
            raise UnsupportedError("the operator uses a tensor that comes neither from its operands nor from a call")
        memory = self._memory[tensor.untyped_storage()._cdata] = _Memory(0, tensor.numel() * tensor.element_size())
        with _disable_current_modes():
            data = constant_data(tensor)
        form = self.forms.get(tensor.dtype, tuple(tensor.shape), row_major(tensor.shape), 0, "")
        self._new_slot(tensor, form, memory)
        self.steps.append(Step({"data": data}, (), (Made(form, -1, memory.bytes),), op=ConstantOp))

    def _record(self, func: OpOverload, known: Facts, args: Any, kwargs: Any, result: Any) -> None:
        outs = tensors_in(result)
        if not outs and not any(parameter.writes for parameter in known.parameters):
            return  # sizes, devices, assertions: Python values only
        call = RecordedCall()
        for parameter, actual in bind(known, args, kwargs):
            self._argument_of(call, parameter, actual)
        if not outs and not call.writes:
            return
        changed = [t for t in dict.fromkeys(call.tensors) if t is not None and self._is_changed(t)]
        if known.metadata:
            self._change_metadata(func, call, changed)
        elif changed:
            self._resize_outputs(func, known, call, changed)
        else:
            self._call(func, known, call, outs)

    def _argument_of(self, call: RecordedCall, parameter: Parameter, actual: Any) -> None:
        first = len(call.operands)
        converted = self._converted(call, actual)
        numbers = [i for i in range(first, len(call.operands)) if call.tensors[i] is not None]
        if parameter.keyword_only:
            call.keywords[parameter.name] = converted
        else:
            call.positional.append(converted)
        call.of_parameter[parameter.name] = numbers
        call.reads += numbers if parameter.reads else []
        call.writes += numbers if parameter.writes else []

    def _converted(self, call: RecordedCall, value: Any) -> Attribute:
        """An actual argument as an attribute; tensors and numbers known only at run time become operands."""
        if isinstance(value, torch.Tensor):
            call.operands.append(self._slot[id(value)])
            call.tensors.append(value)
            return Operand(len(call.operands) - 1)
        if isinstance(value, torch.SymInt) and number(value) == DYNAMIC:
            call.operands.append(self._symbol(value))
            call.tensors.append(None)
            return Operand(len(call.operands) - 1)
        if isinstance(value, (list, tuple)):
            return ArrayAttr([self._converted(call, item) for item in value])
        return attribute(value)

    def _symbol(self, value: torch.SymInt) -> int:
        """The slot of a number known only at run time."""
        properties: dict[str, Attribute] = {"expression": StringAttr(str(value.node.expr))}
        form = self.forms.get(torch.int64, (), (), 0, "")  # a number has no geometry; its slot is never viewed
        self.steps.append(Step(properties, (), (Made(form, -1, 0),), op=SymbolOp, types=(IndexType(),)))
        return self._new_slot(None, form, _Memory(0, 0))

    def _is_changed(self, tensor: torch.Tensor) -> bool:
        if not isinstance(tensor, FakeTensor):
            return False
        slot = self._slot[id(tensor)]
        memory = self._memory.get(tensor.untyped_storage()._cdata)
        return (
            memory is None
            or memory is not self._memory_of[slot]
            or self.forms.of(tensor, memory.base) is not self._form[slot]
        )

    def _call(self, func: OpOverload, known: Facts, call: RecordedCall, outs: Sequence[torch.Tensor]) -> None:
        made: list[Made] = []
        entries: list[ResultAlias] = []
        sets = alias_sets(known, func, len(outs))
        later: list[tuple[torch.Tensor, Form, _Memory]] = []
        for out, alias in zip(outs, sets, strict=True):
            same = self._same(out, call, known, alias)
            if same >= 0:
                entries.append(ResultAlias("same", same))
                slot = call.operands[same]
                made.append(Made(None, slot, 0))
                self._kept.append(out)
                self._slot[id(out)] = slot
                later.append((None, self._form[slot], self._memory_of[slot]))  # type: ignore[arg-type]
                continue
            lifted = self._lifted(out, call, known, alias)
            if lifted:
                return
            storage = out.untyped_storage()
            memory = self._memory.get(storage._cdata)
            if memory is None:
                size = number(storage.nbytes())
                memory = self._memory[storage._cdata] = _Memory(0, size)
                form = self.forms.of(out, 0)
                entries.append(ResultAlias("fresh"))
                made.append(Made(form, -1, memory.bytes))
            else:
                form = self.forms.of(out, memory.base)
                operand = self._viewed(call, known, alias, memory, func)
                entries.append(ResultAlias("view", operand))
                made.append(Made(form, call.operands[operand], 0))
            later.append((out, form, memory))
        for out, form, memory in later:
            self._new_slot(out, form, memory)
        self._emit(known.name, call, made, entries, value_form(known, call), known.pointwise)

    def _same(self, out: torch.Tensor, call: RecordedCall, known: Facts, alias: frozenset[str]) -> int:
        """The operand that a result is: the same object, or by the schema the operand it writes."""
        for i, tensor in enumerate(call.tensors):
            if out is tensor:
                return i
        for parameter in known.parameters:
            if parameter.writes and alias & parameter.alias:
                for i in call.of_parameter.get(parameter.name, ()):
                    memory = self._memory_of[call.operands[i]]
                    if self._memory.get(out.untyped_storage()._cdata) is memory:
                        if self.forms.of(out, memory.base) is self._form[call.operands[i]]:
                            return i
        return -1

    def _lifted(self, out: torch.Tensor, call: RecordedCall, known: Facts, alias: frozenset[str]) -> bool:
        """Whether the result stands for a constant that the fake mode has taken in (`lift_fresh`)."""
        if not alias or out.untyped_storage()._cdata in self._memory or len(call.operands) != 1:
            return False
        slot = call.operands[0]
        if isinstance(call.tensors[0], FakeTensor):
            return False
        self._kept.append(out)
        self._slot[id(out)] = slot
        self._memory[out.untyped_storage()._cdata] = self._memory_of[slot]
        return True

    def _viewed(
        self, call: RecordedCall, known: Facts, alias: frozenset[str], memory: _Memory, func: OpOverload
    ) -> int:
        candidates = [i for i, slot in enumerate(call.operands) if self._memory_of[slot] is memory]
        if not candidates:
            raise UnsupportedError(f"results of {known.name} share memory with each other", hint="clone one of them")
        declared = [
            i for p in known.parameters if p.alias & alias for i in call.of_parameter.get(p.name, ()) if i in candidates
        ]
        return (declared or candidates)[0]

    # -- changes of metadata ---------------------------------------------------------------------

    def _change_metadata(self, func: OpOverload, call: RecordedCall, changed: Sequence[torch.Tensor]) -> None:
        for tensor in changed:
            before = self._slot[id(tensor)]
            memory = self._memory.get(tensor.untyped_storage()._cdata)
            if memory is None:
                raise UnsupportedError(f"{overload_name(func)} gives a tensor memory that the program has not seen")
            form = self.forms.of(tensor, memory.base)
            if form.end > memory.bytes != DYNAMIC:
                if memory.bytes or self._argument[before]:
                    raise UnsupportedError(
                        f"{overload_name(func)} makes a tensor with contents larger",
                        hint="allocate it at its final size",
                    )
                self._emit_empty(tensor, form)
                continue
            twin = metadata_twin(func)
            operands = [i for i, slot in enumerate(call.operands) if self._memory_of[slot] is memory]
            source = operands[0] if operands else -1
            if source < 0:
                raise UnsupportedError(f"{overload_name(func)} gives a tensor memory that is not its operand's")
            slot = call.operands[source]
            self._new_slot(tensor, form, memory)
            if twin is not None and source == 0 and before == call.operands[0]:
                step, name = RecordedCall(call.positional, call.keywords, call.operands), overload_name(twin)
            else:
                window = [form.sizes, form.strides, form.offset + memory.base // form.dtype.itemsize]
                step, name = RecordedCall([Operand(0), *map(attribute, window)], {}, [slot]), "aten.as_strided.default"
                source = 0
            self._emit(name, step, [Made(form, slot, 0)], [ResultAlias("view", source)], None)

    def _emit_empty(self, tensor: torch.Tensor, form: Form) -> None:
        """Nobody can see memory of no bytes, so a resize of it allocates."""
        size = number(tensor.untyped_storage().nbytes())
        memory = self._memory[tensor.untyped_storage()._cdata] = _Memory(0, size)
        self._new_slot(tensor, form, memory)
        call = RecordedCall([attribute(form.sizes), attribute(form.strides)], {"dtype": attribute(form.dtype)}, [])
        self._emit("aten.empty_strided.default", call, [Made(form, -1, size)], [ResultAlias("fresh")], None)

    def _resize_outputs(
        self, func: OpOverload, known: Facts, call: RecordedCall, changed: Sequence[torch.Tensor]
    ) -> None:
        """`out=` of the wrong size is resized: the call makes a fresh result, and the object is that result."""
        name = overload_name(func)
        twin = known.twin
        outs = [call.of_parameter.get(p.name, [-1])[0] for p in known.parameters if p.out]
        if twin is None or len(outs) != len(known.parameters) - sum(not p.out for p in known.parameters) or -1 in outs:
            raise UnsupportedError(f"{name} changes the size of a tensor", hint="allocate it at its final size")
        resized: list[int] = []
        for operand in outs:
            tensor, form = call.tensors[operand], self._form[call.operands[operand]]
            if tensor is None or not any(tensor is other for other in changed):
                continue
            if tuple(tensor.shape) == form.sizes:
                # Fake kernels give an out= of the right size strides of their own, eager kernels leave it as it is.
                base = self._memory_of[call.operands[operand]].base // form.dtype.itemsize
                tensor.as_strided_(form.sizes, form.strides, form.offset + base)
            else:
                resized.append(operand)
        for operand in resized:
            slot = call.operands[operand]
            if self._argument[slot]:
                raise UnsupportedError(
                    f"{name} resizes an argument of the program", hint="pass an out= tensor of the result's size"
                )
            if self._memory_of[slot].bytes:
                raise UnsupportedError(
                    f"{name} resizes a tensor that has memory already", hint="allocate out= at the result's size"
                )
        made: list[Made] = []
        kept = [i for i in range(len(call.operands)) if i not in outs]
        renumbered = {old: new for new, old in enumerate(kept)}
        step = RecordedCall(
            [renumber(a, renumbered) for a in call.positional],
            {k: renumber(a, renumbered) for k, a in call.keywords.items() if k not in twin.drop},
            [call.operands[i] for i in kept],
        )
        step.reads = [renumbered[i] for i in call.reads]
        copied: list[tuple[torch.Tensor, torch.Tensor]] = []
        for operand in outs:
            tensor = call.tensors[operand]
            assert tensor is not None
            if operand not in resized:  # it has the right size, and takes over what the call makes
                copied.append((tensor, tensor.new_empty(tensor.shape)))
                tensor = copied[-1][1]
            size = number(tensor.untyped_storage().nbytes())
            memory = self._memory[tensor.untyped_storage()._cdata] = _Memory(0, size)
            form = self.forms.of(tensor, 0)
            made.append(Made(form, -1, size))
            self._new_slot(tensor, form, memory)
        self._emit(twin.target, step, made, [ResultAlias("fresh")] * len(made), None)
        with self:
            for tensor, fresh in copied:
                tensor.copy_(fresh)

    # -- emitting --------------------------------------------------------------------------------

    def _emit(
        self,
        name: str,
        call: RecordedCall,
        made: Sequence[Made],
        entries: Sequence[ResultAlias],
        value: ValueForm | None,
        pointwise: bool = False,
    ) -> None:
        properties: dict[str, Attribute] = {
            "target": StringAttr(name),
            "arguments": ArrayAttr(call.positional),
            "effects": effects(call.reads, call.writes),
            "aliases": results(entries),
        }
        if call.keywords:
            properties["keywords"] = DictionaryAttr(call.keywords)
        if value is not None:
            properties["value"] = value
        if pointwise and call.writes:
            properties["pointwise"] = UnitAttr()
        written = tuple(call.operands[i] for i in call.writes)
        op, properties = collective(name, properties) or (CallOp, properties)
        self.steps.append(Step(properties, tuple(call.operands), tuple(made), written, op))

    def _structure(self, out: Any) -> Any:
        if isinstance(out, torch.Tensor):
            self._ensure(out)
            return Slot(self._slot[id(out)])
        if isinstance(out, torch.Size):
            return tuple(out)
        if isinstance(out, (list, tuple)):
            items = [self._structure(item) for item in out]
            return items if isinstance(out, list) else tuple(items)
        if isinstance(out, dict):
            return {name: self._structure(item) for name, item in out.items()}
        return out
