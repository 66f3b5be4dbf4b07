"""Makes random programs, step by step, by running each candidate step in eager PyTorch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from tools.fuzz.judge import Judge, Unfit, is_boolean
from tools.fuzz.program import DTYPES, NAMES, WORLDS, Argument, Program, Step, Storage
from tools.fuzz.regions import PLAIN

REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
"""What eager PyTorch raises for a program that makes no sense."""

MOST_ELEMENTS = 96
Proposal = tuple[str, tuple[str, ...], "int | tuple[str, ...]"]
"""Text, operands, and how many new names the results get (0: a statement whose value nobody keeps) or which old ones."""
Rule = Callable[["Draft"], "Proposal | None"]


@dataclass(frozen=True)
class Options:
    """What programs may contain.

    Attributes:
        custom_ops: calls of operators that come from torch.library.
        order_dependent: share of programs that may depend on the order of elements; a refusal is right for these.
        lazy_arguments: arguments with a lazy conj or neg bit.
        clones: many clones.
        flat: functions of tensors that return tensors; else modules with state, and nested arguments and results, as well.
        dtypes: what arguments may be made of.
    """

    steps: int = 12
    custom_ops: bool = True
    order_dependent: float = 0.02
    lazy_arguments: bool = True
    clones: bool = False
    flat: bool = False
    dtypes: tuple[str, ...] = tuple(DTYPES)

    def allow(self, program: Program) -> bool:
        """Whether a saved program may be run."""
        return (self.custom_ops or not program.has_custom_ops) and (program.is_flat or not self.flat)


class Run:
    """The tensors of one world while a program runs under the judge."""

    def __init__(self, program: Program, world: int, allow_order: bool = False):
        self.program = program
        self.arguments = program.make_arguments(world)
        self.names = dict(zip(program.parameters, self.arguments))
        self.judge = Judge(allow_order)

    def again(self, world: int) -> None:
        """Go on with the arguments of another call, and with the state that this one has left."""
        self.arguments = self.program.next_arguments(self.arguments, world)
        now = dict(zip(self.program.parameters, self.arguments))
        self.names = now | {f"a{k}": self.names[f"a{k}"] for k in self.program.held}

    def step(self, step: Step) -> None:
        """Run one statement. Raises Unfit, or what eager raises."""
        with torch.no_grad(), self.judge:
            text = step.text.format(*step.operands)
            scope = {"torch": torch, **PLAIN, **self.names}  # one scope, so that bodies can close over names
            if not step.results:
                exec(text, scope)
                self.names = {name: scope[name] for name in self.names}
                return
            result = eval(text, scope)
        for name, value in zip(step.results, result if len(step.results) > 1 else (result,), strict=True):
            if not isinstance(value, torch.Tensor) or value.dtype not in NAMES:
                raise Unfit("value", "a result that is no tensor")
            if value.numel() > MOST_ELEMENTS:
                raise Unfit("value", "a result that is too large")
            self.names[name] = value

    @cached_property
    def _empty(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def memory(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Every storage as bytes, with a copy of them."""
        storages = {t.untyped_storage()._cdata: t.untyped_storage() for t in self.names.values()}
        raw = [torch.empty(0, dtype=torch.uint8).set_(s) for s in storages.values()]
        return [(bytes_, bytes_.clone()) for bytes_ in raw]


@torch.no_grad()
def validate(program: Program) -> bool:
    """Run a program in all worlds. Returns whether it depends on the order of elements; raises when it is no test."""
    dependent = False
    for world in range(WORLDS):
        run = Run(program, world, allow_order=program.order_dependent)
        for step in program.steps:
            run.step(step)
        _require_booleans(run.names.values())
        if any(name not in run.names for name in program.outputs):
            raise Unfit("value", "an output that nothing makes")
        dependent |= run.judge.order_dependent
    return validate_calls(program) or dependent


def validate_calls(program: Program) -> bool:
    """Like `validate`, for the second and third call of a program with state."""
    run = Run(program, 0, allow_order=program.order_dependent)
    for number, world in enumerate((0, 1, 1)[: 3 if program.held else 0]):
        if number:
            run.again(world)
        for step in program.steps:
            run.step(step)
        _require_booleans(run.names.values())
    return run.judge.order_dependent


def _require_booleans(tensors: Iterable[torch.Tensor]) -> None:
    if not all(map(is_boolean, tensors)):
        raise Unfit("value", "a byte other than 0 and 1 in a bool tensor")


@dataclass
class Draft:
    """A program being made."""

    rng: random.Random
    options: Options
    program: Program
    runs: list[Run]
    dims: tuple[int, ...]
    rejected: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    _count: int = 0

    @property
    def names(self) -> dict[str, torch.Tensor]:
        return self.runs[0].names

    def pick(self, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> str | None:
        """A name, later ones more often."""
        found = [name for name, tensor in self.names.items() if wanted(tensor)]
        if not found:
            return None
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def broadcasting(self, target: torch.Tensor, *, same_dtype: bool = False, integers: bool = False) -> str | None:
        """A name whose tensor broadcasts to the target's shape."""

        def fits(t: torch.Tensor) -> bool:
            if t.dim() > target.dim() or (same_dtype and t.dtype != target.dtype):
                return False
            if integers and (t.dtype.is_floating_point or t.dtype.is_complex):
                return False
            return all(n in (1, m) for n, m in zip(reversed(t.shape), reversed(target.shape)))

        return self.pick(fits)

    def forget(self, step: Step) -> None:
        """Names that a step made are no longer there."""
        for name in step.results:
            if name not in self.program.parameters:
                self.names.pop(name)

    def second_name(self) -> int:
        """How many names a written tensor gets besides the one it has."""
        return 1 if self.rng.random() < 0.2 else 0

    def literal(self) -> int:
        return self.rng.choice((-3, -2, -1, 1, 2, 3))

    def index(self, size: int) -> str:
        """Some different indices below `size`, as text; negative ones now and then."""
        count = self.rng.randint(1, size)
        chosen = self.rng.sample(range(size), count)
        return f"torch.tensor({chosen})"

    def shape(self, most: int = 4) -> tuple[int, ...]:
        return tuple(
            self.rng.choice(self.dims) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)[: most * 2 + 1]))
        )

    def add(self, proposal: Proposal) -> bool:
        """Run a proposed step everywhere and keep it, or put everything back."""
        text, operands, count = proposal
        new = tuple(f"v{self._count + k}" for k in range(count)) if isinstance(count, int) else ()
        step = Step(new if isinstance(count, int) else count, text, operands)
        saved = [(run.memory(), dict(run.names), [_geometry(t) for t in run.names.values()]) for run in self.runs]
        try:
            for run in self.runs:
                run.step(step)
                _require_booleans(run.names.values())
        except (Unfit, *REFUSALS) as error:
            self.rejected[type(error).__name__ if not isinstance(error, Unfit) else f"unfit: {error.kind}"] += 1
            for run, (memory, names, geometries) in zip(self.runs, saved):
                run.names = names
                for tensor, before in zip(names.values(), geometries):
                    if _geometry(tensor) != before:  # a resize that failed has changed the sizes
                        tensor.set_(tensor.untyped_storage(), *before)
                for bytes_, copy in memory:
                    if bytes_.numel() == copy.numel():
                        bytes_.copy_(copy)
            return False
        self._count += len(new)
        self.program = self.program.with_steps((*self.program.steps, step))
        return True


def _geometry(tensor: torch.Tensor) -> tuple[Any, Any, Any]:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def generate(seed: int, options: Options = Options()) -> Program:
    """The program of a seed."""
    return draft(seed, options).program


def draft(seed: int, options: Options = Options()) -> Draft:
    """The program of a seed, together with what was rejected on the way."""
    return draft_with(random.Random(seed), options, seed)


@torch.no_grad()
def draft_with(rng: random.Random, options: Options, seed: int = -1) -> Draft:
    """The program that a source of choices makes."""
    from tools.fuzz.steps import rules

    dims = tuple(rng.choice(((2, 3, 4), (2, 3), (2, 4), (1, 2, 3), (3, 4), (2, 2, 4, 0))))
    allow_order = rng.random() < options.order_dependent
    arguments = _arguments(rng, dims, options)
    if not options.flat and rng.random() < 0.25:
        arguments = replace(arguments, arguments=_held(rng, arguments.arguments))
    runs = [Run(arguments, world, allow_order) for world in range(WORLDS)]
    made = Draft(rng, options, arguments, runs, dims)
    choices, weights = rules(options, favoured=rng)
    wanted, attempts = rng.randint(1, options.steps), 0
    while len(made.program.steps) < wanted and attempts < 12 * wanted:
        attempts += 1
        rule = rng.choices(choices, weights)[0]
        proposal = rule(made)
        if proposal is not None and made.add(proposal):
            made.kinds[f"{rule.__module__.rpartition('_')[2]}.{rule.__name__}"] += 1
    made.program = replace(
        made.program, bare=rng.random() < 0.3, order_dependent=any(run.judge.order_dependent for run in runs), seed=seed
    )
    while made.program.held and not _can_go_on(made.program):
        gone = made.program.steps[-1]
        made.program = made.program.with_steps(made.program.steps[:-1])
        made.forget(gone)
    nesting = [0, 0] if options.flat else [rng.randrange(1, 1 << 30) if rng.random() < 0.15 else 0 for _ in range(2)]
    made.program = replace(made.program, outputs=_outputs(made), packed=nesting[0], wrapped=nesting[1])
    return made


def _can_go_on(program: Program) -> bool:
    """Whether the second and third call are fit, on the state that those before have left."""
    try:
        return validate_calls(program) in (False, program.order_dependent)
    except (Unfit, *REFUSALS):
        return False


def _outputs(made: Draft) -> tuple[str, ...]:
    rng, names = made.rng, list(made.names)
    count = rng.choice((0, 1, 1, 1, 2, 2, 3, 4))
    recent = names[len(made.program.arguments) :] or names
    chosen = [rng.choice(recent if rng.random() < 0.7 else names) for _ in range(count)]
    if chosen and rng.random() < 0.12:
        chosen.append(rng.choice(chosen))
    return tuple(chosen)


def _arguments(rng: random.Random, dims: tuple[int, ...], options: Options) -> Program:
    """Arguments only: fresh, of the same form, non-contiguous, offset, with gaps, expanded, and sharing memory in every way."""
    storages: list[Storage] = []
    arguments: list[Argument] = []
    main = rng.choice(("f32", "f32", "f32", "f64", "f16", "bf16", "i64", "i32", "u8", "c64", "bool", "i16", "i8"))
    for _ in range(rng.choice((1, 1, 2, 2, 2, 3, 3, 4))):
        if arguments and rng.random() < 0.3:
            number = rng.randrange(len(arguments))
            shared = _sharing(rng, dims, storages, arguments, number, options)
            if shared is not None:
                arguments.append(shared)
                continue
        if arguments and rng.random() < 0.1:
            storages.append(replace(storages[arguments[-1].storage], seed=rng.randrange(1 << 30)))
            arguments.append(replace(arguments[-1], storage=len(storages) - 1, same_as=-1))
            continue
        dtype = main if rng.random() < 0.6 else rng.choice(options.dtypes)
        sizes = tuple(rng.choice(dims) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))))
        offset, strides = _layout(rng, sizes)
        count = offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else offset
        count += rng.choice((0, 0, 0, 2))
        fill = "small"
        if dtype in ("i64", "i32") and len(sizes) == 1 and rng.random() < 0.6:
            fill = "index"
        elif dtype not in ("bool", "i64") and rng.random() < 0.12:
            fill = "bits"
        lazy = "conj" if dtype == "c64" and options.lazy_arguments and rng.random() < 0.15 else ""
        storages.append(Storage(dtype, count, fill, rng.randrange(1 << 30)))
        arguments.append(Argument(len(storages) - 1, dtype, sizes, strides, offset, lazy))
    return Program(tuple(storages), tuple(arguments), (), ())


def _held(rng: random.Random, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    """The arguments, some of which a module holds; one object may be a parameter only wherever it is held."""
    made: list[Argument] = []
    shared = {argument.same_as for argument in arguments}
    for number, argument in enumerate(arguments):
        first = made[argument.same_as].held if argument.same_as >= 0 else None
        kinds = ["", "buffer", "buffer", "buffer", "transient"]
        if first is None and not argument.lazy:
            kinds.append("parameter")
        if number not in shared and argument.same_as < 0:
            kinds.append("attribute")  # one that is also something else is refused
        if first == "parameter":
            kinds = ["parameter", "parameter", ""]
        if made and argument.same_as < 0 and made[-1].held == "buffer" and _form(made[-1]) == _form(argument):
            kinds = ["buffer"]  # two that may change places
        held = rng.choice(kinds)
        made.append(replace(argument, held=held, module="part" if held and rng.random() < 0.25 else ""))
    return tuple(made)


def _form(argument: Argument) -> tuple[object, ...]:
    return argument.dtype, argument.sizes, argument.strides, argument.offset, argument.lazy


def _layout(rng: random.Random, sizes: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Offset and strides: row-major mostly, else permuted, with gaps or expanded."""
    kind = rng.choice(("plain", "plain", "plain", "plain", "permuted", "gaps", "expanded", "offset"))
    order = list(range(len(sizes)))
    if kind == "permuted":
        rng.shuffle(order)
    strides, step = [0] * len(sizes), 1
    for position in reversed(order):
        if kind == "gaps":
            step *= rng.choice((1, 1, 2))
        strides[position] = step
        step *= max(sizes[position], 1)
        if kind == "gaps":
            step += rng.choice((0, 0, 1, 2))
    if kind == "expanded" and sizes:
        strides[rng.randrange(len(sizes))] = 0
    return rng.choice((0, 1, 2, 4, 5)) if kind in ("offset", "gaps") else 0, tuple(strides)


def _sharing(
    rng: random.Random,
    dims: tuple[int, ...],
    storages: list[Storage],
    arguments: list[Argument],
    number: int,
    options: Options,
) -> Argument | None:
    """An argument that shares a storage with argument `number`."""
    other = arguments[number]
    kind = rng.choice(("same", "same window", "transposed", "window", "window", "reinterpreted", "part"))
    if kind == "same":
        return Argument(other.storage, other.dtype, other.sizes, other.strides, other.offset, other.lazy, number)
    if kind == "same window":
        return Argument(other.storage, other.dtype, other.sizes, other.strides, other.offset)
    if kind == "transposed" and other.sizes:
        order = list(range(len(other.sizes)))
        rng.shuffle(order)
        sizes, strides = tuple(other.sizes[i] for i in order), tuple(other.strides[i] for i in order)
        return Argument(other.storage, other.dtype, sizes, strides, other.offset)
    if kind == "part" and other.sizes and other.sizes[0] > 1:
        start = rng.randrange(other.sizes[0])
        sizes = (rng.randint(1, other.sizes[0] - start), *other.sizes[1:])
        return Argument(other.storage, other.dtype, sizes, other.strides, other.offset + start * other.strides[0])
    storage = storages[other.storage]
    dtype = other.dtype
    if kind == "reinterpreted":
        dtype = rng.choice([d for d in options.dtypes if d != "bool"])
    have = storage.count * DTYPES[storage.dtype].itemsize // DTYPES[dtype].itemsize
    sizes = tuple(rng.choice(dims) for _ in range(rng.choice((0, 1, 1, 2, 2))))
    _, strides = _layout(rng, sizes)
    need = 1 + sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else 0
    if need > have:
        return None
    return Argument(other.storage, dtype, sizes, strides, rng.randint(0, have - need))
