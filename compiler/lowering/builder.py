"""A thin layer over jaxlib's StableHLO bindings: interned types, typed constants, and the few forms every rule needs.

Everything is emitted at the current insertion point and location, inside the builder's context. Element types go by
their MLIR spelling (`dialects.types.ELEMENTS`), shapes are tuples of int.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from compiler.lowering.origins import computed_from_constants
from compiler.lowering.signed_zeros import is_constant_zero
from compiler.lowering.truncation import truncate

F8_MAX = 448.0
"""The largest number of f8E4M3FN, which has no infinity."""


def make_context() -> ir.Context:
    """An MLIR context that knows func, StableHLO and CHLO."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    hlo.register_dialect(context)
    chlo.register_dialect(context)
    context.enable_multithreading(False)
    return context


class Builder:
    """Types and constants of one context. Make it, and use it, inside `with context`.

    `target` is "xla" or "neuron": rules choose by it where the two accept, or run well, different forms.
    """

    def __init__(self, target: str = "xla") -> None:
        self.target = target
        signed, unsigned = ir.IntegerType.get_signless, ir.IntegerType.get_unsigned
        self.elements: dict[str, ir.Type] = {
            "f64": ir.F64Type.get(), "f32": ir.F32Type.get(), "f16": ir.F16Type.get(), "bf16": ir.BF16Type.get(),
            "f8E4M3FN": ir.Float8E4M3FNType.get(), "f8E5M2": ir.Float8E5M2Type.get(),
            "i64": signed(64), "i32": signed(32), "i16": signed(16), "i8": signed(8), "i1": signed(1),
            "ui64": unsigned(64), "ui32": unsigned(32), "ui16": unsigned(16), "ui8": unsigned(8),
            "complex<f32>": ir.ComplexType.get(ir.F32Type.get()), "complex<f64>": ir.ComplexType.get(ir.F64Type.get()),
        }  # fmt: skip
        self._names = {kind: name for name, kind in self.elements.items()}
        self._kinds: dict[ir.Type, tuple[str, tuple[int, ...]]] = {}
        self.tensor = functools.lru_cache(maxsize=None)(self._tensor)
        self._filled = functools.lru_cache(maxsize=None)(self._fill)
        self._repeated: dict[tuple[Any, ...], ir.Value] = {}
        self._from_constants: dict[ir.Value, bool] = {}

    def _tensor(self, element: str, shape: tuple[int, ...]) -> ir.RankedTensorType:
        return ir.RankedTensorType.get(shape, self.elements[element])

    def element(self, value: ir.Value) -> str:
        """MLIR spelling of the element type of a value."""
        return self._kind(value.type)[0]

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        return self._kind(value.type)[1]

    def _kind(self, type_: ir.Type) -> tuple[str, tuple[int, ...]]:
        found = self._kinds.get(type_)
        if found is None:
            ranked = ir.RankedTensorType(type_)
            found = self._kinds[type_] = self._names[ranked.element_type], tuple(ranked.shape)
        return found

    def once(self, key: tuple[Any, ...], emit: Callable[[], ir.Value]) -> ir.Value:
        """What `emit` gives, emitted once a block: the same position tensor is prepared for every layer's cache."""
        point: Any = ir.InsertionPoint.current
        here = (point.block, *key)
        found = self._repeated.get(here)
        if found is None:
            found = self._repeated[here] = emit()
        return found

    # -- constants -----------------------------------------------------------------------------

    def splat(self, value: complex | float | int | bool, element: str, shape: tuple[int, ...] = ()) -> ir.Value:
        """One Python number `shape`-many times, stored once; converted to the element type as PyTorch fills."""
        kind = self.elements[element]
        if element.startswith("complex"):
            whole = complex(value)
            dtype = np.complex64 if element == "complex<f32>" else np.complex128
            scalar = hlo.constant(ir.DenseElementsAttr.get(np.array(whole, dtype), type=kind, shape=[]))
            return hlo.broadcast_in_dim(self.tensor(element, shape), scalar, []) if shape else scalar
        return hlo.constant(self._filled(str(value), value, element, shape))  # the text tells -0.0 from 0.0

    def _fill(self, _: str, value: float | int | bool, element: str, shape: tuple[int, ...]) -> ir.Attribute:
        kind = self.elements[element]
        if isinstance(kind, ir.IntegerType):
            width, unsigned = kind.width, element.startswith("ui")
            number = int(value) if element != "i1" else int(bool(value))
            if element != "i1":
                number &= (1 << width) - 1  # integers wrap, as in PyTorch
                if not unsigned and number >> (width - 1):
                    number -= 1 << width
            if number >> 63 and unsigned:  # more than the binding's attribute takes
                return ir.DenseElementsAttr.get(np.full(shape, number, np.uint64), type=kind, shape=list(shape))
            scalar = ir.IntegerAttr.get(kind, number)
        else:
            number = float(value)
            if element == "f8E4M3FN" and abs(number) > F8_MAX:
                number = math.copysign(F8_MAX, number)  # as `convert` saturates
            scalar = ir.FloatAttr.get(kind, number)
        return ir.DenseElementsAttr.get_splat(self.tensor(element, shape), scalar)

    def literal(self, array: np.ndarray, element: str) -> ir.Value:
        """A constant with the bits of `array` (for bf16 and the 8-bit floats: the raw bits as unsigned integers)."""
        array = np.ascontiguousarray(array).reshape(array.shape)  # a 0-d array would come back with one dimension
        if array.dtype.kind == "V" or array.dtype.name in ("bfloat16",) or array.dtype.name.startswith("float8"):
            array = array.view(f"u{array.dtype.itemsize}")
        return hlo.constant(ir.DenseElementsAttr.get(array, type=self.elements[element], shape=array.shape))

    # -- forms ---------------------------------------------------------------------------------

    def plus(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The sum, also where XLA's folding gives another.

        Of booleans it is true when one is; XLA folds `true + true` to false. With a constant zero, -0 becomes +0 (`signed_zeros`).
        """
        element = self.element(x)
        if element == "i1":
            return hlo.or_(x, y)
        if element[0] in "fb":  # f.. and bf16
            x, y = self._undistributed(*self.unfolded(x, y))
            for zero, other in ((x, y), (y, x)):
                if is_constant_zero(zero):
                    return hlo.select(self.compare("EQ", other, zero), zero, other)
        return hlo.add(x, y)

    def minus(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The difference, also where XLA's folding gives another: a complex number less itself is NaN where it is infinite."""
        if self.element(x)[0] == "c" and self.target == "xla":
            y = self.opaque(y)
        return hlo.subtract(*self._undistributed(*self.unfolded(x, y)))

    def _undistributed(self, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Both operands of a sum of floats, where XLA does not take `a * b + a * c` for `a * (b + c)`."""
        makers = [None if isinstance(v.owner, ir.Block) else v.owner.name for v in (x, y)]
        if (
            self.target != "xla"
            or self.element(x)[0] not in "fb"
            or makers[0] != makers[1]
            or makers[0] not in ("stablehlo.multiply", "stablehlo.divide")
        ):
            return x, y
        return self.opaque(x), y

    def unfolded(self, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Both operands of float arithmetic or a comparison, where XLA does not see that one of them is constant.

        It takes `x + 0` for `x`, -0 too, `(x + c) - d` for `x + (c - d)`, which is not rounded to the precision of c, and
        `abs(x) >= 0` for true, NaN too.
        """
        if self.target != "xla" or self.element(x)[0] not in "fb":
            return x, y
        constant = [computed_from_constants(v, self._from_constants) for v in (x, y)]
        if constant[0] == constant[1]:
            return x, y
        left, right = (self.opaque(v) if c else v for v, c in zip((x, y), constant, strict=True))
        return left, right

    def opaque(self, value: ir.Value) -> ir.Value:
        """The value behind a barrier, so that XLA does not know where it comes from; it is dropped before fusion."""
        (result,) = hlo.OptimizationBarrierOp([value]).results
        return result

    def convert(self, value: ir.Value, element: str) -> ir.Value:
        """Element-wise conversion with PyTorch's rules (complex to real drops the imaginary part; to bool: != 0)."""
        source = self.element(value)
        if source == element:
            return value
        if source.startswith("complex") and not element.startswith("complex"):
            if element == "i1":
                return self.compare("NE", value, self.splat(0, source, self.shape(value)))
            return self.convert(hlo.real(value), element)
        if element == "i1":
            return self.compare("NE", value, self.splat(0, source, self.shape(value)))
        if element == "f8E4M3FN" and source != "i1":
            value = self._saturated(value)
        if source.startswith(("f", "bf")) and element.startswith(("i", "ui")) and self.target == "xla":
            return truncate(self, value, element)
        converted = hlo.convert(self.tensor(element, self.shape(value)), value)
        if source == "i1" and element[0] in "fbc" and self.target == "xla":
            # XLA takes a product with what it knows to be a mask for a choice, which keeps NaN and infinities from 0 * x.
            return self.opaque(converted)
        return converted

    def _saturated(self, value: ir.Value) -> ir.Value:
        """`value` within the range of f8E4M3FN, NaN kept: PyTorch saturates, HLO's conversion gives NaN beyond the range."""
        source = self.element(value)
        if source not in ("f64", "f32", "f16", "bf16"):
            source = "f32"
            value = hlo.convert(self.tensor(source, self.shape(value)), value)
        return hlo.clamp(self.splat(-F8_MAX, source), value, self.splat(F8_MAX, source))

    def broadcast(self, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
        """Broadcast to `shape` by PyTorch's rule: dimensions align from the right, size 1 repeats."""
        have = self.shape(value)
        if have == shape:
            return value
        first = len(shape) - len(have)
        kept = [i for i, size in enumerate(have) if size == shape[first + i]]
        if len(kept) < len(have):
            value = self.reshape(value, tuple(have[i] for i in kept))
        return hlo.broadcast_in_dim(self.tensor(self.element(value), shape), value, [first + i for i in kept])

    def reshape(self, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
        return value if self.shape(value) == shape else hlo.reshape(self.tensor(self.element(value), shape), value)

    def transpose(self, value: ir.Value, permutation: Sequence[int]) -> ir.Value:
        permutation = list(permutation)
        return value if permutation == sorted(permutation) else hlo.transpose(value, permutation)

    def iota(self, element: str, shape: tuple[int, ...], dimension: int) -> ir.Value:
        return hlo.iota(self.tensor(element, shape), dimension)

    def compare(self, direction: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """`direction` is EQ NE LT LE GT GE; the comparison kind follows from the element type."""
        element = self.element(left)
        if element[0] == "u" or element == "i1":
            kind = "UNSIGNED"
        else:
            kind = "SIGNED" if element[0] == "i" else "FLOAT"
        return hlo.compare(
            left, right, hlo.ComparisonDirectionAttr.get(direction), compare_type=hlo.ComparisonTypeAttr.get(kind)
        )

    def reduce(
        self,
        values: Sequence[ir.Value],
        initial: Sequence[ir.Value],
        dimensions: Sequence[int],
        body: Callable[..., ir.Value | Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`stablehlo.reduce`; `body` gets the accumulators, then the elements, as 0-d tensors."""
        gone = set(dimensions)
        types = [
            self.tensor(self.element(v), tuple(s for i, s in enumerate(self.shape(v)) if i not in gone)) for v in values
        ]
        op = hlo.ReduceOp(types, list(values), list(initial), sorted(gone))
        self.region(op, [v.type for v in initial] * 2, body)
        return list(op.results)

    def region(
        self,
        op: ir.OpView,
        types: Sequence[ir.Type],
        body: Callable[..., ir.Value | Sequence[ir.Value]],
        index: int = 0,
    ) -> None:
        """Give region `index` of `op` one block over `types` that ends in `stablehlo.return body(...)`."""
        block = op.regions[index].blocks.append(*types)
        with ir.InsertionPoint(block):
            out = body(*block.arguments)
            hlo.return_(list(out) if isinstance(out, Sequence) else [out])
