"""Gradients of operators that select, weigh or pool elements, against eager's."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import compiler


def gradients(forward: Callable[..., torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The forward result, and the gradients of its inputs for a cotangent that differs from place to place."""

    def program(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in inputs]
            out = forward(*leaves)
            weights = torch.linspace(-1, 2, out.numel()).reshape(out.shape)
            return (out.detach(), *torch.autograd.grad(out, leaves, weights))

    return program


def assert_gradients(forward: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    program = gradients(forward)
    found = compiler.compile(program, inputs)(*inputs)
    torch.testing.assert_close(tuple(found), program(*inputs), rtol=1e-4, atol=1e-5)


def image(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size)))


RESAMPLINGS = [
    ("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1), ("nearest-exact", 2), ("nearest-exact", 3),
    ("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "spatial"), RESAMPLINGS)
def test_resampling(mode: str, spatial: int) -> None:
    x = image(2, 2, 4, 3, 5) if spatial == 3 else image(2, 2, 4, 3) if spatial == 2 else image(2, 2, 5)
    aligned = (None,) if "nearest" in mode else (True, False)

    def forward(x: torch.Tensor) -> torch.Tensor:
        by_factor = F.interpolate(x, scale_factor=1.7, mode=mode)
        by_size = [F.interpolate(x, size=(7, 2, 6)[:spatial], mode=mode, align_corners=a) for a in aligned]
        return torch.cat([by_factor.flatten(), *(y.flatten() for y in by_size)])

    assert_gradients(forward, x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialiased_resampling(mode: str) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        by_factor = F.interpolate(x, scale_factor=(0.4, 1.7), mode=mode, antialias=True)
        sizes = itertools.product(((3, 2), (9, 11), (1, 1)), (True, False) if mode != "lanczos" else (False,))
        by_size = [F.interpolate(x, size=s, mode=mode, align_corners=a, antialias=True) for s, a in sizes]
        return torch.cat([by_factor.flatten(), *(y.flatten() for y in by_size)])

    assert_gradients(forward, image(2, 2, 9, 6))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialiased_resampling_of_bytes_and_of_the_infinite(mode: str) -> None:
    def program(pixels: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        return [F.interpolate(y, size=(4, 13), mode=mode, antialias=True) for y in (pixels, x)]

    pixels = torch.randint(0, 256, (2, 3, 9, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    x = image(1, 2, 17, 8).to(memory_format=torch.channels_last)
    x[0, 1, 16, 7] = float("inf")
    (got, spread), (want, right) = compiler.compile(program, (pixels, x))(pixels, x), program(pixels, x)
    assert torch.equal(got, want)
    assert torch.equal(spread.isfinite(), right.isfinite())
    torch.testing.assert_close(spread, right, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert spread.stride() == right.stride()


@pytest.mark.parametrize("spatial", [2, 3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sampling(mode: str, spatial: int) -> None:
    if spatial == 3 and mode == "bicubic":
        with pytest.raises(RuntimeError):  # eager has none
            F.grid_sample(image(1, 1, 2, 2, 2), image(1, 1, 1, 1, 3), mode=mode, align_corners=True)
        return
    x = image(2, 2, 4, 5) if spatial == 2 else image(2, 2, 3, 4, 5)
    grid = image(2, 3, 4, 2) if spatial == 2 else image(2, 2, 2, 3, 3)

    def forward(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        settings = itertools.product(("zeros", "border", "reflection"), (True, False))
        return torch.cat(
            [F.grid_sample(x, grid, mode, padding, align_corners=a).flatten() for padding, a in settings]
        )  # fmt: skip

    assert_gradients(forward, x, grid)


def test_a_grid_without_a_gradient() -> None:
    grid = image(2, 3, 4, 2)
    assert_gradients(lambda x: F.grid_sample(x, grid, align_corners=False), image(2, 2, 4, 5))


POOLS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "adaptive 2d": lambda x: F.adaptive_max_pool2d(x[:, :, 0], (3, 2)),
    "adaptive 3d": lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)),
    "3d": lambda x: F.max_pool3d(x, 3, stride=2, padding=1),
    "2d": lambda x: F.max_pool2d(x[:, :, 0], 3, stride=1, padding=1),
    "fractional 2d": lambda x: F.fractional_max_pool2d(
        x[:, :, 0], 2, output_size=(3, 2), _random_samples=torch.full((2, 2, 2), 0.3)
    ),
    "fractional 3d": lambda x: F.fractional_max_pool3d(
        x, 2, output_size=(2, 3, 2), _random_samples=torch.full((2, 2, 3), 0.3)
    ),
    "unbatched": lambda x: F.adaptive_max_pool2d(x[0, :, 0], (3, 2)),
}


@pytest.mark.parametrize("pool", POOLS)
def test_pools(pool: str) -> None:
    assert_gradients(POOLS[pool], image(2, 2, 4, 6, 5))


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_pads(mode: str, spatial: int) -> None:
    x = image(2, 2, 4, 5, 6)[(slice(None), slice(None), *[0] * (3 - spatial))]
    assert_gradients(lambda x: F.pad(x, (1, 2, 3, 0, 0, 1)[: 2 * spatial], mode=mode), x)


def test_a_pad_that_crops() -> None:
    assert_gradients(lambda x: F.pad(x, (-1, 2, 1, -2), mode="replicate"), image(2, 2, 4, 5))


def test_thresholds() -> None:
    x = torch.tensor([-2.0, -0.5, -0.1, 0.0, 0.3, 0.5, 4.0])
    assert_gradients(lambda x: torch.cat([F.hardshrink(x), F.softshrink(x), F.hardshrink(x, 0.2)]), x)


@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, padding: int | None, by_frequency: bool) -> None:
    indices = torch.tensor([1, 2, 4, 4, 3, 1, 2, 0])
    offsets = torch.tensor([0, 3, 3, 6])
    frequency = by_frequency and mode != "max"
    assert_gradients(
        lambda table: F.embedding_bag(
            indices, table, offsets, mode=mode, padding_idx=padding, scale_grad_by_freq=frequency
        ),
        image(5, 3),
    )


def test_weighted_bags() -> None:
    indices = torch.tensor([1, 2, 4, 4, 3, 1, 2, 0])
    offsets = torch.tensor([0, 3, 3, 6, 8])
    assert_gradients(
        lambda table, weights: F.embedding_bag(
            indices, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
        ),
        image(5, 3), image(8),
    )  # fmt: skip


@pytest.mark.parametrize("n", [1, 6, 7])
def test_sample_frequencies(n: int) -> None:
    def program(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            x + torch.fft.fftfreq(n, 0.3).sum(),
            torch.fft.fftfreq(n),
            torch.fft.rfftfreq(n, 2.0, dtype=torch.float64),
        ]

    x = torch.zeros(1)
    torch.testing.assert_close(list(compiler.compile(program, (x,))(x)), program(x))


def test_a_random_slope_and_its_gradient() -> None:
    x = image(300)

    def program(x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ops.aten.rrelu_with_noise_functional(x, noise, 0.1, 0.3, True)

    out, slopes = compiler.compile(program, (x, torch.zeros(300)))(x, torch.zeros(300))
    torch.testing.assert_close(out, x * slopes)
    assert torch.equal(slopes == 1, x > 0)
    assert slopes.min() >= 0.1 and slopes[x <= 0].max() <= 0.3

    def trained(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            out = F.rrelu(leaf, 0.1, 0.3, training=True)
            return out.detach(), torch.autograd.grad(out.sum(), leaf)[0]

    out, slopes = compiler.compile(trained, (x,))(x)
    torch.testing.assert_close(out, x * slopes)


SEGMENTS: dict[str, torch.Tensor] = {
    "plain": torch.tensor([1.0, 3.0, 2.0, 3.0, -1.0, 4.0]),
    "rows": torch.tensor([[1.0, 3.0], [2.0, 3.0], [-1.0, 4.0], [5.0, 3.0], [0.5, 1.0], [2.0, -2.0]]),
    "zeros": torch.tensor([0.0, 3.0, 2.0, 0.0, 0.0, 4.0]),
}


@pytest.mark.parametrize("data", SEGMENTS)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce: str, data: str) -> None:
    lengths = torch.tensor([2, 0, 3, 1])

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(x, reduce, lengths=lengths, axis=0, unsafe=True, initial=1.0)

    assert_gradients(forward, SEGMENTS[data])


@pytest.mark.parametrize("lengths", ["numbers", "tensors"])
@pytest.mark.parametrize("form", ["padded", "one behind the other"])
def test_alignments_of_a_sequence(form: str, lengths: str) -> None:
    labels = torch.tensor([[1, 1, 3], [2, 4, 2], [5, 1, 1]])
    heard, said = [6, 4, 2], [3, 2, 3]  # the third has no alignment
    targets = labels if form == "padded" else torch.cat([row[:n] for row, n in zip(labels, said)])
    given = (torch.tensor(heard), torch.tensor(said)) if lengths == "tensors" else (heard, said)

    def forward(x: torch.Tensor) -> torch.Tensor:
        log_probs = x.log_softmax(2)
        kinds = itertools.product(("none", "mean", "sum"), (True,))
        losses = [F.ctc_loss(log_probs, targets, *given, reduction=r, zero_infinity=z).reshape(-1) for r, z in kinds]
        one = F.ctc_loss(log_probs[:, 0], targets[0] if form == "padded" else targets[:3], (6,), (3,), reduction="none")
        return torch.cat([*losses, one.reshape(-1)])

    assert_gradients(forward, image(6, 3, 7))


def test_a_sequence_without_an_alignment() -> None:
    def program(x: torch.Tensor, heard: torch.Tensor) -> torch.Tensor:
        return torch.nn.CTCLoss(reduction="none")(x, torch.tensor([[1, 1], [2, 3]]), heard, torch.tensor([2, 0]))

    x, heard = image(3, 2, 4).log_softmax(2), torch.tensor([2, 0])
    executable = compiler.compile(program, (x, heard))
    for lengths in (heard, torch.tensor([3, 3])):
        torch.testing.assert_close(executable(x, lengths), program(x, lengths))
    with pytest.raises(compiler.CompileError, match="no such number of frames"):
        compiler.compile(lambda x: F.ctc_loss(x, torch.tensor([[1], [2]]), (4, 4), (1, 1)), (x,))


CHUNKS = {"mean": 3, "sum": 2, "none": 4}


@pytest.mark.parametrize("reduction", CHUNKS)
def test_a_loss_in_chunks(reduction: str) -> None:
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=CHUNKS[reduction])
    target = torch.tensor([0, 3, 2, 6, 1, 1, -100, 4])

    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.linear_cross_entropy(x, weight, target, linear_bias=bias, reduction=reduction, options=options)

    assert_gradients(forward, image(8, 5), image(7, 5), image(7))
