"""Programs and inputs that are refused, one for every kind of message: the source of docs/errors.md."""

from __future__ import annotations

import contextlib
import functools
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

import compiler
from compiler.driver import main
from compiler.errors import CompileError, GuardError, UnsupportedError, ValidationError


@dataclass(frozen=True)
class ErrorCase:
    """One refusal.

    Attributes:
        title: what goes wrong, in the words of the person who meets it.
        kind: the class of the error; SystemExit for a message of `compiler-opt`, which ends with exit code 1.
        run: makes it happen, in an empty directory.
        why: what the rule behind it is.
        line: a piece of the line of `run` that the message must point to, or "" when there is no line of a program.
    """

    title: str
    kind: type[BaseException]
    run: Callable[[Path], object]
    why: str
    line: str = ""


CASES: list[ErrorCase] = []


def case(title: str, kind: type[BaseException], why: str, line: str = "") -> Callable[[Callable[[Path], object]], None]:
    return lambda run: CASES.append(ErrorCase(title, kind, run, why, line))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def step(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    cache[1:].add_(x)
    return cache.sum()


def compiled() -> compiler.Executable:
    return compiler.compile(step, (torch.ones(3, 2), torch.zeros(4, 2)))


def driver(directory: Path, text: str | bytes, *options: str) -> None:
    """Give `compiler-opt` a file; its message is raised."""
    file = directory / "program.mlir"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main([str(file), *options])
    if code == 1:
        raise SystemExit(said.getvalue().rstrip())


# -- giving a program ----------------------------------------------------------------------------


@case("The file is not there", CompileError, "A string or a path names a `.pt2` file.")
def _(directory: Path) -> None:
    compiler.compile(directory / "model.pt2")


@case("The `.pt2` file is cut short", CompileError, "It is an archive with its table of contents at the end.")
def _(directory: Path) -> None:
    module = torch.nn.Linear(2, 2)
    with quiet():
        torch.export.save(torch.export.export(module, (torch.ones(1, 2),), strict=False), directory / "whole.pt2")
    (directory / "cut.pt2").write_bytes((directory / "whole.pt2").read_bytes()[:1500])
    compiler.compile(directory / "cut.pt2")


@case("The file is something else", CompileError, "Other archives of PyTorch hold no program.")
def _(directory: Path) -> None:
    torch.save(torch.ones(2), directory / "tensor.pt2")
    compiler.compile(directory / "tensor.pt2")


@case("The program is no program", CompileError, "Text, numbers and tensors cannot be captured.")
def _(directory: Path) -> None:
    compiler.compile(42, ())


@case(
    "Example inputs are missing",
    CompileError,
    "A function is traced with tensors: their shapes, strides and sharing count.",
)
def _(directory: Path) -> None:
    compiler.compile(step)


@case(
    "The program fails on the example inputs",
    CompileError,
    "It is PyTorch's own message; eager fails alike.",
    "x + y  # sizes",
)
def _(directory: Path) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y  # sizes

    compiler.compile(program, (torch.ones(2), torch.ones(3)))


@case("The name of a donated argument is wrong", CompileError, "Donation is by index among the inputs, or by name.")
def _(directory: Path) -> None:
    compiler.compile(step, (torch.ones(3, 2), torch.zeros(4, 2)), donate=["kv"])


# -- what HLO cannot say ---------------------------------------------------------------------------


@case(
    "The program branches on data",
    UnsupportedError,
    "HLO computes everything: there is no Python in it.",
    "if x.sum() > 0",
)
def _(directory: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x
        return -x

    compiler.compile(program, (torch.ones(2),))


@case("A shape depends on data", UnsupportedError, "Sizes of HLO are known before it runs.", "torch.nonzero(x)")
def _(directory: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x)

    compiler.compile(program, (torch.ones(2),))


@case("A dimension is dynamic", UnsupportedError, "The exported program was made for every size; HLO is for one.")
def _(directory: Path) -> None:
    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    with quiet():
        program = torch.export.export(Double(), (torch.ones(4, 2),), dynamic_shapes=shapes, strict=False)
    compiler.compile(program, (torch.ones(4, 2),))


@case(
    "An operator has no lowering",
    UnsupportedError,
    "All of them are listed, so that one run tells everything.",
    "torch.histc(x",
)
def _(directory: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.histc(x, bins=4) + torch.linalg.eigvals(x.view(2, 2)).real.sum()

    compiler.compile(program, (torch.ones(4),))


@case(
    "A write depends on the order of elements", UnsupportedError,
    "PyTorch promises no order for a write into a window that meets an element twice.", "add_(1.0)",
)  # fmt: skip
def _(directory: Path) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.as_strided((3, 2), (1, 1)).add_(1.0)
        return x

    compiler.compile(program, (torch.ones(4),))


# -- calling an executable -------------------------------------------------------------------------


@case("A call with another shape", GuardError, "Everything that was assumed is checked before anything runs.")
def _(directory: Path) -> None:
    compiled()(torch.ones(3, 5), torch.zeros(4, 2))


@case("A call with another dtype", GuardError, "Values are not converted behind your back.")
def _(directory: Path) -> None:
    compiled()(torch.ones(3, 2, dtype=torch.float64), torch.zeros(4, 2))


@case("A call whose arguments share memory", GuardError, "With other sharing the same program means something else.")
def _(directory: Path) -> None:
    cache = torch.zeros(4, 2)
    compiled()(cache[:3], cache)


@case("A call with another structure", GuardError, "Arguments are matched by place and by name.")
def _(directory: Path) -> None:
    compiled()(torch.ones(3, 2))


@case("A call with another constant", GuardError, "Python values are compiled in.")
def _(directory: Path) -> None:
    compiler.compile(lambda x, n: x * n, (torch.ones(2), 3))(torch.ones(2), 4)


# -- text of the IR ----------------------------------------------------------------------------------


@case("The text does not parse", SystemExit, "`compiler-opt` names line and column, and writes nothing.", "%0 = fx.")
def _(directory: Path) -> None:
    driver(directory, 'func.func @main(%x: tensor<4xf32>) {\n  %0 = fx.value_call "aten.neg.default"(%x : ()\n}\n')


@case("A value is used before it is defined", SystemExit, "The verifier checks what text can say and memory can not.")
def _(directory: Path) -> None:
    driver(directory, "func.func @main() -> tensor<4xf32> {\n  func.return %y : tensor<4xf32>\n}\n")


@case("An effect is on a value", SystemExit, "Only memory is read and written; a tensor is a value.")
def _(directory: Path) -> None:
    driver(
        directory,
        "func.func @main(%x: tensor<4xf32>) {\n"
        '  fx.call "aten.zero_.default"(%x) effects<write 0> results<> : (tensor<4xf32>) -> ()\n  func.return\n}\n',
    )


@case("The alias table pairs different types", SystemExit, "An output is written where the parameter is, bit for bit.")
def _(directory: Path) -> None:
    driver(
        directory,
        "func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> attributes {alias.table = #alias.table<0 = 0>} {\n"
        "  %0 = fx.extract %x <[2, 2] strides [2, 1]> : tensor<4xf32> -> tensor<2x2xf32>\n"
        "  func.return %0 : tensor<2x2xf32>\n}\n",
    )


@case("The file is not text", SystemExit, "Programs are UTF-8.")
def _(directory: Path) -> None:
    driver(directory, b"func.func @main() {\n  \xff\n}\n")


# -- artifacts -----------------------------------------------------------------------------------------


@case("A file of an artifact was changed", CompileError, "Every file is compared with the checksum it was saved with.")
def _(directory: Path) -> None:
    compiled().save(directory / "artifact")
    with open(directory / "artifact" / "model.hlo_module.pb", "ab") as file:
        file.write(b"x")
    compiler.load(directory / "artifact")


@case("An artifact is saved over other files", CompileError, "Saving replaces a directory as a whole.")
def _(directory: Path) -> None:
    (directory / "notes").mkdir()
    (directory / "notes" / "todo.txt").write_text("keep me")
    compiled().save(directory / "notes")


# -- validation ----------------------------------------------------------------------------------------


@case(
    "A custom operator returns memory of its operand undeclared", ValidationError,
    "Every compiler believes schemas; `validate=True` compares them with what the kernel does.", "operator(x)",
)  # fmt: skip
def _(directory: Path) -> None:
    operator = undeclared_alias()  # "alias(Tensor x) -> Tensor", whose kernel returns x.view(4)

    def program(x: torch.Tensor) -> torch.Tensor:
        return operator(x) + 1

    compiler.compile(program, (torch.ones(4),), validate=True)


@case(
    "A custom operator frees the memory of its operand", ValidationError,
    "Other tensors still point there, and no schema can say it; `validate=True` watches the sizes of storages.",
    "operator(made)",
)  # fmt: skip
def _(directory: Path) -> None:
    operator = shrinking()  # "shrinks(Tensor x) -> Tensor", whose kernel ends with x.untyped_storage().resize_(0)

    def program(x: torch.Tensor) -> torch.Tensor:
        made = x.clone()
        return operator(made) + 1

    compiler.compile(program, (torch.ones(4),), validate=True)


@case(
    "An operator in a branch has no lowering", UnsupportedError,
    "Branches and bodies of loops are compiled with the program; the line is the one inside of them.", "operator(x)",
)  # fmt: skip
def _(directory: Path) -> None:
    operator = undeclared_alias()

    def program(x: torch.Tensor) -> torch.Tensor:
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return operator(x) * 2

        return torch.cond(x.sum() > 0, doubled, torch.neg, (x,))

    compiler.compile(program, (torch.ones(4),))


@case(
    "A branch gives memory from outside of it, which is written afterwards", UnsupportedError,
    "HLO's conditional gives values: whether the result is that memory is known only at run time.", "torch.cond",
)  # fmt: skip
def _(directory: Path) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        chosen = torch.cond(x.sum() > 0, lambda: x, lambda: y)
        x.add_(1)
        return chosen

    compiler.compile(program, (torch.ones(4), torch.ones(4)))


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factors = [2, 3]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factors[0]


@case(
    "What a module is made of has changed",
    GuardError,
    "Attributes that are no tensors are read when the module is compiled.",
)
def _(directory: Path) -> None:
    module = Scaled()
    executable = compiler.compile(module, (torch.ones(2),))
    module.factors[0] = 5
    executable(torch.ones(2))


@functools.cache
def shrinking() -> Callable[[torch.Tensor], torch.Tensor]:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        result = x * 2
        x.untyped_storage().resize_(0)
        return result

    library = LIBRARIES.setdefault("fx2hlo_errors", torch.library.Library("fx2hlo_errors", "FRAGMENT"))
    library.define("shrinks(Tensor x) -> Tensor")
    library.impl("shrinks", kernel, "CPU")
    library.impl("shrinks", lambda x: torch.empty_like(x), "Meta")
    return torch.ops.fx2hlo_errors.shrinks.default


@functools.cache
def undeclared_alias() -> Callable[[torch.Tensor], torch.Tensor]:
    """An operator that stays registered: PyTorch's handles on one that is taken away are left dangling."""
    library = LIBRARIES.setdefault("fx2hlo_errors", torch.library.Library("fx2hlo_errors", "FRAGMENT"))
    library.define("alias(Tensor x) -> Tensor")
    library.impl("alias", lambda x: x.view(4), "CPU")
    library.impl("alias", lambda x: torch.empty_like(x), "Meta")
    return torch.ops.fx2hlo_errors.alias.default


LIBRARIES: dict[str, torch.library.Library] = {}


def message_of(case: ErrorCase, directory: Path) -> tuple[BaseException, str]:
    """The error of a case and its text, with paths as a reader would write them."""
    root = str(Path(__file__).parents[1])
    try:
        case.run(directory)
    except (CompileError, SystemExit) as error:
        text = str(error)
        for path, name in ((str(directory), "DIR"), (root + "/", "")):
            text = text.replace(path, name)
        return error, text
    raise AssertionError(f"{case.title}: nothing was refused")
