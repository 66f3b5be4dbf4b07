"""Where a program's own tensors come from at a call: the module it was captured from, or a dictionary."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import CellType

import torch

from compiler.errors import GuardError
from compiler.program import Assumptions, Link


class StoredState:
    """State in a dictionary: of a loaded or a bound executable."""

    def __init__(self, names: Sequence[str], tensors: Mapping[str, torch.Tensor]):
        self._names = tuple(names)
        self._tensors = dict(tensors)

    def tensors(self, guarded: bool = True) -> list[torch.Tensor]:
        """The tensors in argument order. A dictionary has no training flags: `guarded` makes no difference."""
        missing = [name for name in self._names if name not in self._tensors]
        if missing:
            raise GuardError(f"no tensor for the state {_some(missing)}", hint="call bind(state_dict) first")
        return [self._tensors[name] for name in self._names]

    def available(self) -> dict[str, torch.Tensor]:
        """What there is, by name."""
        return dict(self._tensors)

    def rebind(self, name: str, tensor: torch.Tensor) -> None:
        """Make `name` another tensor."""
        self._tensors[name] = tensor


class ModuleState:
    """State of a live module: looked up by name at every call, so that a replaced parameter is seen.

    Constants, which have no name in the module, come from `constants`. The training flags that the program was
    captured under are checked on the way.
    """

    def __init__(
        self,
        names: Sequence[str],
        owner: torch.nn.Module,
        constants: Mapping[str, torch.Tensor],
        training: Mapping[str, bool],
        assumed: Assumptions = Assumptions(),  # noqa: B008
    ):
        self._owner = owner
        self._constants = dict(constants)
        self._training = dict(training)
        positions = {name: n for n, name in enumerate(names) if name not in constants}
        ties = [group for group in assumed.ties if group[0] in positions]
        tied = [name for group in ties for name in group[1:]]
        paths = {"": -1}  # every module on the way, parents first
        for path in [*training, *(name.rpartition(".")[0] for name in (*names, *tied) if name not in constants)]:
            parts = path.split(".") if path else []
            for n in range(len(parts)):
                paths.setdefault(".".join(parts[: n + 1]), -1)
        order = {path: n for n, path in enumerate(paths)}
        self._modules = tuple(
            (path, order[path.rpartition(".")[0]], path.rpartition(".")[2], training.get(path)) for path in paths
        )
        self._slots = tuple(
            (name, -1, "") if name in constants else (name, order[name.rpartition(".")[0]], name.rpartition(".")[2])
            for name in names
        )

        self._ties = tuple(
            (positions[first], first, name, order[name.rpartition(".")[0]], name.rpartition(".")[2])
            for first, *others in ties
            for name in others
        )
        held = {path: vars(owner.get_submodule(path)) for path in assumed.values}
        self._values = tuple(
            (path, order[path], tuple(values), tuple(values.values()))
            for path, all_values in assumed.values.items()
            if (values := {k: v for k, v in all_values.items() if held[path].get(k) is v})
        )
        self._containers = tuple(
            (path, order[path], key, value)
            for path, values in assumed.values.items()
            for key, value in values.items()
            if held[path].get(key) is not value
        )
        around = [owner.get_submodule(path) for path in paths]
        self._kinds, self._counts = [*map(type, around)], _counts(around)
        self._absent = tuple(
            (group, path, order[path], key)
            for path, members in held.items()
            for group in ("_parameters", "_buffers", "_modules")
            for key, value in members[group].items()
            if value is None
        )

    def tensors(self, guarded: bool = True) -> list[torch.Tensor]:
        """The tensors in argument order; GuardError if a name is gone or (`guarded`) a training flag has changed."""
        modules: list[torch.nn.Module] = []
        for path, parent, name, training in self._modules:
            module = modules[parent]._modules.get(name) if path else self._owner
            if module is None:
                raise GuardError(f"the module {path!r} is gone", hint="compile the module again after changing it")
            if guarded and training is not None and module.training is not training:
                raise GuardError(
                    f"module {path or '(root)'!r} was captured with training={training} and now has {module.training}",
                    hint=f"call .{'train' if training else 'eval'}() on it, or compile it again in this mode",
                )
            modules.append(module)
        found: list[torch.Tensor] = []
        for name, index, key in self._slots:
            if index < 0:
                found.append(self._constants[name])
                continue
            module = modules[index]
            tensor = module._parameters.get(key)
            if tensor is None and (tensor := module._buffers.get(key)) is None:
                tensor = getattr(module, key, None)
            if not isinstance(tensor, torch.Tensor):
                raise GuardError(f"the module has no tensor {name!r} any more", hint="compile the module again")
            found.append(tensor)
        if guarded:
            self._check(modules, found)
        return found

    def _check(self, modules: Sequence[torch.nn.Module], found: Sequence[torch.Tensor]) -> None:
        for position, first, name, index, key in self._ties:
            module = modules[index]
            if module._parameters.get(key) is not found[position] and module._buffers.get(key) is not found[position]:
                raise GuardError(
                    f"{first!r} and {name!r} were one tensor when compiled, and now they are two",
                    hint="tie them again, or compile the module again",
                )
        for path, index, key, value in self._containers:
            now = modules[index].__dict__.get(key)
            if type(now) is not type(value) or now != value:
                raise _changed(path, key, value, now)
        for group, path, index, key in self._absent:
            if (now := getattr(modules[index], group).get(key)) is not None:
                raise _changed(path, key, None, now)
        if [*map(type, modules)] != self._kinds:
            n = next(n for n, kind in enumerate(self._kinds) if type(modules[n]) is not kind)
            raise GuardError(
                f"module {self._modules[n][0] or '(root)'!r} was a {self._kinds[n].__name__} when compiled, and now it is a "
                f"{type(modules[n]).__name__}",
                hint="compile the module again after changing it",
            )
        if (counts := _counts(modules)) != self._counts:
            changed = next(n for n, count in enumerate(self._counts) if counts[n] != count)
            n = changed * len(modules) // len(counts)
            raise GuardError(
                f"module {self._modules[n][0] or '(root)'!r} has other submodules or forward hooks than when compiled",
                hint="compile the module again after changing it",
            )
        for path, index, keys, values in self._values:
            now = modules[index].__dict__
            if all(map(operator.is_, map(now.get, keys), values)):
                continue
            for key, value in zip(keys, values, strict=True):
                if type(now.get(key)) is not type(value) or now[key] != value and value == value:
                    raise _changed(path, key, value, now.get(key))

    def available(self) -> dict[str, torch.Tensor]:
        """What there is, by name."""
        return dict(zip((name for name, *_ in self._slots), self.tensors(guarded=False), strict=True))

    def rebind(self, name: str, tensor: torch.Tensor) -> None:
        """Set the attribute on the module, as the program's own assignment would."""
        if name in self._constants:
            self._constants[name] = tensor
        path, _, key = name.rpartition(".")
        setattr(self._owner.get_submodule(path), key, tensor)


def untied(state: Mapping[str, torch.Tensor], ties: Sequence[Sequence[str]]) -> dict[str, torch.Tensor]:
    """`state` with every group of tied names under the first; GuardError if they are not one tensor in it."""
    result = dict(state)
    for first, *others in ties:
        for name in others:
            if name not in result:
                continue
            known = result.setdefault(first, result[name])
            if not _same_memory(known, result[name]):
                raise GuardError(
                    f"{first!r} and {name!r} were one tensor when compiled, and here they are two",
                    hint="give the same tensor under both names",
                )
    return result


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a is b or (a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride())


def check_link(link: Link) -> None:
    """GuardError unless the place still holds what it did at capture."""
    try:
        now = link.holder.cell_contents if isinstance(link.holder, CellType) else link.holder[link.key]
    except (KeyError, IndexError, ValueError):
        now = None
    if now is not link.value:
        raise GuardError(
            f"{link.name} is another object than when the program was compiled, which holds a tensor there",
            hint="write into that tensor with copy_, take it as an argument, or compile again",
        )


_parts = operator.attrgetter("_modules", "_forward_pre_hooks", "_forward_hooks")


def _counts(modules: Iterable[torch.nn.Module]) -> list[int]:
    """How many submodules and hooks of a call each module has, three numbers for each."""
    return [*map(len, chain.from_iterable(map(_parts, modules)))]


def _changed(path: str, key: str, value: object, now: object) -> GuardError:
    return GuardError(
        f"the attribute {f'{path}.{key}' if path else key} was {_short(value)} when compiled, and now it is {_short(now)}",
        hint="set it back, or compile the module again",
    )


def _short(value: object) -> str:
    if isinstance(value, (int, float, bool, str, type(None), list, tuple, dict, set)):
        return reprlib.repr(value)
    return getattr(value, "__qualname__", f"a {type(value).__name__}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
