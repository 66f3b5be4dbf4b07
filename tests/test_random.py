"""Random operators: the bits are those of the generator, the distributions PyTorch's, and the stream is state like any other.

Seeds are fixed, so a statistical test gives the same verdict each time; its limits are those of one in a million.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree
from xdsl.context import Context

import compiler
from compiler.errors import UnsupportedError
from compiler.frontend.capture import capture
from compiler.frontend.importer import import_graph
from compiler.random_bits import STATE, threefry
from compiler.reference import run_handles, run_values
from compiler.transforms.in_place_to_out_of_place import InPlaceToOutOfPlace

N = 10_000
NOTHING = torch.zeros(N)


def drawn(program: Callable[..., Any], *inputs: torch.Tensor, seed: int = 1) -> Any:
    return compiler.compile(program, inputs).manual_seed(seed)(*inputs)


# -- bits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [0, 3, -1, 0x123456789ABCDEF0, -(1 << 63)])
@pytest.mark.parametrize("counter", [0, 5, (1 << 32) - 2, (1 << 40) + 1])
def test_the_kernel_draws_the_bits_of_xla(key: int, counter: int) -> None:
    exe = compiler.compile(lambda: torch.empty(7, dtype=torch.int64).random_(), ())
    exe.state[STATE].copy_(torch.tensor([key, counter]))
    words = threefry(key, torch.arange(7) + counter)
    assert torch.equal(exe(), torch.bitwise_and(words >> 1, (1 << 63) - 1))
    assert exe.state[STATE].tolist() == [key, counter + 7]


def test_known_answer() -> None:
    """Threefry-2x32-20 of the vectors published with it."""
    zero, ones = torch.tensor([0]), torch.tensor([-1])
    assert threefry(0, zero).item() & 0xFFFFFFFF == 0x6B200159
    assert threefry(0, zero).item() >> 32 & 0xFFFFFFFF == 0x99BA4EFE
    assert threefry(-1, ones).item() & 0xFFFFFFFF == 0x1CB996FC
    assert threefry(-1, ones).item() >> 32 & 0xFFFFFFFF == 0xBB002BE7


# -- distributions -----------------------------------------------------------------------------


def _phi(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


CONTINUOUS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "rand": (lambda x: torch.rand(N), lambda v: v),
    "rand-f64": (lambda x: torch.rand(100, 100, dtype=torch.float64), lambda v: v),
    "rand_like": (lambda x: torch.rand_like(x), lambda v: v),
    "uniform_": (lambda x: x.clone().uniform_(-2, 3), lambda v: (v + 2) / 5),
    "randn": (lambda x: torch.randn(N), _phi),
    "randn-f64": (lambda x: torch.randn(N, dtype=torch.float64), _phi),
    "randn-complex": (lambda x: torch.randn(N, dtype=torch.complex64).imag, lambda v: _phi(v * math.sqrt(2))),
    "normal_": (lambda x: x.clone().normal_(2, 3), lambda v: _phi((v - 2) / 3)),
    "normal-tensors": (lambda x: torch.normal(x + 2, x + 3), lambda v: _phi((v - 2) / 3)),
    "normal-mean": (lambda x: torch.normal(x + 2, 3.0), lambda v: _phi((v - 2) / 3)),
    "exponential_": (lambda x: x.clone().exponential_(2.0), lambda v: 1 - torch.exp(-2 * v)),
    "cauchy_": (lambda x: x.clone().cauchy_(1.0, 2.0), lambda v: 0.5 + torch.atan((v - 1) / 2) / math.pi),
    "log_normal_": (lambda x: x.clone().log_normal_(0.0, 0.5), lambda v: _phi(torch.log(v) / 0.5)),
    "rrelu": (lambda x: F.rrelu(x - 1, 0.1, 0.4, training=True), lambda v: (v + 0.4) / 0.3),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    """Kolmogorov and Smirnov's distance from the distribution function; what is drawn looks like eager's in all else."""
    program, distribution = CONTINUOUS[name]
    got, want = drawn(program, NOTHING), program(NOTHING)
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    ordered = distribution(got.flatten().double()).sort()[0]
    steps = torch.arange(N + 1, dtype=torch.float64) / N
    distance = max((ordered - steps[:-1]).abs().max().item(), (ordered - steps[1:]).abs().max().item())
    assert distance * math.sqrt(N) < 2.7
    assert len(ordered.unique()) > 0.99 * N


DISCRETE: dict[str, tuple[Callable[..., torch.Tensor], dict[int, float]]] = {
    "randint": (lambda x: torch.randint(5, (N,)), dict.fromkeys(range(5), 1 / 5)),
    "randint-low": (lambda x: torch.randint(-3, 5, (N,), dtype=torch.int32), dict.fromkeys(range(-3, 5), 1 / 8)),
    "randint_like": (lambda x: torch.randint_like(x, 2, 9), dict.fromkeys(range(2, 9), 1 / 7)),
    "random_": (lambda x: x.clone().random_(7), dict.fromkeys(range(7), 1 / 7)),
    "random_-u8": (lambda x: torch.empty(N, dtype=torch.uint8).random_() // 32, dict.fromkeys(range(8), 1 / 8)),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3), {0: 0.7, 1: 0.3}),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.6), {0: 0.4, 1: 0.6}),
    "bernoulli_-bool": (lambda x: torch.empty(N, dtype=torch.bool).bernoulli_(0.6), {0: 0.4, 1: 0.6}),
    "geometric_": (lambda x: x.clone().geometric_(0.5).clamp(max=4), {1: 1 / 2, 2: 1 / 4, 3: 1 / 8, 4: 1 / 8}),
    "multinomial": (
        lambda x: torch.multinomial(torch.tensor([[0.1, 0.2, 0.0, 0.7]]).expand(N, 4), 1), {0: 0.1, 1: 0.2, 3: 0.7}
    ),
    "multinomial-again": (
        lambda x: torch.multinomial(torch.tensor([1.0, 2.0, 0.0, 7.0]), N, replacement=True), {0: 0.1, 1: 0.2, 3: 0.7}
    ),
    "multinomial-second": (  # of those drawn without replacement
        lambda x: torch.multinomial(torch.tensor([[0.5, 0.25, 0.25]]).expand(N, 3), 2)[:, 1],
        {0: 1 / 3, 1: 1 / 3, 2: 1 / 3},
    ),
    "randperm": (lambda x: torch.stack([torch.randperm(4) for _ in range(300)])[:, 0], dict.fromkeys(range(4), 1 / 4)),
    "dropout": (lambda x: F.dropout(x + 3, 0.25), {0: 0.25, 4: 0.75}),
    "dropout-in-place": (lambda x: F.dropout(x + 3, 0.25, True, True), {0: 0.25, 4: 0.75}),
    "native-dropout": (lambda x: torch.native_dropout(x + 3, 0.25, True)[0], {0: 0.25, 4: 0.75}),
    "feature-dropout": (lambda x: F.dropout2d(x.view(-1, 4, 5, 5) + 3, 0.25)[:, :, 0, 0], {0: 0.25, 4: 0.75}),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    """Pearson's test of the counts; values that cannot be do not occur."""
    program, chances = DISCRETE[name]
    got, want = drawn(program, NOTHING), program(NOTHING)
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    count = got.numel()
    seen = {int(v): int(n) for v, n in zip(*got.flatten().unique(return_counts=True), strict=True)}
    assert set(seen) <= set(chances)
    excess = sum((seen.get(v, 0) - count * p) ** 2 / (count * p) for v, p in chances.items())
    freedom = len(chances) - 1
    assert excess < freedom + 6 * math.sqrt(2 * freedom) + 12


def test_a_permutation_has_every_number_once() -> None:
    assert torch.equal(drawn(lambda: torch.randperm(1000)).sort()[0], torch.arange(1000))


def test_attention_with_dropout() -> None:
    """The mean over many heads is that without dropout; single weights are dropped."""
    query, value = torch.randn(1, 64, 8, 8), torch.ones(1, 64, 8, 8)
    got = drawn(lambda q, v: F.scaled_dot_product_attention(q, q, v, dropout_p=0.5), query, value)
    assert abs(got.mean().item() - 1) < 0.1
    assert got.std() > 0.1


def test_what_one_program_draws_is_independent() -> None:
    first, second = drawn(lambda: (torch.randn(N), torch.randn(N)))
    assert abs((first * second).mean().item()) * math.sqrt(N) < 5
    assert abs((first[1:] * first[:-1]).mean().item()) * math.sqrt(N) < 5


# -- the stream --------------------------------------------------------------------------------


class Noisy(torch.nn.Module):
    """Dropout between two layers, and noise added to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 64), torch.nn.Linear(64, 4)
        self.register_buffer("noise", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.noise.add_(torch.randn_like(self.noise) if self.training else 1)
        return self.second(F.dropout(self.first(x), 0.5, self.training)) + self.noise


def test_calls_differ_and_a_seed_repeats() -> None:
    exe = compiler.compile(lambda: torch.rand(50), ())
    calls = [exe.manual_seed(7)(), exe(), exe.manual_seed(7)(), exe(), exe.manual_seed(8)()]
    assert torch.equal(calls[0], calls[2])
    assert torch.equal(calls[1], calls[3])
    assert not torch.equal(calls[0], calls[1])
    assert not torch.equal(calls[0], calls[4])


def test_the_state_is_aliased_like_any_other() -> None:
    module = Noisy().requires_grad_(False)
    x = torch.randn(3, 16)
    exe = compiler.compile(module, (x,))
    before = exe.state[STATE].data_ptr()
    exe(x)
    assert sorted(row.arguments for row in exe.alias_table) == [("noise",), (STATE,)]
    assert (exe.state[STATE].data_ptr(), exe.copied_bytes) == (before, 0)
    assert exe.state[STATE][1] == 4 + 3 * 64


def test_evaluation_draws_nothing() -> None:
    module = Noisy().eval().requires_grad_(False)
    exe = compiler.compile(module, (torch.randn(3, 16),))
    assert STATE not in exe.state
    exe.manual_seed(3)


def test_saved_and_loaded(tmp_path: Any) -> None:
    """A loaded artifact goes on where the stream was, with weights or without."""
    module = Noisy().requires_grad_(False)
    x = torch.randn(3, 16)
    exe = compiler.compile(module, (x,)).manual_seed(5)
    exe(x)
    exe.save(tmp_path / "whole")
    exe.save(tmp_path / "bare", weights="omit")
    loaded = compiler.load(tmp_path / "whole")
    bare = compiler.load(tmp_path / "bare").bind({n: t.clone() for n, t in module.state_dict().items()})
    want = exe(x)
    assert torch.equal(loaded(x), want)
    assert torch.equal(bare(x), want)
    assert torch.equal(loaded.manual_seed(5)(x) - loaded.state["noise"], bare.manual_seed(5)(x) - bare.state["noise"])


def test_the_default_seed_follows_pytorch_and_leaves_it_alone() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = compiler.compile(lambda: torch.rand(5), ())()
    assert torch.equal(torch.get_rng_state(), before)
    second = compiler.compile(lambda: torch.rand(5), ())()
    torch.manual_seed(12)
    third = compiler.compile(lambda: torch.rand(5), ())()
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_drawing_in_regions() -> None:
    """Each turn of a loop draws anew, and a branch that is not taken draws nothing."""
    from torch._higher_order_ops.while_loop import while_loop

    def program(flag: torch.Tensor, out: torch.Tensor) -> Any:
        y = torch.cond(flag, lambda: torch.rand(3), lambda: torch.zeros(3))

        def body(i: torch.Tensor) -> Any:
            out.index_copy_(0, (i % 4).view(1), torch.rand(1, 3))
            return (i + 1,)

        return y, while_loop(lambda i: i < 4, body, (torch.zeros((), dtype=torch.int64),))

    out = torch.zeros(4, 3)
    with torch.no_grad():
        exe = compiler.compile(program, (torch.tensor(True), out)).manual_seed(1)
        first, _ = exe(torch.tensor(True), out)
        assert exe.state[STATE][1] == 15
        assert len(torch.cat([first, out.flatten()]).unique()) == 15
        nothing, _ = exe(torch.tensor(False), out)
        assert exe.state[STATE][1] == 27
        assert torch.equal(nothing, torch.zeros(3))


def test_the_reference_draws_the_same() -> None:
    """Both forms of the IR in eager PyTorch, and the compiled program."""

    def program(x: torch.Tensor) -> Any:
        return torch.rand(3), torch.randint(9, (4,)), x.normal_(), F.dropout(x, 0.5), torch.randperm(6)

    x = torch.zeros(5)
    exe = compiler.compile(program, (x,)).manual_seed(2)
    state = exe.state[STATE].clone()
    want = pytree.tree_leaves(exe(x))
    imported = import_graph(capture(program, (torch.zeros(5),)))
    for run in (run_handles, run_values):
        if run is run_values:
            InPlaceToOutOfPlace().apply(Context(), imported.module)
        given = [state.clone() if a.kind == "generator" else torch.zeros(5) for a in imported.arguments]
        got = run(imported.module, given)
        assert all(torch.allclose(g, w, atol=1e-6) for g, w in zip(got, want, strict=True))
        assert torch.equal(given[0], exe.state[STATE])


def _filled(*numbers: float) -> torch.Tensor:
    """Each number in a row of draws."""
    return torch.tensor(numbers, dtype=torch.float32).unsqueeze(1).expand(len(numbers), N).clone()


COUNTS = _filled(1.0, 5, 20, 25, 100, 100_000)
LAWS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "poisson": (torch.poisson, (_filled(0.0, 0.2, 3, 9.99, 10, 47, 12_000),)),
    "poisson of 16 bits": (torch.poisson, (_filled(0.0, 2, 30).to(torch.bfloat16),)),
    "poisson of 64 bits": (torch.poisson, (_filled(4, 600).double(),)),
    "binomial": (torch.binomial, (COUNTS, torch.tensor([0.3, 0.9, 0.5, 0.45, 0.97, 0.2]).unsqueeze(1))),
    "binomial at the ends": (torch.binomial, (COUNTS[:3], torch.tensor([[0.0], [1.0], [0.5]]))),
    "gamma": (torch._standard_gamma, (_filled(0.02, 0.7, 1, 2.5, 400),)),
    "dirichlet": (lambda a: torch._sample_dirichlet(a.mT), (_filled(0.1, 1, 4),)),
}


@pytest.mark.parametrize("law", LAWS)
def test_laws_of_rejection_and_inversion(law: str) -> None:
    """Two samples of one law: no gap of their distribution functions that chance makes less than once in a million."""
    program, given = LAWS[law]
    torch.manual_seed(0)
    mine, theirs = drawn(program, *given), program(*given)
    assert (mine.dtype, mine.shape, mine.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
    if law == "dirichlet":
        mine, theirs = mine.mT, theirs.mT
    for ours, eager in zip(mine.double(), theirs.double(), strict=True):
        places = torch.cat([ours, eager])
        below = [torch.searchsorted(x.sort().values, places, right=True) / N for x in (ours, eager)]
        assert float((below[0] - below[1]).abs().max()) < math.sqrt(-math.log(1e-6 / 2) / N)
    assert torch.equal(drawn(program, *given), drawn(program, *given))


def test_refused() -> None:
    generator = torch.Generator()
    library = torch.library.Library("test_random", "FRAGMENT")
    library.define("lucky(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
    library.impl("lucky", torch.empty_like, "Meta")
    with pytest.raises(UnsupportedError, match="lucky.default draws from a distribution"):
        compiler.compile(lambda x: torch.ops.test_random.lucky(x), (torch.ones(3),))
    with pytest.raises(compiler.CompileError):
        compiler.compile(lambda x: x.clone().normal_(generator=generator), (torch.ones(3),))
