"""Models from transformers, from a config only, with random weights: what a user exports, beside eager PyTorch.

    python benchmarks/models.py [--models llama t5 ...]

"states" are a model's buffers, "written" those that a call of eager PyTorch writes, "aliased" the must-alias rows of the compiled
program, "copies" the copies as large as a cache in XLA's optimized HLO (with fusion off, where none can hide).

Every family gives the programs of a generation (an encoder, the prefill, a decode step) over one live module that holds
its caches as buffers. Each program is compiled, the generation runs for three steps beside a copy of the module in
eager PyTorch, and outputs and state are compared after every call.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from copies import state_copies
from torch import nn

import compiler
from compiler.runtime.client import compile_options

PROMPT, CACHE, STEPS, VOCABULARY = 6, 29, 3, 128


# -- programs of a generation ------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One call of a generation; calls with the same `program` run the same compiled program."""

    program: str
    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class Family:
    """A model and its generation.

    Attributes:
        build: a module with its state in buffers, deterministic.
        calls: the calls in order, made by a seeded generator.
        tolerance: largest difference allowed, relative to the largest element of what is compared. Sums are taken in
            another order than eager's, so f32 differs in its last digits, and bf16 once a rounding falls the other way.
        counted: whether copies as large as this cache count in this program. Where a program computes the whole of a
            state anew, putting the new elements in order is a copy as large as the state.
    """

    build: Callable[[], nn.Module]
    calls: Callable[[], list[Call]]
    tolerance: float = 2e-5
    counted: Callable[[str, str], bool] = lambda program, name: True


def _tokens(length: int, batch: int = 1) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (batch, length))


def _decoding(build: Callable[[], nn.Module], tolerance: float = 2e-5) -> Family:
    """Prefill of the prompt, then single tokens, each with its position in the cache."""

    def calls() -> list[Call]:
        prefill = Call("prefill", (_tokens(PROMPT), None, torch.arange(PROMPT)))
        return [prefill, *(Call("decode", (_tokens(1), None, torch.tensor([PROMPT + n]))) for n in range(STEPS))]

    return Family(build, calls, tolerance)


def _static(model: Any) -> nn.Module:
    """transformers' own recipe: the model with a static cache in buffers."""
    from transformers import GenerationConfig
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=CACHE, pad_token_id=0,
        cache_config={"batch_size": 1, "max_cache_len": CACHE},
    )  # fmt: skip
    return TorchExportableModuleWithStaticCache(model).eval()


class Recurrent(nn.Module):
    """A state-space model with its convolution and recurrent states in buffers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        from transformers import DynamicCache

        self.model = model
        self.cache = DynamicCache(config=model.config)
        with torch.no_grad():
            model(input_ids=_tokens(PROMPT, _MAMBA_BATCH), cache=self.cache, use_cache=True)
        for number, layer in enumerate(self.cache.layers):
            self.register_buffer(f"conv_{number}", layer.conv_states[0].zero_(), persistent=False)
            self.register_buffer(f"recurrent_{number}", layer.recurrent_states[0].zero_(), persistent=False)

    def forward(self, input_ids: torch.Tensor, first: bool) -> torch.Tensor:
        for layer in self.cache.layers:
            layer.has_previous_state[0] = not first
        return self.model(input_ids=input_ids, cache=self.cache, use_cache=True).logits


class Crossing(nn.Module):
    """The decoder of a sequence-to-sequence model; caches of its own tokens and of the encoder's states in buffers."""

    def __init__(self, model: Any, source: int) -> None:
        super().__init__()
        from transformers import EncoderDecoderCache, StaticCache

        self.decoder, self.head = model.get_decoder(), model.get_output_embeddings()
        config = model.config.get_text_config(decoder=True)
        heads = getattr(config, "num_decoder_attention_heads", None) or config.num_attention_heads
        size = getattr(config, "d_kv", None) or config.d_model // heads
        own, cross = (StaticCache(config=config, max_cache_len=length) for length in (CACHE, source))
        for cache in (own, cross):
            cache.early_initialization(1, heads, size, torch.float32, torch.device("cpu"))
        self.cache = EncoderDecoderCache(own, cross)
        for kind, cache in (("own", own), ("cross", cross)):
            for number, layer in enumerate(cache.layers):
                self.register_buffer(f"{kind}_key_{number}", layer.keys, persistent=False)
                self.register_buffer(f"{kind}_value_{number}", layer.values, persistent=False)
                self.register_buffer(f"{kind}_length_{number}", layer.cumulative_length, persistent=False)

    def forward(self, tokens: torch.Tensor, states: torch.Tensor, position: torch.Tensor, first: bool) -> torch.Tensor:
        flags = dict(self.cache.is_updated)
        for number, layer in enumerate(self.cache.self_attention_cache.layers):
            layer.cumulative_length.copy_(position[0])
            self.cache.is_updated[number] = not first
        if first:
            for layer in self.cache.cross_attention_cache.layers:
                layer.cumulative_length.zero_()
        found = self.decoder(input_ids=tokens, encoder_hidden_states=states, cache=self.cache, use_cache=True)
        self.cache.is_updated.clear()  # `first` says it at each call; a compiled program keeps no Python state
        self.cache.is_updated.update(flags)
        return self.head(found.last_hidden_state)


class Translating(nn.Module):
    """Encoder and decoder under one roof: `encode`, then decoder steps on its result."""

    def __init__(self, model: Any, source: int) -> None:
        super().__init__()
        self.encoder, self.steps = model.get_encoder(), Crossing(model, source)

    def forward(
        self, source: torch.Tensor, tokens: Any = None, position: Any = None, first: bool = True
    ) -> torch.Tensor:
        if tokens is None:
            return self.encoder(source).last_hidden_state
        return self.steps(tokens, source, position, first)


def _translating(build: Callable[[], Any], source: Callable[[], torch.Tensor], length: int, width: int) -> Family:
    """The encoder, then the decoder: its first tokens fill the cache of encoder states, the next ones read it."""

    def calls() -> list[Call]:
        states = torch.randn(1, length, width)
        first = Call("prefill", (states, _tokens(2), torch.arange(2), True))
        steps = [Call("decode", (states, _tokens(1), torch.tensor([2 + n]), False)) for n in range(STEPS)]
        return [Call("encode", (source(),)), first, *steps]

    # The prefill computes all of the cross cache.
    return Family(lambda: Translating(build(), length).eval(), calls, counted=lambda _, name: "own" in name)


class Logits(nn.Module):
    """A model without state."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x).logits


def _plain(build: Callable[[], Any], inputs: Callable[[], torch.Tensor]) -> Family:
    return Family(lambda: Logits(build()).eval(), lambda: [Call("forward", (inputs(),)) for _ in range(STEPS)])


# -- families ----------------------------------------------------------------------------------

_SMALL: dict[str, Any] = dict(  # noqa: C408
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=64,
)  # fmt: skip
_GROUPED = {**_SMALL, "num_key_value_heads": 2}


def _causal(kind: str, dtype: torch.dtype = torch.float32, **sizes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes)).eval().to(dtype)


def _of(name: str, kind: str, **sizes: Any) -> Any:
    import transformers

    return getattr(transformers, name)(getattr(transformers, f"{kind}Config")(**sizes)).eval()


_T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0)  # noqa: C408
_WHISPER = dict(  # noqa: C408
    vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=10,
    max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
)  # fmt: skip
_MAMBA = dict(  # noqa: C408
    vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_heads=4, head_dim=16, state_size=11, n_groups=2,
    conv_kernel=4, expand=2, chunk_size=4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
_MAMBA_BATCH = 5
"""This and an odd state size: no weight and no intermediate has as many elements as a state."""
_MIXTRAL = {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}
_QWEN_MOE = {**_GROUPED, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def _mamba_calls() -> list[Call]:
    prefill = Call("prefill", (_tokens(PROMPT, _MAMBA_BATCH), True))
    return [prefill, *(Call("decode", (_tokens(1, _MAMBA_BATCH), False)) for _ in range(STEPS))]


FAMILIES: dict[str, Family] = {
    "llama": _decoding(lambda: _static(_causal("llama", **_GROUPED))),
    "llama-bf16": _decoding(lambda: _static(_causal("llama", torch.bfloat16, **_GROUPED)), tolerance=3e-2),
    "qwen3": _decoding(lambda: _static(_causal("qwen3", head_dim=8, **_GROUPED))),
    "gemma2": _decoding(lambda: _static(_causal("gemma2", head_dim=8, sliding_window=8, **_GROUPED))),
    "mistral": _decoding(lambda: _static(_causal("mistral", sliding_window=8, **_GROUPED))),
    "gpt2": _decoding(
        lambda: _static(_causal("gpt2", vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64))
    ),
    "mixtral": _decoding(lambda: _static(_causal("mixtral", **_MIXTRAL))),
    "qwen3-moe": _decoding(lambda: _static(_causal("qwen3_moe", **_QWEN_MOE))),
    "mamba2": Family(
        lambda: Recurrent(_causal("mamba2", **_MAMBA)).eval(), _mamba_calls,
        counted=lambda program, _: program == "decode",
    ),
    "bert": _plain(lambda: _of("BertForMaskedLM", "Bert", **_SMALL), lambda: _tokens(PROMPT)),
    "t5": _translating(lambda: _of("T5ForConditionalGeneration", "T5", **_T5), lambda: _tokens(8), 8, 32),
    "whisper": _translating(
        lambda: _of("WhisperForConditionalGeneration", "Whisper", **_WHISPER), lambda: torch.randn(1, 8, 20), 10, 32
    ),
    "vit": _plain(
        lambda: _of(
            "ViTForImageClassification", "ViT", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=48, image_size=16, patch_size=4, num_labels=10,
        ),
        lambda: torch.randn(2, 3, 16, 16),
    ),
}  # fmt: skip


# -- beside eager ------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a generation showed.

    Attributes:
        difference: the largest relative difference of an output or of state, over all calls.
        nodes: operations of the captured program, by program.
        states: tensors of state, and how many of them a call of eager PyTorch writes, by program.
        aliased: rows of the alias table, by program.
        copies: copies as large as a written cache, in optimized HLO without fusion, by program.
        copied: bytes that calls had to copy back because they could not run in place.
        seconds: time to compile, ours and XLA's.
    """

    difference: float = 0.0
    nodes: dict[str, int] = field(default_factory=dict)
    states: dict[str, tuple[int, int]] = field(default_factory=dict)
    aliased: dict[str, int] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    copied: int = 0
    seconds: float = 0.0

    def agrees(self, tolerance: float) -> bool:
        """Values are right, what is written is written in place, and no cache is copied."""
        written = {program: count for program, (_, count) in self.states.items()}
        return (
            self.difference <= tolerance and self.aliased == written and not any((*self.copies.values(), self.copied))
        )


def compare(family: Family, seed: int = 0) -> Outcome:
    """Run a generation compiled and in eager PyTorch."""
    torch.manual_seed(seed)
    module = family.build().requires_grad_(False)
    calls = family.calls()
    twin = copy.deepcopy(module)
    outcome = Outcome()
    programs: dict[str, compiler.Executable] = {}
    with torch.no_grad():
        for call in calls:
            if call.program not in programs:
                start = time.perf_counter()
                exe = compiler.compile(module, call.inputs)
                exe._options = compile_options(xla_backend_optimization_level=0)  # half the time, the same values
                programs[call.program] = exe
                outcome.nodes[call.program] = exe.counts["imported"]
                outcome.aliased[call.program] = len(exe.alias_table)
                rows = [r for r in exe.alias_table if len(r.shape) > 1 and family.counted(call.program, r.arguments[0])]
                outcome.copies[call.program] = state_copies(exe, {math.prod(r.shape) for r in rows}) if rows else 0
                outcome.seconds += time.perf_counter() - start
            exe = programs[call.program]
            before = [t._version for t in _state(twin)]
            pairs = [(exe(*call.inputs), twin(*call.inputs))]
            changed = [t._version > version for t, version in zip(_state(twin), before, strict=True)]
            outcome.states[call.program] = len(list(module.buffers())), sum(changed)
            outcome.copied += exe.copied_bytes
            pairs += zip(_state(module), _state(twin), strict=True)
            outcome.difference = max([outcome.difference, *(difference(got, want) for got, want in pairs)])
    return outcome


def _state(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def difference(got: torch.Tensor, want: torch.Tensor) -> float:
    """Largest difference relative to the largest element; infinite where shapes, types or NaNs do not agree."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if not want.dtype.is_floating_point:
        return 0.0 if torch.equal(got, want) else float("inf")
    if not torch.equal(got.isfinite(), want.isfinite()):
        return float("inf")
    scale = max(want.double().nan_to_num(0, 0, 0).abs().max().item(), 1e-30)
    return (got.double() - want.double()).nan_to_num(0, 0, 0).abs().max().item() / scale


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """transformers warns about what is not installed."""
    import transformers

    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    transformers.logging.set_verbosity(level)


def main(names: Sequence[str] | None = None) -> int:
    from rich.console import Console
    from rich.table import Table

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    asked = options.parse_args(names)
    table = Table(
        "model",
        "program",
        "nodes",
        "states",
        "written",
        "aliased",
        "copies",
        "difference",
        "tolerance",
        "compile s",
        "agrees",
    )
    wrong = 0
    for name in asked.models:
        family = FAMILIES[name]
        with quiet():
            outcome = compare(family)
        agrees = outcome.agrees(family.tolerance)
        wrong += not agrees
        last = (
            f"{outcome.difference:.1e}",
            f"{family.tolerance:.0e}",
            f"{outcome.seconds:.1f}",
            "yes" if agrees else "NO",
        )
        for program, nodes in outcome.nodes.items():
            states = *outcome.states[program], outcome.aliased[program], outcome.copies[program]
            table.add_row(name, program, str(nodes), *map(str, states), *last)
            name, last = "", ("",) * 4
        table.add_section()
    Console(width=120).print(table)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
