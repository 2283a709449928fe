"""A function for each operation that the extension module declares, with the signature, the
documentation and the call from the declaration."""

import inspect

from . import _moye
from ._arrays import library, on_device_of, operand, without_booleans

_INPUTS = ("input", "optional")


def _function(name, summary, operands, options):
    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    inputs = [(of, about, role) for of, about, role in operands if role in _INPUTS]
    results = [(of, about, role) for of, about, role in operands if role not in _INPUTS]
    parameters = [
        inspect.Parameter(of, positional, default=inspect.Parameter.empty if role == "input" else None)
        for of, _, role in inputs
    ]
    parameters += [inspect.Parameter(of, keyword, default=default) for of, _, default in options]
    parameters += [inspect.Parameter(of, keyword, default=None) for of, _, _ in results]
    parameters += [inspect.Parameter(of, keyword, default=None) for of in ("device", "stream")]
    signature = inspect.Signature(parameters)
    input_names, option_names = [of for of, _, _ in inputs], [of for of, _, _ in options]
    needed = [of for of, _, role in results if role == "result"]

    def function(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        bound.apply_defaults()
        given = bound.arguments
        x = given[input_names[0]]
        of = library(x, input_names[0])
        stream = of.stream(x, given["stream"])
        operands = [operand(without_booleans(given[name]), name, stream) for name in input_names]
        chosen = {name: given[name] for name in option_names}
        outs = {name: given[name] for name, _, _ in results}
        new = [name for name in needed if outs[name] is None]
        if new:
            types = _moye.declared_results(name, operands, chosen)
            for (shape, dtype, value), (result, _, _) in zip(types, results):
                if result in new:
                    outs[result] = of.empty(shape, dtype, x) if value is None else of.full(shape, dtype, x, value, stream)
        operands += [operand(out, name, stream) for name, out in outs.items()]
        with on_device_of(x):
            _moye.run_declared(name, operands, chosen, device=given["device"], stream=stream)
        given_back = [of.give(outs[name], x) if name in new else outs[name] for name in needed]
        return given_back[0] if len(given_back) == 1 else tuple(given_back)

    lines = [summary[0].upper() + summary[1:] + ".", "", "Args:"]
    lines += [f"    {of}: {about}." for of, about, _ in inputs]
    lines += [f"    {of}: {about}." for of, about, _ in options]
    lines += [f"    {of}: {about}; by default {'a new array' if of in needed else 'not kept'}." for of, about, _ in results]
    lines += ['    device: "gpu", "gpu:N" or "sim" for arrays on the host; by default what MOYE_DEVICE says, or "auto".']
    lines += ["    stream: the handle of a CUDA stream for arrays on a GPU; by default PyTorch's current one.", "", "Returns:"]
    lines += [f"    {' and '.join(f'``{of}``' for of in needed)}: new arrays are of the library and on the device of ``{input_names[0]}``."]
    function.__name__ = function.__qualname__ = name
    function.__module__ = "moye"
    function.__doc__ = "\n".join(lines)
    function.__signature__ = signature
    return function


FUNCTIONS = {name: _function(name, *rest) for name, *rest in _moye.declared()}
