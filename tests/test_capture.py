"""Every way in gives the same program: state by name, sharing, rebinding, files, decomposed and Dynamo graphs."""

from __future__ import annotations

import copy
import io
import json
import logging
import zipfile

import pytest
import torch
import workloads
from replay import replay, run

from compiler.errors import CompileError, UnsupportedError
from compiler.frontend import import_program
from compiler.frontend.capture import capture
from compiler.frontend.pt2 import is_arithmetic


def state_after(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict((*model.named_parameters(), *model.named_buffers()))


def exported(model, args):
    return torch.export.export(copy.deepcopy(model), args, strict=False)


def saved(model, args, folder):
    path = str(folder / "model.pt2")
    torch.export.save(exported(model, args), path)
    return path


@pytest.mark.parametrize("form", ["module", "exported", "pt2", "decomposed"])
@pytest.mark.parametrize("name", ["a_index_copy", "b_paged", "c_mamba2", "d_bn", "e_opt", "f_qkv_rope"])
def test_workload(name: str, form: str, tmp_path) -> None:
    model, args = workloads.get(name, 1)
    source = {
        "module": lambda: copy.deepcopy(model),
        "exported": lambda: exported(model, args),
        "pt2": lambda: saved(model, args, tmp_path),
        "decomposed": lambda: exported(model, args).run_decompositions({}),
    }[form]()
    program = import_program(source, args)
    program.module.verify()
    reference = copy.deepcopy(model)
    torch.testing.assert_close(replay(program, args), reference(*copy.deepcopy(args)))
    expected = state_after(reference)
    for key, value in program.state.items():
        torch.testing.assert_close(value, expected[key])


def test_module_state_is_named_tied_names_are_one_and_flags_are_kept() -> None:
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("part", self.a.weight.detach()[1])
            self.b.eval()

        def forward(self, x, *, scale):
            self.part.add_(1)
            return self.b(self.a(x)) * scale["by"]

    model = Tied()
    captured = capture(model, (torch.ones(2, 3),), {"scale": {"by": torch.tensor(2.0)}})
    assert [(i.name, i.kind) for i in captured.inputs] == [
        ("part", "buffer"), ("a.weight", "parameter"), ("x", "input"), ("scale_by", "input"),
    ]  # fmt: skip
    assert captured.training == {"": True, "a": True, "b": False}
    program = import_program(model, (torch.ones(2, 3),), {"scale": {"by": torch.tensor(2.0)}})
    function = next(iter(program.module.body.block.ops))
    assert [a.data["alias.root"].data.id for a in function.properties["arg_attrs"].data] == [0, 0, 1, 2]
    assert all(isinstance(v, torch.nn.Parameter) or not v.requires_grad for v in model.state_dict(keep_vars=True).values())


def test_a_rebound_buffer_is_an_extra_result_and_no_write() -> None:
    class Rebind(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.zeros(3))

        def forward(self, x):
            self.b = self.b + x
            return self.b * 2

    model = Rebind()
    before = model.b
    program = import_program(model, (torch.ones(3),))
    assert program.rebound == {"b": 1} and model.b is before
    results = run(program, [before, torch.ones(3)])
    assert torch.equal(results[1], torch.ones(3)) and torch.equal(before, torch.zeros(3))


def test_tensors_in_plain_attributes_are_constants_that_can_be_written_but_not_rebound() -> None:
    class Cache:
        def __init__(self):
            self.rows = torch.zeros(40, 3)

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = Cache()
            self.last = torch.zeros(3)

        def forward(self, x):
            self.cache.rows[2] = x
            return self.cache.rows.sum(0)

    class Rebinds(Plain):
        def forward(self, x):
            self.last = x + 1
            return x

    model = Plain()
    program = import_program(model, (torch.ones(3),))
    assert [a.kind for a in program.arguments] == ["constant", "input"]
    assert next(iter(program.state.values())) is model.cache.rows
    assert torch.equal(model.cache.rows, torch.zeros(40, 3)), "capture writes nothing"
    with pytest.raises(UnsupportedError, match="plain attribute last"):
        import_program(Rebinds(), (torch.ones(3),))


def test_nested_inputs_bake_python_values() -> None:
    def f(pair, options):
        a, flag = pair
        return {"sum": a + options["bias"][0] if flag else a, "n": 3}

    args = ((torch.ones(2), True), {"bias": [torch.ones(2), None]})
    program = import_program(f, args)
    assert [leaf.is_tensor for leaf in program.in_leaves] == [True, False, True, False]
    assert [a.name for a in program.arguments] == ["pair_0", "options_bias_0"]
    out = replay(program, args)
    assert out["n"] == 3 and torch.equal(out["sum"], torch.full((2,), 2.0))


def test_shared_inputs_are_shared_while_tracing() -> None:
    def f(a, b, c):
        a.add_(1)
        return a is b, c.untyped_storage()._cdata == a.untyped_storage()._cdata, c * 1

    base = torch.zeros(4)
    program = import_program(f, (base, base, base[1:]))
    same, shared, value = replay(program, (base, base, base[1:]))
    assert same and shared and torch.equal(value, torch.ones(3))


def test_a_swap_in_decomposed_form_reads_the_old_values() -> None:
    class Swap(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(3))
            self.register_buffer("b", torch.ones(3))

        def forward(self, x):
            t = self.a.clone()
            self.a.copy_(self.b)
            self.b.copy_(t)
            return x + 1

    program = import_program(exported(Swap(), (torch.ones(3),)).run_decompositions({}))
    replay(program, (torch.ones(3),))
    assert torch.equal(program.state["a"], torch.ones(3)) and torch.equal(program.state["b"], torch.zeros(3))


def test_dynamo_graph_with_torch_level_calls() -> None:
    seen = []

    def backend(graph, inputs):
        seen.append((graph, inputs))
        return graph

    def f(x, v):
        y = x.view(-1)
        y[1:3] = v
        values, _ = torch.max(x, 0)
        x += 1
        return values, torch.nn.functional.batch_norm(x, v, v, training=False)

    torch._dynamo.reset()
    args = (torch.arange(4.0).reshape(2, 2), torch.full((2,), 9.0))
    torch.compile(f, backend=backend, fullgraph=True)(*copy.deepcopy(args))
    ((graph, inputs),) = seen
    program = import_program(graph, [torch.empty_like(i) for i in inputs])
    mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
    for a, b in zip(replay(program, mine), f(*theirs), strict=True):
        torch.testing.assert_close(a, b)
    assert torch.equal(mine[0], theirs[0])


def test_set_grad_enabled_regions_are_inlined() -> None:
    class NoGrad(torch.nn.Module):
        def forward(self, x):
            with torch.no_grad():
                y = x * 2
            return y + 1

    program = import_program(exported(NoGrad(), (torch.ones(2),)))
    assert torch.equal(replay(program, (torch.ones(2),)), torch.full((2,), 3.0))


def test_static_cache_of_transformers(tmp_path) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.integrations.executorch import convert_and_export_with_cache

    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=8, cache_config={"batch_size": 1, "max_cache_len": 8}
    )
    position = torch.tensor([2])
    program = convert_and_export_with_cache(
        model, example_input_ids=torch.zeros((1, 1), dtype=torch.long), example_cache_position=position, strict=False
    )
    path = str(tmp_path / "llama.pt2")
    torch.export.save(program, path)
    imported = import_program(path)
    imported.module.verify()
    function = next(iter(imported.module.body.block.ops))
    roots = [a.data["alias.root"].data.id for a in function.properties["arg_attrs"].data]
    names = [a.name for a in imported.arguments]
    assert roots.count(roots[names.index("key_cache_0")]) == 2, "the buffer and the constant are one memory"
    kwargs = {"input_ids": torch.zeros((1, 1), dtype=torch.long), "cache_position": position}
    out = replay(imported, (), kwargs)
    torch.testing.assert_close(out, program.module()(**kwargs))
    assert imported.state["key_cache_0"][:, :, 2].ne(0).any(), "the cache was written at its position"


# -- files that are not to be trusted -----------------------------------------------------------


class Add(torch.nn.Module):
    def forward(self, x):
        return x + 1


def rewritten(folder, change) -> str:
    """A `.pt2` file with `change(name, data) -> data` applied to every entry."""
    source = saved(Add(), (torch.ones(2),), folder)
    path = str(folder / "changed.pt2")
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
        for name, data in getattr(change, "extra", {}).items():
            new.writestr(name, data)
    return path


def test_an_expression_that_is_code_is_refused(tmp_path) -> None:
    def change(name, data):
        if not name.endswith("models/model.json"):
            return data
        model = json.loads(data)
        sizes = next(iter(model["graph_module"]["graph"]["tensor_values"].values()))["sizes"]
        sizes[0] = {"as_expr": {"expr_str": "__import__('os').getcwd()", "hint": None}}
        return json.dumps(model)

    with pytest.raises(CompileError, match="more than arithmetic"):
        import_program(rewritten(tmp_path, change))


def test_pickled_inputs_and_objects_are_refused(tmp_path) -> None:
    def pickled(name, data):
        if "sample_inputs" not in name:
            return data
        stream = io.BytesIO()
        torch.save({"inputs": Add()}, stream)
        return stream.getvalue()

    with pytest.raises(CompileError, match="more than tensors"):
        import_program(rewritten(tmp_path, pickled))

    def opaque(name, data):
        return data

    opaque.extra = {"model/data/constants/opaque_obj_0": b"x"}
    with pytest.raises(CompileError, match="opaque_obj_0 would run code"):
        import_program(rewritten(tmp_path, opaque))


def test_files_that_are_something_else(tmp_path) -> None:
    with pytest.raises(CompileError, match="is not a file"):
        import_program(str(tmp_path / "none.pt2"))
    whole = saved(Add(), (torch.ones(2),), tmp_path)
    cut = tmp_path / "cut.pt2"
    with open(whole, "rb") as source:
        cut.write_bytes(source.read()[:1000])
    with pytest.raises(CompileError, match="cut short"):
        import_program(cut)
    other = tmp_path / "other.pt2"
    torch.save(torch.ones(2), other)
    with pytest.raises(CompileError, match="no exported program"):
        import_program(other)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("Add(Mul(Integer(2), Symbol('s7', positive=True, integer=True)), Integer(1))", True),
        ("L['x'].size()[0] % 2 == 0", True),
        ("().__class__", False),
        ("Symbol('s0').is_integer", False),
        ("(lambda: 1)()", False),
        ("[x for x in s0]", False),
        ("open('s0')", False),
        ("Symbol('a b')", False),
    ],
)
def test_grammar_of_expressions(text: str, allowed: bool) -> None:
    assert is_arithmetic(text) is allowed


def test_torch_does_not_log_what_the_error_says(tmp_path) -> None:
    heard: list[logging.LogRecord] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                heard.append(record)

    def damaged(name, data):
        return data.replace(b"aten.add", b"aten.odd") if name.endswith("models/model.json") else data

    logger, ear = logging.getLogger("torch"), Ear()
    level = logger.level
    loggers = [logger, logging.getLogger("torch.export"), logging.getLogger("torch._subclasses.fake_tensor")]
    for each in loggers:
        each.addHandler(ear)
    try:
        with pytest.raises(CompileError):
            import_program(rewritten(tmp_path, damaged))
        with pytest.raises(CompileError, match="fails on the example inputs"):
            import_program(lambda x: torch.ops.aten.mm.default(x, x), (torch.ones(2, 3),))
    finally:
        for each in loggers:
            each.removeHandler(ear)
    assert not heard and logger.level == level


def test_an_attribute_that_is_missing() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.add, (x, graph.get_attr("nowhere"))))
    module = torch.fx.GraphModule({"nowhere": torch.ones(2)}, graph)
    del module.nowhere
    with pytest.raises(CompileError, match="attribute 'nowhere'"):
        import_program(module, (torch.ones(2),))
