"""Writes the type stubs of the layout algebra and of the declared operations, which follow from the
extension module: python python/stubs.py"""

import keyword
from pathlib import Path

from moye._moye import declared, operations

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


def function(name, _summary, operands, options):
    """The stub of a declared operation."""
    inputs = [f"{of}: A{' | None = None' * (role == 'optional')}" for of, _, role in operands if "result" not in role]
    # Axes are the options without a value: all of an array.
    kinds = {type(None): "int | Sequence[int] | None"}
    if name in ONE_AXIS:
        kinds = {type(None): "int | None"}
    chosen = [f"{of}: {kinds.get(type(value), type(value).__name__)} = {value!r}" for of, _, value in options]
    chosen = [option.replace("'", '"') for option in chosen]
    results = [f"{of}: A | None = None" for of, _, role in operands if "result" in role]
    parameters = [*inputs, "*", *chosen, *results, "device: str | None = None", "stream: int | None = None"]
    given = ["A" for _, _, role in operands if role == "result"]
    returns = given[0] if len(given) == 1 else f"tuple[{', '.join(given)}]"
    for lines in (
        [f"def {name}({', '.join(parameters)}) -> {returns}: ..."],
        [f"def {name}(", f"    {', '.join(parameters)}", f") -> {returns}: ..."],
    ):
        if all(len(line) <= COLUMNS for line in lines):
            return "\n".join(lines) + "\n"
    return "\n".join([f"def {name}(", *(f"    {parameter}," for parameter in parameters), f") -> {returns}: ..."]) + "\n"


def init(stub):
    """The text of `__init__.pyi`, which is `stub` now."""
    before, after = stub.split(BEGIN)[0], stub.split(END)[-1]
    return before + BEGIN + "".join(function(*operation) for operation in sorted(declared())) + END + after


if __name__ == "__main__":
    (PACKAGE / "algebra.pyi").write_text(algebra())
    file = PACKAGE / "__init__.pyi"
    file.write_text(init(file.read_text()))
