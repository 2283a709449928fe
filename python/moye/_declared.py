"""A function for each operation that the extension module declares, with the signature, the
documentation and the call from the declaration."""

from . import _moye
from ._arrays import library, on_device_of, operand

# Requests no array: an optional result without a flag is kept only if it is given.
_NEVER = object()

# The parameters are those of the declaration, by which Python itself binds the arguments.
_SOURCE = """
def {name}({parameters}):
    return call__(({arrays},), {{{options}}}, [{results}], device, stream)
"""


def with_parameters_of(operation, name, run):
    """A function with the parameters of a declared operation. `run` computes or explains the call.
    If it returns a value, the function returns it."""
    of, summary, operands, options = operation
    inputs = [x for x in operands if "result" not in x[2]]
    results = [x for x in operands if "result" in x[2]]
    names, outs = [x[0] for x in inputs], [x[0] for x in results]
    # The values that request a new array: None, and True for an optional result with a flag.
    absent = [None if x[2] == "result" else True if x[4] else _NEVER for x in results]
    places, first = range(len(outs)), names[0]
    is_moved = any(x[5] for x in operands)
    is_single = len(outs) == 1

    def call(arrays, chosen, results, device, stream):
        x = arrays[0]
        like = library(x, first)
        allocate = like.allocator(x, stream)
        stream = like.stream(x, stream)
        if is_moved:
            # One input and one result. The extension lacks some element types of the libraries.
            source, kind = like.moved(x, first, stream)
            given = [source]
        else:
            given = [operand(array, name, stream) for array, name in zip(arrays, names)]
        new = [index for index in places if results[index] is absent[index]]
        if new:
            types = _moye.declared_results(of, given, chosen)
            for index in new:
                shape, dtype, value = types[index]
                dtype = kind if is_moved else dtype
                out = like.empty(shape, dtype, x) if value is None else like.full(shape, dtype, x, value, stream)
                results[index] = out
        if is_moved:
            into, own = library(results[0], outs[0]).moved(results[0], outs[0], stream)
            if _name(own) != _name(kind):
                raise TypeError(f"{outs[0]} has elements of {_name(own)}, and must have {_name(kind)}; convert it")
            given.append(into)
        else:
            given += [operand(results[index], outs[index], stream) for index in places]
        with on_device_of(x):
            explained = run(of, given, chosen, device=device, stream=stream, allocate=allocate)
        if explained is not None:
            return explained
        for index in new:
            results[index] = like.give(results[index], x)
        if is_single:
            return results[0]
        kept = [results[index] for index in places if absent[index] is None or index in new]
        return kept[0] if len(kept) == 1 else tuple(kept)

    defaults = {f"_{option}": default for option, _, default, *_ in options}
    listed = parameters(operands, [f"{option}=_{option}" for option, *_ in options])
    source = _SOURCE.format(
        name=name,
        parameters=", ".join([*listed, "device=None", "stream=None"]),
        arrays=", ".join(names),
        options=", ".join(f"{option!r}: {option}" for option, *_ in options),
        results=", ".join(f"True if {x[4]} else None" if x[4] else x[0] for x in results),
    )
    scope = {**defaults, "call__": call, "__name__": "moye"}
    exec(source, scope)
    made = scope[name]
    made.__doc__ = _documentation(summary, inputs, results, options)
    return made


# The operation of each function that computes one.
_OPERATION_OF = {}


def explain(function, /, *arguments, **options):
    """The kernel that a function launches for these arguments, and what else its plan says, as
    text. The kernel is not launched; results that are not given are allocated."""
    if function not in _OPERATION_OF:
        raise TypeError(f"{function!r} is not the function of a declared operation")
    explained = with_parameters_of(_OPERATION_OF[function], function.__name__, _moye.explain_declared)
    return explained(*arguments, **options)


def function(operation, name=None):
    """The function of a declared operation, by another name if one is given."""
    made = with_parameters_of(operation, name or operation[0], _moye.run_declared)
    _OPERATION_OF[made] = operation
    return made


def parameters(operands, options, array="", optional="=None", flag="=False"):
    """The parameters of a function, without device and stream. Names of arrays and flags are
    followed by these annotations and defaults; those of options are given."""
    inputs = [x for x in operands if "result" not in x[2]]
    listed = [x[0] + (array if x[2] == "input" else optional) for x in inputs if not x[3]]
    named = [x[0] + optional for x in inputs if x[3]]
    results = [x[4] + flag if x[4] else x[0] + optional for x in operands if "result" in x[2]]
    return [*listed, "*", *named, *options, *results]


def _documentation(summary, inputs, results, options):
    sentence, _, paragraphs = summary.partition("\n\n")
    needed = [x[0] for x in results if x[2] == "result"]
    lines = [sentence[0].upper() + sentence[1:] + ".", ""]
    lines += [*paragraphs.split("\n"), ""] if paragraphs else []
    lines += ["Args:"]
    lines += [f"    {of}: {about}." for of, about, *_ in [*inputs, *options]]
    for of, about, role, _, flag, _ in results:
        if flag:
            lines += [f"    {flag}: whether to return {of}, too: {about}."]
        else:
            lines += [f"    {of}: {about}; by default {'a new array' if role == 'result' else 'not kept'}."]
    lines += ['    device: "auto", "gpu", "gpu:N" or "sim", for arrays on the host; by default the value of the']
    lines += ['        environment variable MOYE_DEVICE, or "auto".']
    lines += ["    stream: the handle of a CUDA stream, for arrays on a GPU; by default PyTorch's current one, and"]
    lines += ["        the legacy default stream for other libraries.", "", "Returns:"]
    returned = " and ".join(f"``{of}``" for of in needed)
    returned += "".join(f"; with ``{x[4]}`` a tuple of it and ``{x[0]}``" for x in results if x[4])
    lines += [f"    {returned}. New arrays are of the library and on the device of ``{inputs[0][0]}``."]
    lines += ["    On a GPU the call returns before they are computed, as PyTorch's operations do.", "", "Raises:"]
    lines += ["    ValueError: shapes, strides or options that do not fit, or a result over what is read."]
    lines += ["    TypeError: element types that do not match, or an argument of another type."]
    lines += ["    moye.DeviceError: a GPU that cannot be used. moye.KernelFault: a kernel that failed."]
    lines += ["    MemoryError: too little memory."]
    return "\n".join(lines)


def _name(dtype):
    """The name of NumPy's or PyTorch's element type."""
    return str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")


OPERATIONS = {operation[0]: operation for operation in _moye.declared()}
FUNCTIONS = {name: function(operation) for name, operation in OPERATIONS.items()}
