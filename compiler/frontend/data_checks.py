"""Functions of PyTorch whose implementation looks at data, by operators that do not, while a program is traced or imported.

`equal` and `allclose` give a number, as `item()` does. The others look only to check what they are given, or to select by a
mask that follows from shapes; the check is left out: negative weights or variances, and windows whose overlap leaves a gap
(`istft`), give NaN or infinities where eager PyTorch raises. An assignment to `.data`, which no operator stands for, becomes one.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from compiler.errors import UnsupportedError
from compiler.frontend.ctc import ctc_loss


class DataChecks(TorchFunctionMode):
    """Puts the functions below in place of PyTorch's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _FUNCTIONS.get(func, func)(*args, **(kwargs or {}))


def equal(one: Tensor, other: Tensor) -> Any:
    return (one == other).all().item() if one.shape == other.shape else False


def allclose(one: Tensor, other: Tensor, *args: Any, **kwargs: Any) -> Any:
    return torch.isclose(one, other, *args, **kwargs).all().item()


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    rows = input.unsqueeze(0) if input.dim() < 2 else input
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    weighted = rows if weights is None else rows * weights
    total: Any = rows.shape[1] if weights is None else weights.sum()
    mean = weighted.sum(1) / total
    if weights is not None and aweights is not None and correction:
        total = total - correction * (weights * aweights).sum() / total
    else:
        total = total - correction
    total = torch.clamp(total, min=0) if isinstance(total, Tensor) else max(total, 0)
    centred = rows - mean.unsqueeze(1)
    right = centred if weights is None else centred * weights
    return torch.true_divide(torch.mm(centred, right.t().conj()), total).squeeze()


def corrcoef(input: Tensor) -> Tensor:
    found = cov(input)
    if not found.dim():
        return found / found
    spread = torch.sqrt(found.diag().real if found.is_complex() else found.diag())
    found = found / spread.view(-1, 1) / spread.view(1, -1)
    if found.is_complex():
        return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1))
    return found.clip(-1, 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(len(input)), r)) if r else []
    if not r:
        return input.new_empty((0,))
    places = torch.tensor([place for row in chosen for place in row], dtype=torch.int64)
    return input.index_select(0, places).reshape(len(chosen), r)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    spread = var if isinstance(var, Tensor) else torch.full_like(input, var)
    if spread.shape != input.shape and spread.shape == input.shape[:-1]:
        spread = spread.unsqueeze(-1)
    spread = spread.clamp(min=eps)
    loss = 0.5 * (torch.log(spread) + (input - target) ** 2 / spread)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """Frames transformed back, weighed by the window and added where they overlap, over the sum of the window's squares."""
    width = n_fft if win_length is None else win_length
    hop = n_fft // 4 if hop_length is None else hop_length
    half = input.shape[-2] != n_fft if onesided is None else onesided
    torch._check(
        input.is_complex() and input.dim() in (2, 3) and input.numel() > 0, lambda: "istft takes complex frames"
    )
    torch._check(
        input.shape[-2] == (n_fft // 2 + 1 if half else n_fft), lambda: "istft: the frequencies do not fit n_fft"
    )
    torch._check(0 < hop <= width <= n_fft, lambda: "istft: 0 < hop_length <= win_length <= n_fft does not hold")
    torch._check(window is None or window.shape == (width,), lambda: "istft: the window has not win_length elements")
    torch._check(return_complex or window is None or not window.is_complex(), lambda: "istft: the window is complex")
    torch._check(not (return_complex and half), lambda: "istft: a complex signal is not one-sided")
    scale = "ortho" if normalized else None
    frames = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(1, 2)
    if return_complex:
        frames = torch.fft.ifft(frames, dim=-1, norm=scale)
    else:
        frames = torch.fft.irfft(frames[..., : n_fft // 2 + 1], n_fft, dim=-1, norm=scale)
    weights = torch.ones(width, dtype=input.dtype.to_real()) if window is None else window
    before = (n_fft - width) // 2
    weights = torch.constant_pad_nd(weights, (before, n_fft - width - before))
    batch, count = frames.shape[:2]
    whole = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length

    def overlapped(parts: Tensor) -> Tensor:
        return torch.ops.aten.unfold_backward(parts, (parts.shape[0], whole), 1, n_fft, hop)[:, start:end]

    signal = overlapped(frames * weights) / overlapped(weights.pow(2).expand(1, count, n_fft))
    signal = signal if input.dim() == 3 else signal.squeeze(0)
    return torch.constant_pad_nd(signal, (0, end - whole)) if end > whole else signal


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """As the kernel lays it out; on fakes PyTorch makes it from comparisons, whose strides are those of the operand."""
    return torch.nn.functional.one_hot(input, num_classes).contiguous()


def max_pool1d(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """As the kernel lays it out that neither keeps indices nor differentiates; on fakes PyTorch has the other one only."""
    indices = len(args) > 5 and args[5] or kwargs.get("return_indices", False)
    plain = not indices and not (input.requires_grad and torch.is_grad_enabled())
    return torch.nn.functional.max_pool1d(input.contiguous() if plain else input, *args, **kwargs)


def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: int = 0, **named: Any) -> Any:
    places = named.get("tensor_indices_or_sections", named.get("indices", named.get("sections", indices_or_sections)))
    if isinstance(places, Tensor):
        known = getattr(places, "constant", None)
        if known is None:
            raise UnsupportedError(
                "the sizes of what tensor_split gives depend on the data of a tensor",
                hint="pass the places as a list of numbers",
            )
        with _disable_current_modes():
            places = known.tolist()
    return torch.tensor_split(input, places, dim)


def set_data(target: Tensor, value: Tensor) -> None:
    """`target.data = value`: other memory for the same tensor. PyTorch does that without calling an operator."""
    if value.dtype != target.dtype:
        raise UnsupportedError(
            f"`.data = ` makes a tensor of {target.dtype} one of {value.dtype}", hint="use another variable for it"
        )
    with torch._C.DisableTorchFunction():  # it is not the program that asks
        places = [
            (t.untyped_storage()._cdata, t.storage_offset(), t.shape, t.stride(), t.is_conj(), t.is_neg())
            for t in (target, value)
        ]
    if places[0] != places[1]:
        target.set_(value.detach())  # pyright: ignore[reportArgumentType]


def _each(name: str, combine: Any) -> Any:
    """`_foreach_addcdiv_` and the like, one tensor at a time where the scalars are in a tensor: on fakes PyTorch has none."""

    def run(self: Any, tensor1: Any, tensor2: Any, *args: Any, **kwargs: Any) -> Any:
        scalars = args[0] if args else kwargs.get("scalars")
        if not isinstance(scalars, Tensor):
            return getattr(torch, name)(self, tensor1, tensor2, *args, **kwargs)
        found: list[Tensor] = []
        for old, scalar, one, other in zip(self, scalars.unbind(0), tensor1, tensor2, strict=True):
            step = combine(scalar.to(one.dtype) * one, other)  # only now: lists may hold what is written before
            found.append(old.add_(step) if name.endswith("_") else old + step)
        return found

    return run


_FOREACH = {"_foreach_addcdiv": torch.div, "_foreach_addcmul": torch.mul}
_FUNCTIONS: dict[Any, Any] = {
    **{getattr(torch, f"{name}{end}"): _each(f"{name}{end}", one) for name, one in _FOREACH.items() for end in ("", "_")},
    torch.Tensor.data.__set__: set_data,  # pyright: ignore[reportAttributeAccessIssue]
    torch.equal: equal, torch.Tensor.equal: equal, torch.allclose: allclose, torch.Tensor.allclose: allclose,
    torch.cov: cov, torch.Tensor.cov: cov, torch.corrcoef: corrcoef, torch.Tensor.corrcoef: corrcoef,
    torch.combinations: combinations, torch.nn.functional.gaussian_nll_loss: gaussian_nll_loss,
    torch.istft: istft, torch.Tensor.istft: istft, torch.ops.aten.istft.default: istft,
    torch.ctc_loss: ctc_loss, torch.nn.functional.ctc_loss: ctc_loss,
    torch.ops.aten.ctc_loss.IntList: ctc_loss, torch.ops.aten.ctc_loss.Tensor: ctc_loss,
    torch.nn.functional.one_hot: one_hot, torch.max_pool1d: max_pool1d, torch.nn.functional.max_pool1d: max_pool1d,
    torch.tensor_split: tensor_split, torch.Tensor.tensor_split: tensor_split,
}  # fmt: skip
