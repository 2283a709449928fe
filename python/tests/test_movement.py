"""Copies and transposes, and arrays of other libraries by DLPack, on the simulator."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from helpers import operand

import moye


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("MOYE_DEVICE", "sim")


@pytest.mark.parametrize("name", ["uint8", "float8_e5m2", "bfloat16", "int32", "float64", "complex128", "bool"])
def test_elements_of_every_size_are_transposed_and_copied(name):
    x = (operand((37, 70), "float32") * 10).astype(np.int8).astype("bool" if name == "bool" else operand((1,), name).dtype)
    assert x.dtype.name == name
    np.testing.assert_array_equal(moye.transpose(x), x.T)
    np.testing.assert_array_equal(moye.copy(x[1::3, ::-2]), x[1::3, ::-2])
    np.testing.assert_array_equal(moye.copy(x[0]), x[0])
    batches = np.stack([x, x[::-1]])
    np.testing.assert_array_equal(moye.transpose(batches), batches.transpose(0, 2, 1))


@pytest.mark.parametrize(
    "dtype",
    ["datetime64[ns]", "timedelta64[s]", "S1", "S4", "S16", "U1", "V8", ">f4", "<i2", [("a", "<i4"), ("b", "<f4")]],
)
def test_elements_of_any_type_are_moved_by_their_bytes(dtype):
    dtype = np.dtype(dtype)
    random = np.random.default_rng(0)
    x = np.frombuffer(random.bytes(20 * 30 * dtype.itemsize), dtype).reshape(20, 30)
    for moved, expected in [(moye.transpose(x), x.T), (moye.copy(x[::-1, 1::2]), x[::-1, 1::2])]:
        assert moved.dtype == dtype and moved.tobytes() == expected.tobytes()
    out = np.zeros((30, 20), dtype)
    assert moye.transpose(x, out=out) is out and out.tobytes() == x.T.tobytes()


def test_out_takes_the_elements_wherever_it_lies():
    x = operand((5, 7), "float64")
    out = np.zeros((7, 10))
    assert moye.transpose(x, out=out[:, 2:7]).base is out
    np.testing.assert_array_equal(out[:, 2:7], x.T)
    assert (out[:, :2] == 0).all() and (out[:, 7:] == 0).all()
    out[:] = 0
    moye.copy(x, out=out[4::-1, 9:2:-1])
    np.testing.assert_array_equal(out[4::-1, 9:2:-1], x)
    assert (out[:, :3] == 0).all() and (out[5:] == 0).all()


@pytest.mark.parametrize(
    "kind, text, call",
    [
        (ValueError, "out has shape [2, 3], and must have [3, 2]", lambda x: moye.transpose(x, out=x)),
        (ValueError, "x has shape [2], and must have two or three modes", lambda x: moye.transpose(x[:, 0])),
        (ValueError, "x has shape [1, 1, 2, 3], and must have three modes at most", lambda x: moye.copy(x[None, None])),
        (TypeError, "out has elements of float64", lambda x: moye.copy(x, out=np.zeros((2, 3)))),
        (TypeError, "out has elements of int32", lambda x: moye.copy(x, out=np.zeros((2, 3), np.int32))),
        (TypeError, "x has elements of |S3, of 3 bytes", lambda x: moye.copy(x.astype("S3"))),
        (TypeError, "x has elements of object, references", lambda x: moye.copy(x.astype(object))),
        (TypeError, "x is int", lambda x: moye.copy(3)),
    ],
)
def test_wrong_arguments_are_exceptions_with_the_values(kind, text, call):
    with pytest.raises(kind) as raised:
        call(np.ones((2, 3), np.float32))
    assert text in str(raised.value)


class Foreign:
    """An array of an unknown library, which supports only DLPack."""

    def __init__(self, array, versioned):
        self.array, self.versioned = array, versioned

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **arguments):
        if not self.versioned and "max_version" in arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**arguments)


@pytest.mark.parametrize("versioned", [False, True])
def test_arrays_of_any_library_are_taken_and_given_by_dlpack(versioned):
    a, b = operand((20, 30), "float32"), operand((30, 10), "float32", 1)
    c = moye.matmul(Foreign(a[:, ::-1][:, ::-1], versioned), Foreign(b.T.copy().T, versioned))
    assert isinstance(c, moye.Array) and (c.shape, c.dtype) == ((20, 10), "float32")
    np.testing.assert_allclose(np.from_dlpack(c), a @ b, rtol=1e-4, atol=1e-5)
    # Results are accepted as operands.
    np.testing.assert_array_equal(np.from_dlpack(moye.transpose(c)), np.from_dlpack(c).T)


def test_memory_lives_as_long_as_its_consumer_and_no_longer():
    x = operand((8, 8), "float32")
    alive = weakref.ref(x)
    result = moye.copy(Foreign(x, True))
    del x
    gc.collect()
    assert alive() is None, "the producer's deleter was called"
    view = np.from_dlpack(result)
    before = view.copy()
    del result
    gc.collect()
    moye.copy(Foreign(np.zeros((8, 8), np.float32), True))
    np.testing.assert_array_equal(view, before)


def test_a_capsule_that_nothing_takes_over_frees_its_array():
    for version in (None, (1, 0)):
        capsule = moye.Array((1 << 20,), "float32").__dlpack__(max_version=version)
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
        assert name(capsule) == (b"dltensor" if version is None else b"dltensor_versioned")
        del capsule
    gc.collect()


def test_arrays_elsewhere_are_refused():
    class Elsewhere(Foreign):
        def __dlpack__(self, **_):
            return self

    with pytest.raises(TypeError, match="and not a capsule"):
        moye.copy(Elsewhere(np.ones((2, 2)), True))
    with pytest.raises(BufferError, match="without a copy"):
        moye.Array((2,), "float32").__dlpack__(copy=True)
    with pytest.raises(TypeError, match="no elements of type float128"):
        moye.Array((2,), "float128")
