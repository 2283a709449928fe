"""The functions of the package that are not a declared operation by its own name."""

from . import _declared, _moye
from ._arrays import library, on_device_of, operand

# Functions by other names than those of their operations: attention has PyTorch's.
NAMES = {"attention": "scaled_dot_product_attention"}

FUNCTIONS = {
    NAMES.get(name, name): _declared.function(operation, NAMES[name]) if name in NAMES else _declared.FUNCTIONS[name]
    for name, operation in _declared.OPERATIONS.items()
}

_explain_matmul = _declared.with_parameters_of(_declared.OPERATIONS["matmul"], "explain", _moye.explain_matmul)


def explain(*arguments, **options):
    """The kernel of a call, which is not computed.

    ``explain(moye.softmax, x, axis=-1)`` is text: the name of the kernel that the function launches
    for these arguments, and what else its plan says. Without a function the arguments are those of
    :func:`matmul`, and the result is a dict of ``kernel`` (its name), ``tile`` (M, N) and
    ``split_k``.
    """
    explained = _declared.explain if arguments and callable(arguments[0]) else _explain_matmul
    return explained(*arguments, **options)


# By hand: a declared operand is one array, not a list of them.
def grouped_list(a, b, *, out=None, device=None, stream=None):
    """The products ``a[i] @ b[i].T`` of matrices of different shapes, in one launch.

    For equal shapes take :func:`matmul` with batches, for rows of one array :func:`grouped`. On a
    GPU the products are for sm_90a, K is contiguous, and rows begin at multiples of 16 bytes.

    Args:
        a: a list of (M, K), float16 or bfloat16.
        b: a list of (N, K), of the same length and type. K is that of ``a[i]``, 1 or more.
        out: a list of (M, N), where the results are written; they share no memory with what is
            read, nor with each other.
        device, stream: as for :func:`matmul`.

    Returns:
        ``out``, or a list of new arrays of the library and on the device of ``a[0]``. The call
        returns when the products are computed, and a CUDA graph cannot capture it.

    Raises:
        As :func:`matmul`.
    """
    a, b = list(a), list(b)
    if not a:
        return [] if out is None else out
    of = library(a[0], "a[0]")
    stream = of.stream(a[0], stream)

    def operands(name, arrays):
        return [operand(array, f"{name}[{i}]", stream) for i, array in enumerate(arrays)]

    in_a, in_b = operands("a", a), operands("b", b)
    is_new = out is None
    if is_new:
        shapes = [(of_a.shape[0], of_b.shape[0]) for of_a, of_b in zip(in_a, in_b) if of_a.shape and of_b.shape]
        out = [of.empty(shape, in_a[0].dtype, a[0]) for shape in shapes]
    with on_device_of(a[0]):
        _moye.grouped_list(in_a, in_b, operands("out", out), device=device, stream=stream)
    return [of.give(array, a[0]) for array in out] if is_new else out
