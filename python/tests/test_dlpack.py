"""Arrays of other libraries by DLPack, whatever their producer: NumPy behind a bare interface, and
tensors written out field by field."""

import ctypes
import gc
import sys

import numpy as np
import pytest
from helpers import dtype, operand

import moye

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]

# DLPack's codes.
CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6, "float8_e4m3fn": 10, "float8_e5m2": 12}
NAMES = {False: b"dltensor", True: b"dltensor_versioned"}


class Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedVersioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class Producer:
    """A producer that fills the structures itself.

    Args:
        array: the elements, a view of NumPy's.
        versioned: whether it exports the structure of version 1.
        compact: whether it omits the strides, as it may for a row-major array.
        offset: whether it has the base address and an offset in bytes.
        owned: whether there is a deleter.
        old: whether its method accepts no argument but the stream.
    """

    def __init__(self, array, versioned, *, compact=False, offset=0, owned=True, old=False, read_only=False, **fields):
        self.array, self.versioned, self.old, self.owned, self.deleted = array, versioned, old, owned, 0
        self.options, self.fields = (compact, offset, read_only), fields

        def delete(_):
            self.deleted += 1

        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, **arguments):
        if self.old and arguments:
            raise TypeError(f"unexpected keyword arguments {list(arguments)}")
        array, (compact, offset, read_only) = self.array, self.options
        managed = ManagedVersioned() if self.versioned else Managed()
        tensor = managed.tensor
        name = array.dtype.name
        kind = name if name in CODES else name.rstrip("0123456789")
        (tensor.code, tensor.bits, tensor.lanes) = (CODES[kind], 8 * array.itemsize, 1)
        self.extents = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.steps = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
        tensor.data = (array.__array_interface__["data"][0] - offset) or None
        tensor.byte_offset = offset
        tensor.device[:] = self.__dlpack_device__()
        tensor.ndim = array.ndim
        if array.ndim:
            tensor.shape = ctypes.cast(self.extents, ctypes.POINTER(ctypes.c_int64))
            if not compact:
                tensor.strides = ctypes.cast(self.steps, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = ctypes.cast(self.deleter, ctypes.c_void_p) if self.owned else None
        if self.versioned:
            managed.version[:] = (1, 0)
            managed.flags = int(read_only)
        for field, value in self.fields.items():
            if field == "version":
                managed.version[:] = value
            elif field == "shape":
                self.extents[:] = value
            else:
                setattr(tensor, field, value)
        self.managed = managed
        return api.PyCapsule_New(ctypes.addressof(managed), NAMES[self.versioned], None)


class Bare:
    """An array of a library that supports only DLPack."""

    def __init__(self, array):
        self.array = array
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


X = operand((6, 8, 10), "float32")

# Views by their name.
VIEWS = {
    "row-major": X,
    "one row": X[2, 3],
    "one element": X[1, 2, 3:4],
    "no dimensions": X[1, 2, 3, ...],
    "transposed": X.T,
    "modes exchanged": X.transpose(1, 2, 0),
    "every third": X[:, ::3],
    "from an offset": X[3:, 1:, 5:],
    "reversed": X[::-1, :, ::-1],
    "rows far apart": X[::5, ::7, ::9],
    "one row for all": np.broadcast_to(X[0, 0], (4, 3, 10)),
    "one element for all": np.broadcast_to(X[1, 1, 1], (3, 4)),
    "overlapping windows": np.lib.stride_tricks.sliding_window_view(X[0], 4, axis=1),
    "an extent of 1": X[:, 2:3, :],
    "an empty extent": X[:, 3:3, :],
    "all empty": np.empty((0,), np.float32),
    "five modes": X.reshape(2, 3, 2, 4, 10).transpose(4, 2, 0, 3, 1),
}


def read(array):
    """The elements of an array of 32-bit floats, of any rank."""
    return moye.cast(array, dtype="float32", device="sim")


def taken(producer):
    return np.from_dlpack(read(producer))


@pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_any_strides_are_read_element_by_element_and_then_freed(name, versioned):
    array = VIEWS[name]
    producer = Producer(array, versioned)
    got = taken(producer)
    assert got.shape == array.shape and got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)
    gc.collect()
    assert producer.deleted == 1


@pytest.mark.parametrize("name", VIEWS)
def test_what_numpy_exports_is_read_as_what_it_holds(name):
    array = VIEWS[name]
    if array.flags.writeable:
        np.testing.assert_array_equal(taken(Bare(array)), array)
    np.testing.assert_array_equal(read(array), array)


TYPES = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
]


@pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])
@pytest.mark.parametrize("name", TYPES)
def test_elements_of_every_type_are_moved_by_dlpack(name, versioned):
    array = np.arange(1, 13).reshape(3, 4).astype(dtype(name)).T
    producer = Producer(array, versioned)
    moved = moye.copy(producer, device="sim")
    assert moved.dtype == name and moved.shape == (4, 3)
    # Results are accepted as operands, and NumPy knows most of their types.
    again = moye.transpose(moye.transpose(moved, device="sim"), device="sim")
    held = Producer(np.empty((4, 3), array.dtype), versioned)
    moye.copy(again, out=held, device="sim")
    assert held.array.tobytes() == np.ascontiguousarray(array).tobytes()
    gc.collect()
    assert producer.deleted == held.deleted == 1


@pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])
@pytest.mark.parametrize(
    "options",
    [{"compact": True}, {"offset": 64}, {"compact": True, "offset": 4}, {"owned": False}, {"old": True}],
    ids=["no strides", "byte offset", "no strides and an offset", "no deleter", "an old method"],
)
def test_producers_may_leave_out_strides_deleter_and_arguments(options, versioned):
    producer = Producer(X, versioned, **options)
    np.testing.assert_array_equal(taken(producer), X)
    gc.collect()
    assert producer.deleted == int(options.get("owned", True))


@pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])
@pytest.mark.parametrize("name", ["transposed", "every third", "reversed", "from an offset", "rows far apart", "an empty extent"])
def test_results_are_written_through_any_strides_and_nothing_beside_them(name, versioned):
    whole = np.full_like(X, 7)
    # The same view of other memory.
    start = VIEWS[name].__array_interface__["data"][0] - X.__array_interface__["data"][0]
    elements = np.ndarray(VIEWS[name].shape, X.dtype, whole, start, VIEWS[name].strides) if VIEWS[name].size else VIEWS[name].copy()
    wanted = whole.copy()
    np.ndarray(elements.shape, X.dtype, wanted, start, VIEWS[name].strides)[...] = VIEWS[name] if elements.size else 0
    out = Producer(elements, versioned)
    assert moye.copy(VIEWS[name], out=out, device="sim") is out
    np.testing.assert_array_equal(whole, wanted)
    gc.collect()
    assert out.deleted == 1


def test_a_read_only_tensor_is_read_and_refused_as_a_result():
    np.testing.assert_array_equal(taken(Producer(X, True, read_only=True)), X)
    kept = Producer(X.copy(), True, read_only=True)
    with pytest.raises(ValueError, match="out is read-only"):
        moye.copy(X, out=kept, device="sim")
    np.testing.assert_array_equal(kept.array, X)
    gc.collect()
    assert kept.deleted == 1


@pytest.mark.parametrize(
    "kind, text, fields",
    [
        (BufferError, "DLPack 2.0", {"version": (2, 0)}),
        (TypeError, "(9, 32 bits, 1 lanes)", {"code": 9}),
        (TypeError, "(2, 24 bits, 1 lanes)", {"bits": 24}),
        (TypeError, "(2, 32 bits, 4 lanes)", {"lanes": 4}),
        (ValueError, "is not an address", {"shape": (6, -8, 10)}),
        (ValueError, "is not an address", {"byte_offset": (1 << 64) - 1}),
    ],
)
def test_tensors_that_are_not_understood_are_errors_with_what_they_have(kind, text, fields):
    producer = Producer(X, True, **fields)
    with pytest.raises(kind) as raised:
        taken(producer)
    assert text in str(raised.value)
    gc.collect()
    # A tensor of a newer major version is not touched, and its capsule stays its producer's.
    assert producer.deleted == (0 if "version" in fields else 1)


@pytest.mark.parametrize("versioned", [False, True], ids=["legacy", "versioned"])
def test_a_capsule_is_taken_over_once_and_renamed(versioned):
    producer = Producer(X, versioned)
    capsule = producer.__dlpack__()

    class Twice(Bare):
        def __init__(self):
            self.__dlpack__ = lambda **_: capsule
            self.__dlpack_device__ = producer.__dlpack_device__

    np.testing.assert_array_equal(taken(Twice()), X)
    assert api.PyCapsule_GetName(capsule) == b"used_" + NAMES[versioned]
    with pytest.raises(TypeError, match="taken over already"):
        taken(Twice())
    gc.collect()
    assert producer.deleted == 1


@pytest.mark.parametrize("name", [name for name, view in VIEWS.items() if view.flags.writeable or view.size == 0])
def test_pytorch_is_read_by_dlpack_as_by_its_fields(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if any(step < 0 for step in VIEWS[name].strides):
        pytest.skip("PyTorch has no negative strides")
    tensor = torch.from_dlpack(VIEWS[name])
    np.testing.assert_array_equal(taken(Bare(tensor)), VIEWS[name])
    assert torch.equal(read(tensor), tensor)


def test_references_to_arrays_do_not_grow():
    array = X.copy()
    before = sys.getrefcount(array)
    for versioned in (False, True):
        taken(Producer(array, versioned))
    for _ in range(3):
        taken(Bare(array))
    gc.collect()
    assert sys.getrefcount(array) == before
