"""Connectionist temporal classification by operators that look at no data: lengths are masks, alignments a recursion in time.

PyTorch's own operator has a second result whose size depends on the longest target. Here lengths may be tensors; targets are
then taken to be as long as their tensor has room for. The recursion is unrolled, one step for each frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Lengths = Tensor | Sequence[int]

_NONE, _MEAN = 0, 1
_REDUCTIONS = {"none": _NONE, "mean": _MEAN, "sum": 2}


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths, blank: int = 0,
    reduction: int | str = _MEAN, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """`torch.ctc_loss`, and `torch.nn.functional.ctc_loss`, which names the reduction."""
    kind = _REDUCTIONS[reduction] if isinstance(reduction, str) else reduction
    frames = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    _check(frames, targets, input_lengths, target_lengths, blank)
    labels, room = _labels(frames, targets, target_lengths, blank)
    heard, said = _tensor(input_lengths), _tensor(target_lengths)
    found, _ = _Loss.apply(frames, labels, heard, said, room, zero_infinity)
    if zero_infinity:
        found = torch.where(found == math.inf, torch.zeros_like(found), found)
    if kind == _MEAN:
        return (found / said.to(found.dtype).clamp(min=1)).mean()
    return found if kind == _NONE and log_probs.dim() == 3 else found.squeeze(0) if kind == _NONE else found.sum()


def _check(frames: Tensor, targets: Tensor, heard: Lengths, said: Lengths, blank: int) -> None:
    torch._check(0 <= blank < frames.shape[2], lambda: "ctc_loss: blank is no class")
    counts = [lengths.numel() if isinstance(lengths, Tensor) else len(lengths) for lengths in (heard, said)]
    torch._check(counts == [frames.shape[1]] * 2, lambda: "ctc_loss: not as many lengths as samples")
    if not isinstance(heard, Tensor):
        torch._check(max(heard) <= frames.shape[0] and min(heard) >= 0, lambda: "ctc_loss: no such number of frames")


def _tensor(lengths: Lengths) -> Tensor:
    if isinstance(lengths, Tensor):
        return lengths.reshape(-1).to(torch.int64)
    return torch.tensor(list(lengths), dtype=torch.int64)


def _labels(frames: Tensor, targets: Tensor, lengths: Lengths, blank: int) -> tuple[Tensor, int]:
    """Each target with blanks around its labels (batch x 2 room + 1), and the room for labels."""
    batch = frames.shape[1]
    room = targets.shape[-1] if isinstance(lengths, Tensor) else max(lengths)
    if room and targets.dim() == 1:  # one behind the other
        ends = _tensor(lengths).cumsum(0)
        places = (ends - _tensor(lengths)).unsqueeze(1) + torch.arange(room)
        targets = targets[places.clamp(max=targets.shape[0] - 1)]
    else:
        targets = targets.reshape(batch, -1)[:, :room]
    inside = torch.arange(room) < _tensor(lengths).unsqueeze(1)
    targets = torch.where(inside, targets.to(torch.int64), blank)  # what follows a target may be anything
    blanks = torch.full_like(targets, blank)
    pairs = torch.stack([blanks, targets], 2).reshape(batch, 2 * room)
    return torch.cat([pairs, torch.full((batch, 1), blank)], 1), room


def _emitted(frames: Tensor, labels: Tensor) -> Tensor:
    """The log-probability of each label at each time (time x batch x labels)."""
    return frames.gather(2, labels.unsqueeze(0).expand(frames.shape[0], *labels.shape))


def _skips(labels: Tensor) -> Tensor:
    """Where a label may follow the one two before it: it is another one."""
    first = torch.zeros((labels.shape[0], min(2, labels.shape[1])), dtype=torch.bool)
    return torch.cat([first, labels[:, 2:] != labels[:, :-2]], 1)


def _later(x: Tensor, steps: int) -> Tensor:
    """Each row moved on by `steps` labels."""
    return torch.constant_pad_nd(x, (steps, -steps), -math.inf)


def _step(before: Tensor, skips: Tensor, emitted: Tensor) -> Tensor:
    """The forward variable a frame later: from the same label, the one before, or the one before that."""
    beyond = torch.where(skips, _later(before, 2), -math.inf)
    return torch.logsumexp(torch.stack([before, _later(before, 1), beyond]), 0) + emitted


def _alphas(emitted: Tensor, labels: Tensor, said: Tensor) -> Tensor:
    """Log-probabilities of having come as far as each label at each time."""
    place = torch.arange(labels.shape[1])
    started = (place == 0) | ((place == 1) & (said.unsqueeze(1) > 0))
    found, skips = [torch.where(started, emitted[0], -math.inf)], _skips(labels)
    for t in range(1, emitted.shape[0]):
        found.append(_step(found[-1], skips, emitted[t]))
    return torch.stack(found)


def _ends(labels: Tensor, said: Tensor) -> Tensor:
    """The last label, and the blank behind it."""
    place, last = torch.arange(labels.shape[1]), 2 * said.unsqueeze(1)
    return (place == last) | ((place == last - 1) & (last > 0))


def _betas(emitted: Tensor, labels: Tensor, heard: Tensor, said: Tensor) -> Tensor:
    """Log-probabilities of going on to the end from each label at each time; the recursion is that of mirrored targets."""
    mirrored, ends = labels.flip(1), _ends(labels, said).flip(1)
    skips, last = _skips(mirrored), (heard - 1).unsqueeze(1)
    found = [torch.full_like(emitted[0], -math.inf)]
    for t in range(emitted.shape[0] - 1, -1, -1):
        now = emitted[t].flip(1)
        found.append(torch.where(last == t, torch.where(ends, now, -math.inf), _step(found[-1], skips, now)))
    return torch.stack(found[:0:-1]).flip(2)


class _Loss(torch.autograd.Function):
    """The loss of each sample, and the forward variables; the gradient is that of PyTorch's kernel, which counts on
    log-probabilities that add up to one."""

    @staticmethod
    def forward(
        frames: Tensor, labels: Tensor, heard: Tensor, said: Tensor, room: int, zero_infinity: bool
    ) -> tuple[Tensor, Tensor]:
        if not frames.shape[0]:
            return torch.where(said == 0, 0.0, math.inf).to(frames.dtype), frames.new_empty((0, *labels.shape))
        alphas = _alphas(_emitted(frames, labels), labels, said)
        last = (heard - 1).clamp(min=0).reshape(1, -1, 1).expand(1, *labels.shape)
        ends = torch.where(_ends(labels, said), alphas.gather(0, last)[0], -math.inf)
        nothing = torch.where(said == 0, 0.0, math.inf).to(frames.dtype)
        return torch.where(heard == 0, nothing, -torch.logsumexp(ends, 1)), alphas

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        frames, labels, heard, said, _, ctx.zero_infinity = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(frames, labels, heard, said, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        frames, labels, heard, said, loss, alphas = ctx.saved_tensors
        if not frames.shape[0]:
            return torch.zeros_like(frames), None, None, None, None, None
        both = alphas + _betas(_emitted(frames, labels), labels, heard, said)
        places = labels.unsqueeze(0).expand(both.shape)
        # The log of a sum by classes: each class with its own greatest term.
        nothing = torch.full_like(frames, -math.inf)
        greatest = nothing.scatter_reduce(2, places, both, "amax")
        greatest = torch.where(greatest == -math.inf, torch.zeros_like(greatest), greatest)
        sums = torch.zeros_like(frames).scatter_add(2, places, (both - greatest.gather(2, places)).exp())
        joint = sums.log() + greatest
        found = (frames.exp() - (joint + loss.reshape(1, -1, 1) - frames).exp()) * grads[0].reshape(1, -1, 1)
        heard_now = torch.arange(frames.shape[0]).reshape(-1, 1, 1) < heard.reshape(1, -1, 1)
        found = torch.where(heard_now, found, torch.zeros_like(found))
        if ctx.zero_infinity:
            found = torch.where(loss.reshape(1, -1, 1) == math.inf, torch.zeros_like(found), found)
        return found, None, None, None, None, None


__all__ = ["ctc_loss"]
