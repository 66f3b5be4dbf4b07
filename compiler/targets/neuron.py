"""What the Neuron compiler is documented to accept, checked over a whole HLO module before anything is written.

Every refusal says why and, where the module knows, the user's line; all of them come in one error. The rules are those
of public documentation and public emitters: the Neuron compiler itself has not been run against them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from compiler.errors import UnsupportedError
from compiler.export.hlo_reader import Computation, HloModule, Instruction, Shape, read_module


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DTYPES = _words("f32 bf16 f16 f8e4m3 f8e5m2 s8 u8 s16 u16 s32 u32 s64 u64 pred")
"""s64 and u64 are narrowed to 32 bits unless the compiler is told otherwise."""

OPCODES = _words(
    """abs add all-gather all-reduce all-to-all and bitcast-convert broadcast call ceil clamp compare concatenate constant
    convert convolution copy cosine custom-call divide dot dynamic-update-slice exponential exponential-minus-one floor gather
    get-tuple-element iota is-finite log log-plus-one logistic maximum minimum multiply negate not opt-barrier or pad
    parameter power reduce reduce-scatter reduce-window remainder reshape reverse rng-bit-generator round-nearest-afz
    round-nearest-even rsqrt scatter select select-and-scatter shift-left shift-right-arithmetic shift-right-logical sign sine
    slice sort sqrt subtract tanh transpose tuple xor collective-permute topk"""
)

REASONS = {
    "dynamic-slice": "positions known only at run time must be gathered",
    "while": "loops are not supported: control flow must be known when compiling",
    "conditional": "branches are not supported: control flow must be known when compiling",
    "cholesky": "factorisations are not supported",
    "triangular-solve": "factorisations are not supported",
    "fft": "Fourier transforms need complex numbers, which the hardware lacks",
    "rng": "it draws from a hidden state; random numbers come from rng-bit-generator and the seed parameter",
    "rng-get-and-update-state": "it keeps a hidden state; random numbers come from rng-bit-generator and the seed parameter",
    "erf": "readers of an older XLA do not know it",
    "complex": "complex numbers are not supported",
    "real": "complex numbers are not supported",
    "imag": "complex numbers are not supported",
}

CUSTOM_CALLS = frozenset(
    f"AwsNeuron{name}"
    for name in _words("""Erf Gelu GeluApprxTanh GeluBackward Silu SiluBackward RmsNorm Softmax SoftmaxBackward CollectiveMatmul
    IntMatmult ArgMax ArgMin TopK DropoutMaskV1 CustomNativeKernel CustomOp DevicePrint LNCShardingConstraint
    TransferWithStaticRing ModuleMarkerStart-Forward ModuleMarkerStart-Backward ModuleMarkerEnd-Forward
    ModuleMarkerEnd-Backward""")
) | _words(
    "ResizeNearest ResizeBilinear ResizeNearestGrad NeuronBoundaryMarker-Start NeuronBoundaryMarker-End QuantizeMX "
    "__op$block_scaled_dot"
)
KERNEL_TARGET = "AwsNeuronCustomNativeKernel"

COLLECTIVES = frozenset({"all-gather", "all-reduce", "reduce-scatter", "all-to-all"})
LIMIT = 1 << 31
SIZE_LIMIT = (1 << 31) - 1


COMMAND_FILE = "neuronx-cc.txt"


def command_line(target: str = "trn2", hlo: str = "model.hlo_module.pb") -> str:
    """How the Neuron compiler is called on a saved artifact, as documented; it has not been run here."""
    return f"neuronx-cc compile --framework XLA {hlo} --target {target} --auto-cast none --output model.neff\n"


class Violation(NamedTuple):
    """One thing the target does not accept: what, why, and the user's line."""

    what: str
    why: str
    source: str = ""

    def __str__(self) -> str:
        where = f"{self.source}: " if self.source else ""
        return f"{where}{self.what}: {self.why}"


def check(data: bytes) -> None:
    """Raise one UnsupportedError that lists everything the Neuron compiler would refuse in a serialised module."""
    found = list(dict.fromkeys(violations(data)))
    if not found:
        return
    listing = "\n".join(f"  {violation}" for violation in found)
    raise UnsupportedError(
        f"the Neuron compiler does not accept {len(found)} thing(s) in this program:\n{listing}",
        location=next((v.source for v in found if v.source), ""),
        hint="rewrite these parts, or keep them outside the compiled region",
    )


def violations(data: bytes) -> Iterator[Violation]:
    """Everything in a serialised module that the target does not accept."""
    if len(data) > SIZE_LIMIT:
        yield Violation(f"a module of {len(data)} bytes", "protos above 2 GB fail; pass weights as inputs")
    module = read_module(data)
    yield from _interface(module)
    for computation in module.computations:
        if not 0 <= computation.id < LIMIT:
            yield Violation(f"computation id {computation.id}", "ids must fit 32 bits")
        known = computation.by_id
        for instruction in computation.instructions:
            yield from _instruction(instruction, computation, known, module)


def _interface(module: HloModule) -> Iterator[Violation]:
    if module.has_buffer_donors:
        yield Violation("a buffer donor", "only must-alias entries are read")
    for alias in module.aliases:
        if alias.kind != 2:
            yield Violation(f"alias of parameter {alias.parameter}", "every alias must be a must-alias")
    written = {alias.output for alias in module.aliases}
    root = next((i for i in module.entry.instructions if i.id == module.entry.root), None)
    if root is None:
        yield Violation("the entry computation", "it has no root")
        return
    known = module.entry.by_id
    outputs = root.operands if root.opcode == "tuple" else (root.id,)
    for number, operand in enumerate(outputs):
        index = (number,) if root.opcode == "tuple" else ()
        if operand in known and known[operand].opcode == "parameter" and index not in written:
            yield Violation(f"output {number}", "a parameter that is an output and not aliased needs an explicit copy")


def _instruction(
    i: Instruction, computation: Computation, known: dict[int, Instruction], module: HloModule
) -> Iterator[Violation]:
    def refuse(why: str, what: str = "") -> Violation:
        return Violation(what or f"{i.opcode} {i.name}", why, i.source)

    if not 0 <= i.id < LIMIT:
        yield refuse("ids must fit 32 bits")
    for array in i.shape.arrays():
        yield from (refuse(why, f"{i.opcode} of {array}") for why in _shape(array))
    if i.opcode not in OPCODES:
        yield refuse(REASONS.get(i.opcode, "the operator is not in the published list"))
    if i.opcode == "dynamic-update-slice":
        starts = [known[o] for o in i.operands[2:] if o in known]
        if any(start.opcode != "constant" for start in starts):
            yield refuse("its position must be a constant; one known only at run time needs a scatter that assigns")
    if i.opcode == "reduce" and len(i.operands) > 2:
        yield refuse("reductions of several values at once are not supported")
    if i.opcode in ("scatter", "all-reduce", "reduce-scatter"):
        yield from _combiner(i, module)
    if i.opcode == "dot" and any(a.element[0] in "sup" for a in i.shape.arrays()):
        yield refuse("integer products are computed in f32, which loses bits")
    if i.opcode == "custom-call" and i.custom_call_target not in CUSTOM_CALLS:
        yield refuse("the custom-call target is not in the published list", f"custom-call {i.custom_call_target!r}")
    if i.opcode == "custom-call" and i.custom_call_target == KERNEL_TARGET and not i.backend_config:
        yield refuse("a kernel call without a configuration")
    if i.opcode in COLLECTIVES and (i.newer_fields or not i.replica_groups):
        yield refuse("replica groups must be listed one by one")
    if i.u64 >= 1 << 32:
        yield refuse("unsigned 64-bit constants above 32 bits are not supported")


def _shape(array: Shape) -> Iterator[str]:
    if array.element not in DTYPES:
        yield f"{array.element} is no dtype of the hardware"
    if any(array.dynamic):
        yield "sizes must be static"
    natural = tuple(range(len(array.dimensions) - 1, -1, -1))
    if array.minor_to_major is not None and array.minor_to_major != natural:
        yield "its layout is not the row-major one"


def _combiner(i: Instruction, module: HloModule) -> Iterator[Violation]:
    """The computation that joins old and new elements."""
    for called in i.called:
        body = module.by_id.get(called)
        root = body.by_id.get(body.root) if body is not None else None
        if root is None:
            continue
        element = next((a.element for a in i.shape.arrays()), "")
        if i.opcode == "scatter" and root.opcode != "parameter" and element[:1] in "sup":
            yield Violation(
                f"scatter {i.name}", f"a scatter that combines {element} is computed in f32, which loses bits", i.source
            )
        if root.opcode not in ("parameter", "add", "multiply", "maximum", "minimum", "and", "or"):
            yield Violation(f"{i.opcode} {i.name}", f"its elements are combined by {root.opcode}", i.source)
