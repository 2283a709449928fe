"""Array libraries: how an array becomes an operand, and how a matching result is made."""

import contextlib
import sys

from . import _moye
from ._moye import Array, Operand

# Types of `ml_dtypes` that NumPy's own interfaces refuse.
_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

# The context of arrays that need no other device.
_HERE = contextlib.nullcontext()

# Elements of types that are not known are moved as words of their size.
_KNOWN = frozenset(_moye.element_types())
_WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}


def _word(name, dtype, size):
    if size not in _WORDS:
        raise TypeError(f"{name} has elements of {dtype}, of {size} bytes; elements of 1, 2, 4, 8 or 16 bytes are moved")
    return _WORDS[size]


def _numpy(array):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(array, numpy.ndarray)


def _torch(array):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


class Numpy:
    """NumPy arrays, with `ml_dtypes`."""

    @staticmethod
    def operand(array, name, stream):
        if not array.dtype.isnative:
            raise TypeError(f"{name} has elements of {array.dtype.str}, in the other byte order; convert it")
        return Numpy._operand(array, array.dtype.name)

    @staticmethod
    def moved(array, name, stream):
        """The array as an operand whose elements are moved by their bytes, and its type."""
        dtype = array.dtype
        if dtype.hasobject:
            raise TypeError(f"{name} has elements of {dtype}, references to objects of Python; convert it")
        return Numpy._operand(array, dtype.name if dtype.name in _KNOWN else _word(name, dtype, dtype.itemsize)), dtype

    @staticmethod
    def _operand(array, dtype):
        address, read_only = array.__array_interface__["data"]
        return Operand.from_host(array, address, read_only, dtype, array.shape, array.strides)

    @staticmethod
    def stream(array, stream):
        return stream

    @staticmethod
    def allocator(array, stream):
        return None

    @staticmethod
    def empty(shape, dtype, like):
        import numpy

        if isinstance(dtype, str) and dtype in _ML_DTYPES:
            import ml_dtypes

            return numpy.empty(shape, getattr(ml_dtypes, dtype))
        return numpy.empty(shape, dtype)

    @staticmethod
    def full(shape, dtype, like, value, stream):
        result = Numpy.empty(shape, dtype, like)
        result.fill(value)
        return result

    give = staticmethod(lambda result, like: result)


class Torch:
    """PyTorch's tensors, on a GPU or on the host."""

    # The names of its element types, filled by the first call.
    names = {}

    @staticmethod
    def operand(array, name, stream):
        names = Torch.names or Torch._names(sys.modules["torch"])
        return Torch._operand(array, name, names.get(array.dtype))

    @staticmethod
    def moved(array, name, stream):
        """The tensor as an operand whose elements are moved by their bytes, and its type."""
        names = Torch.names or Torch._names(sys.modules["torch"])
        dtype = names.get(array.dtype)
        if dtype is None and not array.is_quantized:
            dtype = _word(name, array.dtype, array.element_size())
        return Torch._operand(array, name, dtype), array.dtype

    @staticmethod
    def _operand(array, name, dtype):
        torch = sys.modules["torch"]
        if array.requires_grad and torch.is_grad_enabled():
            raise TypeError(
                f"{name} requires a gradient, which this operation does not have; pass {name}.detach(), or call it under torch.no_grad()"
            )
        is_plain = type(array) in (torch.Tensor, torch.nn.Parameter) and array.layout is torch.strided
        if array.is_neg():
            raise TypeError(f"{name} is a negated view, whose elements have the other sign in memory; pass {name}.resolve_neg()")
        is_conjugate = array.is_complex() and array.is_conj()
        if dtype is None or not is_plain or is_conjugate or not (array.is_cuda or array.is_cpu):
            # DLPack reports what it cannot export. -1: no synchronisation, as the work goes to the
            # tensor's own stream. On the host there are no streams.
            return Operand.from_dlpack(array.detach(), -1 if array.is_cuda else None)
        gpu = array.get_device() if array.is_cuda else None
        return Operand.from_tensor(array, array.data_ptr(), gpu, dtype, array.shape, array.stride())

    @staticmethod
    def _names(torch):
        types = [getattr(torch, name, None) for name in _moye.element_types()]
        Torch.names = {dtype: str(dtype).removeprefix("torch.") for dtype in types if isinstance(dtype, torch.dtype)}
        return Torch.names

    @staticmethod
    def stream(array, stream):
        if stream is None and array.is_cuda:
            torch = sys.modules["torch"]
            # Only the handle: a stream object takes some microseconds.
            raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
            if raw is not None:
                return raw(array.get_device())
            return torch.cuda.current_stream(array.device).cuda_stream
        return stream

    @staticmethod
    def allocator(array, stream):
        """Allocates workspaces on the current stream, in whose order PyTorch frees them."""
        if stream is not None or not array.is_cuda:
            return None
        torch = sys.modules["torch"]
        return lambda size: torch.empty(size, dtype=torch.uint8, device=array.device)

    @staticmethod
    def empty(shape, dtype, like):
        torch = sys.modules["torch"]
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        return torch.empty(shape, dtype=dtype, device=like.device)

    @staticmethod
    def full(shape, dtype, like, value, stream):
        torch = sys.modules["torch"]
        result = Torch.empty(shape, dtype, like)
        if not like.is_cuda or stream == torch.cuda.current_stream(like.device).cuda_stream:
            return result.fill_(value)
        # Ordered with the work, on its stream.
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=like.device)):
            return result.fill_(value)

    give = staticmethod(lambda result, like: result)


class Other:
    """Any other library with DLPack."""

    @staticmethod
    def operand(array, name, stream):
        device, _ = array.__dlpack_device__()
        # The producer makes this stream wait for the computation of the array: by default the
        # legacy default stream, 1.
        wait = None if device in (1, 3) else (1 if not stream else stream)
        return Operand.from_dlpack(array, wait)

    @staticmethod
    def moved(array, name, stream):
        """The array as an operand, and its type."""
        taken = Other.operand(array, name, stream)
        return taken, taken.dtype

    @staticmethod
    def stream(array, stream):
        return stream

    @staticmethod
    def allocator(array, stream):
        return None

    @staticmethod
    def empty(shape, dtype, like):
        device, index = like.__dlpack_device__()
        return Array(shape, dtype, None if device in (1, 3) else index)

    @staticmethod
    def full(shape, dtype, like, value, stream):
        device, index = like.__dlpack_device__()
        return Array(shape, dtype, None if device in (1, 3) else index, value)

    @staticmethod
    def give(result, like):
        namespace = getattr(like, "__array_namespace__", None)
        return result if namespace is None else namespace().from_dlpack(result)


def library(array, name):
    """The library of an array."""
    if _torch(array):
        return Torch
    if _numpy(array):
        return Numpy
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return Other
    raise TypeError(
        f"{name} is {type(array).__name__}, and must be an array with __dlpack__: of NumPy, PyTorch, CuPy, JAX or another library"
    )


def operand(array, name, stream=None):
    """The array as an operand, or None for None."""
    return None if array is None else library(array, name).operand(array, name, stream)


def on_device_of(array):
    """A context with the array's device as PyTorch's current one; restores the previous one."""
    if _torch(array) and array.is_cuda:
        torch = sys.modules["torch"]
        if torch.cuda.current_device() != array.get_device():
            return torch.cuda.device(array.device)
    return _HERE
