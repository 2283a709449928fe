"""The layout algebra: every operation of ``moye eval``, as a function.

The functions take layouts, integers, tuples of integers, ``None`` for the wildcard ``_``, and
strings of any of these. Those whose first argument is a layout are methods of layouts, too:
``composition(a, b)`` is ``a.composition(b)`` and ``a @ b``.

A tiler is a layout, a shape, or a tuple of layouts, shapes and ``None``. Strides along basis
vectors are strings such as ``"1@0"``.

All raise :class:`moye.LayoutError`, a ``ValueError`` with the operands and the reason, if an
operation has no result.
"""

import inspect as _inspect

from ._moye import ComposedLayout as _ComposedLayout
from ._moye import Layout as _Layout
from ._moye import apply as _apply
from ._moye import operations as _operations

# Attributes of layouts rather than methods.
_PROPERTIES = ("shape", "stride", "size", "cosize", "rank", "depth")
# The kinds of a first parameter that may be a layout.
_LAYOUTS = ("layout", "tuple or layout", "layout or swizzle")


def _function(name, parameters, about):
    def operation(*arguments):
        # An optional argument that is None is omitted: no operation has the wildcard there.
        while arguments and arguments[-1] is None and len(arguments) > required:
            arguments = arguments[:-1]
        return _apply(name, *arguments)

    required = sum(arity == "one" for _, _, arity in parameters)
    kinds = {"one": {}, "optional": {"default": None}, "many": {}}
    signature = []
    for parameter, _, arity in parameters:
        positional = _inspect.Parameter.POSITIONAL_ONLY
        kind = _inspect.Parameter.VAR_POSITIONAL if arity == "many" else positional
        signature.append(_inspect.Parameter(parameter, kind, **kinds[arity]))
    operation.__name__ = operation.__qualname__ = name
    operation.__module__ = __name__
    operation.__signature__ = _inspect.Signature(signature)
    takes = ", ".join(f"{parameter}: {kind}" for parameter, kind, _ in parameters)
    operation.__doc__ = f"{about[0].upper()}{about[1:]}.\n\nTakes {takes}."
    return operation


__all__ = []
for _name, _parameters, _about in _operations():
    globals()[_name] = _function(_name, _parameters, _about)
    __all__.append(_name)
    if _name not in _PROPERTIES and any(word in _parameters[0][1] for word in ("layout", "any")):
        for _type in (_Layout, _ComposedLayout):
            if not hasattr(_type, _name):
                setattr(_type, _name, globals()[_name])
del _name, _parameters, _about, _type
