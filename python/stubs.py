"""Writes the type stubs of the layout algebra and of the declared operations, which follow from the
extension module: python python/stubs.py"""

import keyword
from pathlib import Path

from moye._declared import OPERATIONS, parameters
from moye._moye import operations
from moye._operations import NAMES

PACKAGE = Path(__file__).parent / "moye"
# The first and the last line of the declared operations in `__init__.pyi`.
BEGIN, END = "# Declared operations, written by stubs.py.\n", "# End of the declared operations.\n"
# Reductions whose result is one index: they take one axis or all.
ONE_AXIS = ("argmax", "argmin")
# The longest line of a stub.
COLUMNS = 120

KINDS = {
    "int": "int",
    "index": "int",
    "tuple": "IntTuple",
    "layout": "AnyLayout",
    "any layout": "AnyLayout",
    "tiler": "Tiler",
    "swizzle": "Swizzle | str",
    "composed": "ComposedLayout | str",
    "tuple or layout": "AnyLayout",
    "tuple or any layout": "AnyLayout",
    "tiler, swizzle or composed": "Tiler",
}

HEAD = '''"""The layout algebra: every operation of ``moye eval``, as a function. Written by stubs.py."""

from typing import Any, TypeAlias

from . import ComposedLayout, Layout, Swizzle

IntTuple: TypeAlias = int | str | None | tuple[IntTuple, ...] | list[IntTuple]
AnyLayout: TypeAlias = Layout | ComposedLayout | Swizzle | IntTuple
Tiler: TypeAlias = AnyLayout | tuple[Tiler, ...] | list[Tiler]

'''


def algebra():
    """The text of `algebra.pyi`."""
    text = HEAD
    for name, parameters, about in operations():
        arguments = []
        for parameter, kind, arity in parameters:
            parameter += "_" * keyword.iskeyword(parameter)
            star, default = ("*", "") if arity == "many" else ("", " | None = None" if arity == "optional" else "")
            arguments.append(f"{star}{parameter}: {KINDS[kind]}{default}")
        positional = "" if parameters[-1][2] == "many" and len(parameters) == 1 else ", /"
        if parameters[-1][2] == "many" and len(parameters) > 1:
            arguments.insert(-1, "/")
            positional = ""
        text += f"def {name}({', '.join(arguments)}{positional}) -> Any:\n"
        text += f'    """{about[0].upper() + about[1:]}."""\n'
    return text


# The annotations of options, by kind.
OPTIONS = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "dtype": "Any",
    "axes": "int | Sequence[int]",
    "pair": "Sequence[int]",
    "limits": "Sequence[int | None]",
    "name": "str",
}


def option(operation, name, default, kind, names):
    """The parameter of an option."""
    of = f"Literal[{', '.join(map(repr, names))}]" if kind == "choice" else OPTIONS[kind]
    of = "int" if operation in ONE_AXIS and kind == "axes" else of
    of += " | None" if default is None and of != "Any" else ""
    return f"{name}: {of} = {default!r}".replace("'", '"')


def function(operation, name=None):
    """The stub of a declared operation."""
    of, _, operands, options = operation
    options = [option(of, name, *rest) for name, _, *rest in options]
    needed = ["A" for x in operands if x[2] == "result"]
    flags = [x[4] for x in operands if x[4]]
    if not flags:
        listed = parameters(operands, options, ": A", ": A | None = None")
        return signature(name or of, listed, needed)
    # A flag adds a result.
    text = ""
    for flag, results in (": Literal[False] = False", needed), (": Literal[True]", needed + ["A" for _ in flags]):
        listed = parameters(operands, options, ": A", ": A | None = None", flag)
        text += "@overload\n" + signature(name or of, listed, results)
    return text


def signature(name, parameters, results):
    """A function's stub, on as few lines as it fits on."""
    parameters = [*parameters, "device: str | None = None", "stream: int | None = None"]
    returns = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    for lines in (
        [f"def {name}({', '.join(parameters)}) -> {returns}: ..."],
        [f"def {name}(", f"    {', '.join(parameters)}", f") -> {returns}: ..."],
    ):
        if all(len(line) <= COLUMNS for line in lines):
            return "\n".join(lines) + "\n"
    return "\n".join([f"def {name}(", *(f"    {parameter}," for parameter in parameters), f") -> {returns}: ..."]) + "\n"


def explained(operation):
    """The stubs of `explain`: a function and its arguments, or those of `matmul`."""
    text = "@overload\ndef explain(function: Callable[P, Any], /, *arguments: P.args, **options: P.kwargs) -> str: ...\n"
    return text + "@overload\n" + function(operation, "explain").replace(") -> A: ...", ") -> dict[str, Any]: ...")


def init(stub):
    """The text of `__init__.pyi`, which is `stub` now."""
    before, after = stub.split(BEGIN)[0], stub.split(END)[-1]
    named = {NAMES.get(name, name): operation for name, operation in OPERATIONS.items()}
    text = "".join(function(operation, name) for name, operation in sorted(named.items()))
    return before + BEGIN + text + explained(OPERATIONS["matmul"]) + END + after


if __name__ == "__main__":
    (PACKAGE / "algebra.pyi").write_text(algebra())
    file = PACKAGE / "__init__.pyi"
    file.write_text(init(file.read_text()))
