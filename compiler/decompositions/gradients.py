"""Gradients of operators that select, weigh or pool elements: each is the transpose of a linear map, a sum by places.

Where the forward operator has a decomposition, the gradient is the vector-Jacobian product of that, formed when the call is
traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from compiler.decompositions import decomposition
from compiler.decompositions.order import segments
from compiler.decompositions.pooling import wide
from compiler.decompositions.sampling import grid_sampler_3d

aten = torch.ops.aten


def transposed(forward: Callable[..., Tensor], cotangent: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """What `cotangent` of `forward(*inputs)` makes of each input."""
    with torch.enable_grad():
        pull = torch.func.vjp(forward, *inputs)[1]
        return pull(cotangent)


# -- resampling ----------------------------------------------------------------------------------


def _resampling_backward(forward: OpOverload) -> Callable[..., Tensor]:
    """The gradient of a resampling, whose arguments but the image are those of the gradient."""

    def backward(grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], *settings: object) -> Tensor:
        image = grad.new_zeros(input_size)
        return transposed(lambda x: decomposition_table[forward](x, output_size, *settings), grad, image)[0]

    return backward


for _name in (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_trilinear3d", "upsample_bicubic2d",
):  # fmt: skip
    decomposition(f"{_name}_backward.default")(_resampling_backward(getattr(aten, _name).default))


@decomposition("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sampler_backward(
    grad: Tensor,
    image: Tensor,
    grid: Tensor,
    interpolation: int,
    padding: int,
    align: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor]:
    planes = decomposition_table[aten.grid_sampler_2d.default]

    def forward(image: Tensor, grid: Tensor) -> Tensor:
        return (planes if image.dim() == 4 else grid_sampler_3d)(image, grid, interpolation, padding, align)

    of_image, of_grid = transposed(forward, grad, image, grid)
    return (of_image if output_mask[0] else None), of_grid  # eager gives the second, asked for or not


# -- pools and pads ------------------------------------------------------------------------------


def _to_places(grad: Tensor, x: Tensor, places: Tensor, spatial: int) -> Tensor:
    """Each gradient at the place in its plane from which the value came."""
    lead = x.shape[:-spatial]
    plane = wide(grad).new_zeros((*lead, math.prod(x.shape[-spatial:])))
    found = plane.scatter_add(-1, places.reshape(*lead, -1), wide(grad).reshape(*lead, -1))
    return found.reshape(x.shape).to(x.dtype)


@decomposition("adaptive_max_pool2d_backward.default")
def adaptive_max_pool2d_backward(grad: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _to_places(grad, x, indices, 2)


@decomposition("adaptive_max_pool3d_backward.default")
def adaptive_max_pool3d_backward(grad: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _to_places(grad, x, indices, 3)


@decomposition("max_pool3d_with_indices_backward.default")
def max_pool3d_backward(
    grad: Tensor, x: Tensor, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    return _to_places(grad, x, indices, 3)


@decomposition("fractional_max_pool2d_backward.default", "fractional_max_pool3d_backward.default")
def fractional_max_pool_backward(
    grad: Tensor, x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], indices: Tensor
) -> Tensor:
    return _to_places(grad, x, indices, len(output_size))


@decomposition(
    "replication_pad1d_backward.default", "replication_pad2d_backward.default", "replication_pad3d_backward.default"
)
def replication_pad_backward(grad: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    """Borders add up at the element that they repeat; the padding of the last dimension comes first."""
    found = wide(grad)
    for number in range(len(padding) // 2):
        dim = x.dim() - 1 - number
        source = (torch.arange(grad.shape[dim]) - padding[2 * number]).clamp(0, x.shape[dim] - 1)
        shape = [x.shape[d] if d >= dim else grad.shape[d] for d in range(x.dim())]
        found = found.new_zeros(shape).index_add(dim, source, found)
    return found.to(x.dtype)


# -- thresholds ----------------------------------------------------------------------------------


@decomposition("hardshrink_backward.default", "softshrink_backward.default")
def shrink_backward(grad: Tensor, x: Tensor, lambd: float) -> Tensor:
    return torch.where((x >= -lambd) & (x <= lambd), torch.zeros_like(grad), grad)


# -- bags and segments ---------------------------------------------------------------------------


def _bag_of(indices: Tensor, offsets: Tensor) -> Tensor:
    """The bag of each index; an empty bag begins where the next one does."""
    place = torch.arange(len(indices), dtype=offsets.dtype)
    return (offsets[:, None] <= place).to(torch.int64).sum(0) - 1


def _frequencies(indices: Tensor, rows: int) -> Tensor:
    """What PyTorch's kernel takes for the frequency of each row: the row that is number n among those used has that of the
    n-th index in sorted order, which is its own only where none before it is used twice."""
    count = torch.zeros((rows,), dtype=torch.int64).index_add(0, indices, torch.ones_like(indices, dtype=torch.int64))
    number = ((count > 0).to(torch.int64).cumsum(0) - 1).clamp(min=0)
    return count[indices.sort()[0][number]]


@decomposition("_embedding_bag_backward.default")
def embedding_bag_backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor,
    num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """The dense gradient: rows of bags added up at the rows of the table that were in them."""
    assert not sparse
    table = wide(grad).new_zeros((num_weights, grad.shape[1]))
    if mode == 2:
        rows = torch.where(bag_size[: len(grad), None] != 0, wide(grad), torch.zeros_like(wide(grad)))
        return table.scatter_add(0, maximum_indices.to(torch.int64), rows).to(grad.dtype)
    bag = _bag_of(indices, offsets)
    rows = wide(grad)[bag]
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights)[:, None]
    if mode == 1:
        rows = rows / bag_size[bag][:, None].clamp(min=1)
    if scale_grad_by_freq:
        rows = rows / _frequencies(indices, num_weights)[indices][:, None]
    if padding_idx >= 0:
        rows = torch.where((indices == padding_idx)[:, None], torch.zeros_like(rows), rows)
    return table.index_add(0, indices, rows).to(grad.dtype)


@decomposition("_embedding_bag_per_sample_weights_backward.default")
def embedding_bag_per_sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    found = (wide(grad)[_bag_of(indices, offsets)] * wide(weight)[indices]).sum(-1)
    if padding_idx >= 0:
        found = torch.where(indices == padding_idx, torch.zeros_like(found), found)
    return found.to(grad.dtype)


@decomposition("_segment_reduce_backward.default")
def segment_reduce_backward(
    grad: Tensor, output: Tensor, data: Tensor, reduce: str, *, lengths: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, initial: float | None = None,
) -> Tensor:  # fmt: skip
    """Elements that are the extreme share the gradient; a product's is that of the others, where an element is zero."""
    inside = segments(data, lengths, offsets, axis)
    spread, along = data.unsqueeze(axis), axis + 1
    share = grad.unsqueeze(along).expand(*inside.shape[:along], *data.shape[axis:])
    if reduce == "mean":
        share = share / inside.to(grad.dtype).sum(along, keepdim=True)
    elif reduce in ("max", "min"):
        inside = inside & ((spread == output.unsqueeze(along)) | spread.isnan())
        # PyTorch's kernel divides positive gradients only.
        share = torch.where(share > 0, share / inside.to(grad.dtype).sum(along, keepdim=True), share)
    elif reduce == "prod":
        beside = (inside.unsqueeze(along) & inside.unsqueeze(along + 1)).any(axis)
        itself = torch.eye(data.shape[axis], dtype=torch.bool).reshape(
            beside.shape[axis : axis + 2] + inside.shape[along + 1 :]
        )
        others = torch.where(beside & ~itself, spread, torch.ones_like(spread)).prod(along).unsqueeze(axis)
        quotient = output.unsqueeze(along) / spread
        others = others * (1.0 if initial is None else initial)
        share = share * torch.where((spread == 0) | spread.isnan(), others, quotient)
    return torch.where(inside, share, torch.zeros_like(share)).sum(axis)
