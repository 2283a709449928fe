"""Products on the simulator, against float64."""

import math

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_close, operand

import moye


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("MOYE_DEVICE", "sim")


def reference(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("m, n, k", [(70, 50, 33), (1, 129, 64), (64, 64, 64)])
@pytest.mark.parametrize(
    "name, result",
    [
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "int32"),
        ("float8_e4m3fn", "bfloat16"),
        ("float8_e5m2", "bfloat16"),
    ],
)
def test_products_of_each_type_agree_with_float64(name, result, m, n, k):
    a, b = operand((m, k), name), operand((k, n), name, 1)
    c = moye.matmul(a, b)
    assert isinstance(c, np.ndarray) and c.dtype.name == result
    # Hopper's accumulators of 8-bit floats have about 14 bits.
    assert_close(c, reference(a, b))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_operands_give_float32_where_it_is_chosen(name):
    a, b = operand((40, 48), name), operand((48, 24), name, 1)
    c = moye.matmul(a, b, out_dtype=np.float32)
    assert c.dtype == np.float32
    assert_close(c, reference(a, b), 1e-3 if name.startswith("float8") else 1e-6)


@pytest.mark.parametrize("view", ["transposed", "sliced", "reversed", "broadcast", "read-only", "unaligned"])
def test_views_of_every_kind_are_multiplied(view):
    a, b = operand((37, 29), "float32"), operand((29, 43), "float32", 1)
    match view:
        case "transposed":
            a = np.ascontiguousarray(a.T).T
        case "sliced":
            a = operand((80, 100), "float32")[3::2, 5::3][:37, :29]
        case "reversed":
            a = a[::-1, ::-1]
        case "broadcast":
            a = np.broadcast_to(a[0], (37, 29))
        case "read-only":
            a.flags.writeable = False
        case "unaligned":
            a = np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(37, 29)
            assert not a.flags.aligned
    assert_close(moye.matmul(a, b), reference(a, b))


def test_the_whole_formula_is_computed():
    a, b, c = operand((33, 40), "float32"), operand((40, 21), "float32", 1), operand((33, 21), "float32", 2)
    row, column = operand((21,), "float32", 3), operand((33, 1), "float32", 4)
    sums = 0.5 * reference(a, b) - 2 * c.astype(np.float64)
    for bias in (row, column):
        result = moye.matmul(a, b, c=c, bias=bias, alpha=0.5, beta=-2, activation="relu")
        assert_close(result, np.maximum(sums + bias, 0))
    x = reference(a, b)
    assert_close(moye.matmul(a, b, activation="silu"), x / (1 + np.exp(-x)))
    assert_close(moye.matmul(a, b, c=c), x + c)


@pytest.mark.parametrize("name, tolerance", [("float64", 1e-14), ("float32", 1e-6)])
def test_gelu_is_exact_and_its_form_with_a_hyperbolic_tangent_has_its_own_name(name, tolerance):
    # One sum in each element, so that only the activation rounds.
    x = np.linspace(-6, 6, 400).astype(name).reshape(20, 20)
    one = np.eye(20, dtype=name)
    wide = x.astype(np.float64)
    exact = wide / 2 * np.vectorize(math.erfc)(-wide / math.sqrt(2))
    tanh = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    assert np.linalg.norm(exact - tanh) > 10 * tolerance * np.linalg.norm(exact), "they differ"
    assert_close(moye.matmul(x, one, activation="gelu"), exact, tolerance)
    assert_close(moye.matmul(x, one, activation="gelu_tanh"), tanh, tolerance)


@pytest.mark.parametrize("backwards", [False, True])
def test_out_is_written_in_place_and_returned(backwards):
    a, b = operand((20, 30), "float64"), operand((30, 10), "float64", 1)
    whole = np.full((25, 40), 7.0)
    out = whole[21:1:-1, 30:2:-3] if backwards else whole[2:22, 3:33:3]
    assert moye.matmul(a, b, out=out) is out
    assert_close(out, reference(a, b))
    out[:] = 0
    assert np.count_nonzero(whole == 7.0) == 25 * 40 - 20 * 10, "nothing else was written"
    out[:] = 1
    moye.matmul(a, b, c=out, out=out)
    assert_close(out, reference(a, b) + 1)


@pytest.mark.parametrize("shapes", [((3, 20, 30), (3, 30, 10)), ((3, 20, 30), (30, 10)), ((1, 20, 30), (4, 30, 10)), ((20, 30), (2, 30, 10))])
def test_batches_are_multiplied_and_single_ones_repeated(shapes):
    a, b = operand(shapes[0], "float32"), operand(shapes[1], "float32", 1)
    assert_close(moye.matmul(a, b), reference(a, b))


def test_scales_of_8_bit_floats_multiply_rows_and_columns():
    a, b = operand((16, 32), "float8_e4m3fn"), operand((32, 16), "float8_e4m3fn", 1)
    rows, columns = operand((16, 1), "float32", 2), operand((16,), "float32", 3)
    c = moye.matmul(a, b, scale_a=rows, scale_b=columns, out_dtype="float32")
    assert_close(c, reference(a, b) * rows * columns, 1e-3)


def test_tf32_loses_digits_and_no_more():
    a, b = operand((64, 64), "float32"), operand((64, 64), "float32", 1)
    error = np.linalg.norm(moye.matmul(a, b, precision="tf32") - reference(a, b)) / np.linalg.norm(reference(a, b))
    assert 1e-6 < error < 2e-3
    # Without their last digits positive numbers have a smaller product: the documented figure.
    a, b = abs(operand((64, 64), "float32")), abs(operand((64, 64), "float32", 1))
    less = np.sum(moye.matmul(a, b, precision="tf32")) / np.sum(reference(a, b)) - 1
    assert -7.5e-4 < less < -5.5e-4


def test_extents_of_zero_give_zeros_or_nothing():
    assert moye.matmul(np.zeros((0, 5), np.float32), np.zeros((5, 4), np.float32)).shape == (0, 4)
    assert (moye.matmul(np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)) == 0).all()
    assert moye.matmul(np.zeros((0, 3, 5), np.float32), np.zeros((5, 4), np.float32)).shape == (0, 3, 4)


def test_the_chosen_kernel_is_explained_and_can_be_forced():
    a, b = operand((64, 64), "float16"), operand((64, 64), "float16", 1)
    assert moye.explain(a, b)["kernel"]
    forced = moye.explain(a, b.T, kernel="matmul_f16_tn_64x64")
    assert (forced["kernel"], forced["tile"]) == ("matmul_f16_tn_64x64", (64, 64))
    assert_close(moye.matmul(a, b, tile=(64, 64), split_k=2), reference(a, b))


ONE = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "kind, text, call",
    [
        (ValueError, "a has shape (2, 3) and b (2, 3)", lambda: moye.matmul(ONE, ONE)),
        (ValueError, "a has shape (3,), and must be (M, K)", lambda: moye.matmul(ONE[0], ONE)),
        (ValueError, "as many batches", lambda: moye.matmul(np.ones((2, 2, 3), "f"), np.ones((3, 3, 2), "f"))),
        (ValueError, "out has shape [3, 3] of float32, and must have [2, 2]", lambda: moye.matmul(ONE, ONE.T, out=np.ones((3, 3), "f"))),
        (ValueError, "out is read-only", lambda: moye.matmul(ONE, ONE.T, out=np.broadcast_to(np.float32(1), (2, 2)))),
        (ValueError, "beta is 2, and there is no c", lambda: moye.matmul(ONE, ONE.T, beta=2)),
        (ValueError, "alpha is 1e39", lambda: moye.matmul(ONE, ONE.T, alpha=1e39)),
        (ValueError, 'activation is "tanh", and must be one of relu, gelu, gelu_tanh, silu', lambda: moye.matmul(ONE, ONE.T, activation="tanh")),
        (ValueError, 'no precision "tf32"', lambda: moye.matmul(ONE.astype("d"), ONE.T.astype("d"), precision="tf32")),
        (ValueError, "has the name nothing and takes these operands", lambda: moye.matmul(ONE, ONE.T, kernel="nothing")),
        (ValueError, "`card` is not a device", lambda: moye.matmul(ONE, ONE.T, device="card")),
        (ValueError, "stream goes with arrays on a GPU", lambda: moye.matmul(ONE, ONE.T, stream=1)),
        (ValueError, "bias", lambda: moye.matmul(ONE, ONE.T, bias=np.ones(3, "f"))),
        (TypeError, "alpha is 'one', and must be a number", lambda: moye.matmul(ONE, ONE.T, alpha="one")),
        (TypeError, "beta is 'one', and must be None or a number", lambda: moye.matmul(ONE, ONE.T, beta="one")),
        (TypeError, "activation is 3, and must be None, \"relu\"", lambda: moye.matmul(ONE, ONE.T, activation=3)),
        (TypeError, "precision is 32, and must be None, \"tf32\"", lambda: moye.matmul(ONE, ONE.T, precision=32)),
        (TypeError, "tile is 64, and must be None or (M, N)", lambda: moye.matmul(ONE, ONE.T, tile=64)),
        (ValueError, "tile is (64, 64, 8), and must be None or (M, N)", lambda: moye.matmul(ONE, ONE.T, tile=(64, 64, 8))),
        (ValueError, "tile is [-1, 64], and must be None or (M, N)", lambda: moye.matmul(ONE, ONE.T, tile=[-1, 64])),
        (TypeError, "kernel is 1, and must be None or the name", lambda: moye.matmul(ONE, ONE.T, kernel=1)),
        (TypeError, "split_k is 1.5, and must be None or an integer", lambda: moye.matmul(ONE, ONE.T, split_k=1.5)),
        (ValueError, "split_k is -2, and must be None or an integer", lambda: moye.matmul(ONE, ONE.T, split_k=-2)),
        (ValueError, "0 split-K slices: there is at least 1", lambda: moye.matmul(ONE, ONE.T, split_k=0)),
        (TypeError, "device is 0, and must be None, \"auto\"", lambda: moye.matmul(ONE, ONE.T, device=0)),
        (TypeError, "stream is 'main', and must be None, or the handle", lambda: moye.matmul(ONE, ONE.T, stream="main")),
        (TypeError, "device is 0, and must be None, \"auto\"", lambda: moye.copy(ONE, device=0)),
        (TypeError, "stream is a ndarray, and must be None", lambda: moye.transpose(ONE, stream=ONE)),
        (TypeError, "b has elements of float64", lambda: moye.matmul(ONE, ONE.T.astype("d"))),
        (TypeError, "a has elements of int64", lambda: moye.matmul(ONE.astype("l"), ONE.T.astype("l"))),
        (TypeError, "a is list", lambda: moye.matmul([[1.0]], ONE)),
        (TypeError, "and not float64", lambda: moye.matmul(ONE, ONE.T, out_dtype="float64")),
        (TypeError, "scale_a goes with 8-bit floats", lambda: moye.matmul(ONE, ONE.T, scale_a=ONE[0])),
        (TypeError, "the other byte order", lambda: moye.matmul(ONE.astype(">f4"), ONE.T)),
        (TypeError, "elements of type", lambda: moye.matmul(ONE.astype(ml_dtypes.float8_e3m4), ONE.T)),
    ],
)
def test_wrong_arguments_are_exceptions_with_the_values(kind, text, call):
    with pytest.raises(kind) as raised:
        call()
    assert text in str(raised.value)


def test_a_list_is_taken_where_a_tuple_is():
    a, b = operand((100, 80), "float16"), operand((80, 60), "float16", 1)
    assert_close(moye.matmul(a, b, tile=[64, 64]), reference(a, b))


def test_without_a_gpu_the_reason_is_told():
    reason = moye.why_simulated()
    if reason is None:
        pytest.skip("there is a GPU")
    assert moye.device_name("auto") == "simulator"
    with pytest.raises(moye.DeviceError) as raised:
        moye.device_name("gpu")
    assert str(raised.value) == reason
