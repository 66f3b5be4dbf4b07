"""Where a program's own tensors come from at a call: the module it was captured from, or a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from compiler.errors import GuardError


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
    ):
        self._owner = owner
        self._constants = dict(constants)
        self._training = dict(training)
        paths = {"": -1}  # every module on the way, parents first
        for path in [*training, *(name.rpartition(".")[0] for name in names if name not in constants)]:
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
        return found

    def available(self) -> dict[str, torch.Tensor]:
        """What there is, by name."""
        return dict(zip((name for name, *_ in self._slots), self.tensors(guarded=False), strict=True))

    def rebind(self, name: str, tensor: torch.Tensor) -> None:
        """Set the attribute on the module, as the program's own assignment would."""
        if name in self._constants:
            self._constants[name] = tensor
        path, _, key = name.rpartition(".")
        setattr(self._owner.get_submodule(path), key, tensor)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
