"""The operations on arrays."""

from . import _moye
from ._arrays import library, on_device_of, operand


def matmul(
    a,
    b,
    *,
    c=None,
    bias=None,
    alpha=1.0,
    beta=None,
    activation=None,
    out=None,
    out_dtype=None,
    precision=None,
    scale_a=None,
    scale_b=None,
    tile=None,
    kernel=None,
    split_k=None,
    device=None,
    stream=None,
):
    """The matrix product ``activation(alpha * a @ b + beta * c + bias)``.

    All arrays are of one library, on one device. Any strides are accepted, so ``a.T`` costs
    nothing; operands in a layout that no kernel reads are rearranged first.

    Args:
        a: (M, K) or (batches, M, K): float16, bfloat16, float32, float64, int8, float8_e4m3fn or
            float8_e5m2.
        b: (K, N) or (batches, K, N), of the same type. One of ``a`` and ``b`` may have a single
            batch, or none.
        c: (M, N) or (batches, M, N), of the result's type; it may be ``out`` itself.
        bias: (N,), added to each row, or (M, 1), added to each column; of the result's type.
        alpha: the factor of the product. With 0 neither ``a`` nor ``b`` is read.
        beta: the factor of ``c``, by default 1.
        activation: None, "relu", "gelu" (``x / 2 * (1 + erf(x / sqrt(2)))``, PyTorch's default),
            "gelu_tanh" (its form with a hyperbolic tangent, PyTorch's ``approximate="tanh"`` and
            cuBLASLt's GELU) or "silu".
        out: where the result is written, (M, N) or (batches, M, N); it shares no memory with what
            is read, ``c`` excepted.
        out_dtype: the result's type; by default that of ``a``, int32 for int8 and bfloat16 for
            8-bit floats; "float32" for types of 16 and 8 bits.
        precision: None, "tf32" (tensor cores, which drop all but 10 bits of each fraction:
            products of positive elements are about 6.5e-4 too small) for float32, or "float16"
            (16-bit accumulators) for float16.
        scale_a: float32 factors for 8-bit floats: one, one per row of ``a``, or (batches, M).
        scale_b: one, one per column of ``b``, or (batches, N).
        tile: (M, N) of the kernel's tile; kernel: its name; split_k: the number of slices of K, at
            least 1. By default they are chosen automatically.
        device: "auto", "gpu", "gpu:N" or "sim", for arrays on the host; by default the value of
            the environment variable MOYE_DEVICE, or "auto".
        stream: the handle of a CUDA stream, for arrays on a GPU; by default PyTorch's current one,
            and the legacy default stream for other libraries.

    Returns:
        ``out``, or a new array of the library and on the device of ``a``. On a GPU the call returns
        before the product is computed, as PyTorch's operations do.

    Raises:
        ValueError: shapes, batches or strides that do not fit, ``out`` over an operand, or no
            such tile or kernel.
        TypeError: element types that cannot be combined, or an argument of another type.
        moye.DeviceError: a GPU that cannot be used. moye.KernelFault: a kernel that failed.
            MemoryError.
    """
    given = _given(alpha, beta, activation, precision, out_dtype, tile, kernel, split_k)
    return _product((a, b, c, bias, scale_a, scale_b), out, given, device, stream, False)


def explain(a, b, *, out=None, out_dtype=None, precision=None, tile=None, kernel=None, split_k=None, device=None):
    """The kernel of :func:`matmul`: a dict of ``kernel`` (its name), ``tile`` (M, N) and
    ``split_k``."""
    given = _given(1.0, None, None, precision, out_dtype, tile, kernel, split_k)
    name, tile, splits = _product((a, b, None, None, None, None), out, given, device, None, True)
    return {"kernel": name, "tile": tile, "split_k": splits}


def _given(alpha, beta, activation, precision, out_dtype, tile, kernel, split_k):
    return {
        "alpha": alpha,
        "beta": beta,
        "activation": activation,
        "precision": precision,
        "out_dtype": None if out_dtype is None else _name(out_dtype),
        "tile": tile,
        "kernel": kernel,
        "split_k": split_k,
    }


_INPUTS = ("a", "b", "c", "bias", "scale_a", "scale_b")


def _product(arrays, out, given, device, stream, explains):
    a = arrays[0]
    of = library(a, "a")
    allocate = of.allocator(a, stream)
    stream = of.stream(a, stream)
    operands = [operand(array, name, stream) for array, name in zip(arrays, _INPUTS)]
    is_new = out is None
    if is_new:
        [(shape, dtype, _)] = _moye.declared_results("matmul", operands, given)
        out = of.empty(shape, dtype, a)
    into = operand(out, "out", stream)
    if given["out_dtype"] is None:
        given["out_dtype"] = into.dtype
    with on_device_of(a):
        if explains:
            return _moye.explain_matmul([*operands, into], given, device=device, stream=stream)
        _moye.run_declared("matmul", [*operands, into], given, device=device, stream=stream, allocate=allocate)
    return of.give(out, a) if is_new else out


def _name(dtype):
    """The name of an element type: given as such, or as NumPy's or PyTorch's type."""
    if isinstance(dtype, str):
        return dtype
    text = str(getattr(dtype, "__name__", dtype))
    return text.removeprefix("torch.")


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


def transpose(x, *, out=None, device=None, stream=None):
    """A transposed copy: (M, N) as (N, M), and (batches, M, N) as (batches, N, M).

    Args:
        x: elements of 1, 2, 4, 8 or 16 bytes, with any strides.
        out: where the result is written; it shares no memory with ``x``.
        device, stream: as for :func:`matmul`.

    Returns:
        ``out``, or a new row-major array of the library and on the device of ``x``.

    Raises:
        ValueError, TypeError, moye.DeviceError, MemoryError: as for :func:`matmul`.
    """
    return _moved(x, out, device, stream, True)


def copy(x, *, out=None, device=None, stream=None):
    """A copy of ``x``: (N,), (M, N) or (batches, M, N).

    Args:
        x: elements of 1, 2, 4, 8 or 16 bytes, with any strides.
        out: where the elements are written, of the same shape and type; it shares no memory with
            ``x``.
        device, stream: as for :func:`matmul`.

    Returns:
        ``out``, or a new row-major array of the library and on the device of ``x``.

    Raises:
        ValueError, TypeError, moye.DeviceError, MemoryError: as for :func:`matmul`.
    """
    return _moved(x, out, device, stream, False)


def _moved(x, out, device, stream, transposed):
    of = library(x, "x")
    stream = of.stream(x, stream)
    source, dtype = of.moved(x, "x", stream)
    shape = source.shape
    is_new = out is None
    if is_new:
        out = of.empty((*shape[:-2], *shape[:-3:-1]) if transposed else shape, dtype, x)
    into, of_out = library(out, "out").moved(out, "out", stream)
    if _name(of_out) != _name(dtype):
        raise TypeError(f"out has elements of {_name(of_out)}, and must have {_name(dtype)}; convert it")
    with on_device_of(x):
        _moye.copy(source, into, transposed=transposed, device=device, stream=stream)
    return of.give(out, x) if is_new else out
