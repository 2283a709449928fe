"""Writes the type stub of `moye.algebra`: python python/stubs.py > python/moye/algebra.pyi"""

import keyword

from moye._moye import operations

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

print(HEAD)
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
    text = about[0].upper() + about[1:]
    print(f"def {name}({', '.join(arguments)}{positional}) -> Any:")
    print(f'    """{text}."""')
