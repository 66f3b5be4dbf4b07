"""Every way in gives the same program: state by name, sharing, rebinding, files, decomposed and Dynamo graphs."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import logging
import zipfile

import numpy as np
import pytest
import torch
import workloads
from replay import replay, run

from compiler import compile
from compiler.errors import CompileError, GuardError, UnsupportedError
from compiler.frontend import import_program
from compiler.frontend.capture import capture
from compiler.frontend.expressions import is_arithmetic
from compiler.frontend.sources import node_source


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
    assert all(
        isinstance(v, torch.nn.Parameter) or not v.requires_grad for v in model.state_dict(keep_vars=True).values()
    )


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


def test_tensors_in_plain_attributes_are_constants_that_can_be_written_but_not_rebound_where_they_are_read() -> None:
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
            self.last = self.last + x
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
        return a is b, torch._C._is_alias_of(c, a), c * 1

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


ENDLESS = (
    "9**9**9", "Pow(9, Pow(9, 9))", "2**(2**40)", "Float('1e99999999')", "Integer(10)**Integer(10)**Integer(10)",
    "Rational('1e9999999')", "((((9**60)**60)**60)**60)**60", "1 << 10**9", "9^9^9", "1e-99999999", "s0**s1",
    "Float('1', precision=10**9)", "Float('1', 1000000000)", "'s0' * 999999999999", "PowByNatural(2, 1099511627776)",
    "Rational(9**60, 1)**60", "(s0 + s1 + s2 + s3 + 1)**64", "*".join(["(s0 + s1)"] * 40), "9" * 30, "+".join(["s0"] * 9000),
)  # fmt: skip
"""Arithmetic that has no end, or numbers that no memory holds."""


@pytest.mark.parametrize("expression", ["__import__('os').getcwd()", *ENDLESS[:6]])
def test_an_expression_that_is_code_is_refused(tmp_path, expression) -> None:
    def change(name, data):
        if not name.endswith("models/model.json"):
            return data
        model = json.loads(data)
        sizes = next(iter(model["graph_module"]["graph"]["tensor_values"].values()))["sizes"]
        sizes[0] = {"as_expr": {"expr_str": expression, "hint": None}}
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
        ("Pow(Symbol('s0', integer=True), Integer(2))", True),
        ("Mul(Rational(1, 2), Pow(Add(Symbol('s0'), Integer(1)), Integer(-1)))", True),
        ("Float('9.9999999999999995e-7', precision=53)", True),
        ("s0*s1*s2*s3 // 8 + 9223372036854775807", True),
        *((text, False) for text in ENDLESS),
    ],
)
def test_grammar_of_expressions(text: str, allowed: bool) -> None:
    assert is_arithmetic(text) is allowed


# -- tensors that the program holds ---------------------------------------------------------------


def test_compiling_leaves_held_tensors_alone_and_a_call_writes_them_once() -> None:
    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.rows, self.table = torch.zeros(2), [torch.zeros(2)], {"k": torch.zeros(2)}

        def forward(self, x):
            self.step += 1
            self.rows[0].add_(self.step)
            torch.add(self.table["k"], 1, out=self.table["k"])
            return x + self.step

    k = torch.zeros(2)

    def closure(x):
        k.add_(1)
        half = k[1:]
        half.mul_(2)
        return x + k

    model = Held()
    held = [model.step, model.rows[0], model.table["k"]]
    step, other = compile(model, (torch.zeros(2),)), compile(closure, (torch.zeros(2),))
    assert not any(t.any() for t in (*held, k)), "compiling writes nothing"
    for n in range(1, 3):
        assert torch.equal(step(torch.zeros(2)), torch.full((2,), float(n)))
        assert [t[0].item() for t in held] == [n, n * (n + 1) / 2, n]
        assert torch.equal(other(torch.zeros(2)), k) and k[0] == n
    assert k.tolist() == [2, 6]


def test_a_value_of_a_held_tensor_is_not_baked_in() -> None:
    k = torch.tensor(3)
    scaled = compile(lambda x: x * k.item(), (torch.ones(2),))
    k.fill_(5)
    assert scaled(torch.ones(2)).tolist() == [5, 5]


def test_a_held_tensor_keeps_its_shape() -> None:
    k = torch.zeros(2, 3)
    with pytest.raises(UnsupportedError, match="changes the shape"):
        capture(lambda x: k.t_() + x, (torch.ones(3, 2),))
    assert k.shape == (2, 3)


def test_the_value_of_a_held_tensor_is_read_at_each_call() -> None:
    scale = torch.tensor(2.0)
    step = compile(lambda x: (x * scale, scale), (torch.ones(2),))
    scale.fill_(5)
    scaled, same = step(torch.ones(2))
    assert scaled.tolist() == [5, 5] and same is scale


def test_an_argument_that_the_program_also_holds_is_refused() -> None:
    held = torch.ones(2)
    with pytest.raises(UnsupportedError, match="argument 'x' is also"):
        capture(lambda x: x + held, (held,))


# -- the Python state around a call ---------------------------------------------------------------


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.c = self.b

    def forward(self, x):
        return self.c(self.b(self.a(x)))


def test_names_of_one_tensor_stay_tied() -> None:
    model, x = Shared(), torch.ones(2, 3)
    with torch.no_grad():
        step = compile(model, (x,))
        torch.testing.assert_close(step(x), model(x))
        model.b.weight = torch.nn.Parameter(torch.zeros(3, 3))
        with pytest.raises(GuardError, match=r"'a.weight' and 'b.weight'"):
            step(x)
        with pytest.raises(GuardError, match=r"'a.weight' and 'b.weight'"):
            compile(Shared(), (x,)).bind(model)
        bound = Shared()
        torch.testing.assert_close(compile(Shared(), (x,)).bind(bound.state_dict())(x), bound(x))
        swapped = Shared()
        step = compile(swapped, (x,))
        swapped.c = torch.nn.Linear(3, 3, bias=False)
        with pytest.raises(GuardError, match=r"'a.weight' and 'c.weight'"):
            step(x)


def test_rebinding_one_of_two_names_is_refused() -> None:
    class Rebinds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(2))
            self.register_buffer("b", self.a)

        def forward(self, x):
            self.a = self.a + x
            return self.b

    with pytest.raises(UnsupportedError, match="a, b are one tensor"):
        capture(Rebinds(), (torch.ones(2),))


class Stateful(torch.nn.Module):
    def __init__(self, change):
        super().__init__()
        self.late, self.count, self.rows, self.table = None, 0, [], {}
        self.register_buffer("empty", None)
        self.inner = torch.nn.Linear(2, 2)
        self.change = [change]

    def forward(self, x):
        self.change[0](self)
        return self.inner(x)


def setting(name, value):
    return lambda module: setattr(module, name, value())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting("late", lambda: torch.zeros(2)), "late: the call creates state"),
        (setting("new", lambda: torch.zeros(2)), "new: the call creates state"),
        (setting("empty", lambda: torch.zeros(2)), "empty: the call creates state"),
        (lambda m: m.inner.register_buffer("new", torch.zeros(2)), "inner.new: the call creates state"),
        (lambda m: m._buffers.update(new=torch.zeros(2)), "new: the call creates state"),
        (lambda m: m.rows.append(torch.zeros(2)), "rows: the call creates state"),
        (lambda m: m.table.update(k=torch.zeros(2)), "table: the call creates state"),
        (lambda m: m.table.update(k=1), "changes the dict table"),
        (lambda m: setattr(m, "count", m.count + 1), "changes the attribute count, a int"),
        (lambda m: m.inner.eval(), "inner.training"),
    ],
)
def test_a_call_that_changes_python_state_is_refused_and_undone(change, message: str) -> None:
    model = Stateful(change)
    before = [(m, dict(m.__dict__), dict(m._buffers), dict(m._parameters)) for m in model.modules()]
    with pytest.raises(UnsupportedError, match=message):
        capture(model, (torch.ones(1, 2),))
    assert before == [(m, m.__dict__, m._buffers, m._parameters) for m in model.modules()]
    assert model.rows == [] and model.table == {}


def test_what_a_call_read_from_python_state_is_guarded() -> None:
    class Reads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.row, self.rows = 2, torch.ones(2), [torch.ones(2)]

        def forward(self, x):
            return x * self.scale + self.row + self.rows[0]

    k = torch.ones(2)

    def closure(x):
        return x + k

    x = torch.ones(2)
    model = Reads()
    step, other = compile(model, (x,)), compile(closure, (x,))
    assert step(x).tolist() == [4, 4] and other(x).tolist() == [2, 2]
    for name, value in (("scale", 3), ("scale", 2.0), ("row", torch.zeros(2)), ("rows", [torch.ones(2)])):
        before = getattr(model, name)
        setattr(model, name, value)
        with pytest.raises(GuardError, match=name):
            step(x)
        setattr(model, name, before)
    before, model.rows[0] = model.rows[0], torch.zeros(2)
    with pytest.raises(GuardError, match=r"rows\[0\]"):
        step(x)
    model.rows[0] = before
    assert step(x).tolist() == [4, 4]
    k = torch.zeros(2)
    with pytest.raises(GuardError, match="k is another"):
        other(x)


@dataclasses.dataclass
class Pair:
    one: torch.Tensor
    other: torch.Tensor


@pytest.mark.parametrize("value", [Pair(torch.ones(2), torch.ones(2)), np.ones(2, np.float32), object()])
def test_objects_are_no_arguments_and_no_results(value) -> None:
    with pytest.raises(CompileError, match=r"argument y is a .*\n.*register"):
        capture(lambda x, y: x, (torch.ones(2), value))
    with pytest.raises(UnsupportedError, match="returns a"):
        capture(lambda x: (x, value), (torch.ones(2),))


def test_a_generator_is_no_result() -> None:
    with pytest.raises(UnsupportedError, match="returns a generator"):
        capture(lambda x: (x + n for n in range(2)), (torch.ones(2),))


@pytest.mark.parametrize(
    "change", [lambda d: d.update(a=d["a"] + 1), lambda d: d.pop("a"), lambda d: d["rows"].append(d["a"] * 2)]
)
def test_changing_a_given_container_is_refused(change) -> None:
    given = {"a": torch.ones(2), "rows": [torch.ones(2)]}
    with pytest.raises(UnsupportedError, match="list or dict that it is given"):
        capture(lambda d: (change(d), d["rows"][0])[1], (given,))
    assert list(given) == ["a", "rows"] and len(given["rows"]) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((torch.ones(3),), r"float32 \(2,\), example_inputs has torch.float32 \(3,\)"),
        ((torch.ones(2, dtype=torch.float64),), "example_inputs has torch.float64"),
        ((torch.ones(2), torch.ones(2)), "another structure"),
        (torch.ones(2), "as a tuple"),
        ((1,), "example_inputs has a int"),
    ],
)
def test_an_exported_program_with_other_example_inputs_is_refused(args, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile(exported(Add(), (torch.ones(2),)), args)


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


def test_nodes_keep_the_line_of_the_program() -> None:
    graph = capture(lambda x: x + 1, (torch.ones(2),)).graph.graph
    (source,) = (node_source(node) for node in graph.nodes if node.op == "call_function")
    assert source is not None and source.file == __file__


def _squared_backward(x: torch.Tensor) -> torch.Tensor:
    (x * x).sum().backward()
    return x * 2


def _recorded_backward(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return _squared_backward(x)


def test_backward_into_a_tensor_from_outside_is_refused_and_leaves_no_trace() -> None:
    x, layer = torch.ones(2, requires_grad=True), torch.nn.Linear(2, 1)

    def held(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            layer(x).sum().backward()
        return x * 2

    with pytest.raises(UnsupportedError, match="none is recorded") as caught:
        compile(_squared_backward, (x,))
    assert "torch.func.grad" in caught.value.hint and "dynamo.fx2hlo" in caught.value.hint
    for program in (_recorded_backward, held):
        with pytest.raises(UnsupportedError, match="accumulates into `.grad` of a tensor from outside"):
            compile(program, (x,))
    assert x.grad is None and layer.weight.grad is None


def test_gradients_inside_a_program() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (leaf**3).sum().backward()
            assert leaf.grad is not None
            return leaf.grad + torch.autograd.grad((leaf**2).sum(), leaf)[0]

    x = torch.tensor([1.0, 2.0])
    assert compile(inner, (x,))(x).tolist() == [5, 16]
    assert compile(torch.func.grad(lambda z: (z**3).sum()), (x,))(x).tolist() == [3, 12]


def test_a_graph_with_defaults_is_called_with_and_without_them() -> None:
    class Scales(torch.nn.Module):
        def forward(self, x, factor=2, shift=None):
            return x.mul_(factor)

    graph = torch.fx.symbolic_trace(Scales())
    for given, factor in ((), 2), ((3,), 3):
        x = torch.ones(3)
        result = compile(graph, (torch.ones(3), *given))(x, *given)
        assert result is x and x.tolist() == [factor] * 3


def test_torchscript_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="TorchScript"):
        capture(torch.jit.script(torch.nn.Linear(3, 3)), (torch.ones(3),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"example_inputs": 3}, "example inputs are a int"),
        ({"example_inputs": "x"}, "example inputs are a str"),
        ({"example_inputs": {"x": torch.ones(2)}}, "example inputs are a dict"),
        ({"example_inputs": (torch.nested.nested_tensor([torch.ones(2)]),)}, "x is a nested tensor"),
        ({"donate": 5}, "donate=5 is no list"),
        ({"donate": True}, "donate=True is no list"),
        ({"xla_flags": "fast"}, "xla_flags are a str"),
    ],
)
def test_wrong_options_of_compile_are_named(options, message) -> None:
    with pytest.raises(CompileError, match=message):
        compile(lambda x: x + 1, **{"example_inputs": (torch.ones(2),), **options})
