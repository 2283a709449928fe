"""Products that models run, on the simulator, beside NumPy in float64."""

import ml_dtypes
import numpy as np
import pytest

import moye

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def error(got, expected):
    return np.linalg.norm(got.astype(np.float64) - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("groups, gated", [(1, False), (6, False), (3, True)])
def test_weights_of_e4m3_are_unpacked_and_multiplied(groups, gated):
    random = np.random.default_rng(3)
    n, k = (32, 96) if gated else (19, 96)
    weights = random.normal(size=(n, k)).astype(E4M3)
    scales = random.uniform(0.5, 2.0, size=(n, groups)).astype(np.float16)
    codes, factors = moye.pack_weights(weights, scales, form="e4m3", device="sim")
    of = {"bits": 8, "e4m3": True, "rows": n, "device": "sim"}
    exact = weights.astype(np.float64) * np.repeat(scales.astype(np.float64), k // groups, axis=1)
    unpacked = moye.unpack_weights(codes, factors, columns=k, **of)
    # A product of 4 bits by 11, rounded once to f16.
    assert unpacked.shape == (n, k) and (unpacked == exact.astype(np.float16)).all()
    x = random.normal(size=(3, k)).astype(np.float16)
    y = x.astype(np.float64) @ exact.T
    if gated:
        # Rows of eight gates and eight ups in turn.
        gate, up = (y.reshape(3, -1, 2, 8)[:, :, i].reshape(3, -1) for i in range(2))
        y = gate / (1 + np.exp(-gate)) * up
    assert error(moye.linear_quantized(x, codes, factors, gated=gated, **of), y) < 2**-10


def test_nan_of_a_weight_of_e4m3_is_nan_in_the_products_of_its_row_alone():
    weights = np.ones((16, 64), E4M3)
    weights[5, 40] = np.nan
    codes, factors = moye.pack_weights(weights, np.ones((16, 2), np.float16), form="e4m3", device="sim")
    y = moye.linear_quantized(np.ones((2, 64), np.float16), codes, factors, bits=8, e4m3=True, device="sim")
    assert np.isnan(y[:, 5]).all() and (np.delete(y, 5, axis=1) == 64).all()


def test_weights_of_e4m3_in_another_form_are_refused():
    with pytest.raises(ValueError, match="weights are float8_e4m3fn, and form is nibbles; set it to e4m3"):
        moye.pack_weights(np.ones((16, 32), E4M3), np.ones((16, 1), np.float16), device="sim")
    with pytest.raises(ValueError, match="e4m3 takes scales, without minima"):
        moye.pack_weights(np.ones((16, 32), E4M3), form="e4m3", device="sim")


def test_a_product_of_a_list_without_its_result_is_refused():
    a, b, out = np.ones((3, 8), np.float16), np.ones((5, 8), np.float16), np.zeros((3, 5), np.float16)
    with pytest.raises(ValueError, match="a1 and b1 are given without out1; give it, or leave them out"):
        moye.grouped_pairs(a, b, a, b, out0=out, device="sim")
    moye.grouped_pairs(a, b, a, b, out0=out, out1=out.copy(), device="sim")
    assert (out == 8).all()


def test_gradients_by_group_take_operands_of_both_8_bit_floats():
    random = np.random.default_rng(4)
    a, b = random.normal(size=(140, 24)).astype(E4M3), random.normal(size=(140, 40)).astype(E5M2)
    scale_a, scale_b = (random.uniform(0.5, 2.0, size=(2, n)).astype(np.float32) for n in (24, 40))
    ends = np.array([3, 140], np.int32)
    got = moye.block_scaled_k(a, b, scale_a, scale_b, ends, dtype="float32", device="sim")
    rows = [np.repeat(scales.astype(np.float64), 128, axis=0)[:140] for scales in (scale_a, scale_b)]
    a, b = a.astype(np.float64) * rows[0], b.astype(np.float64) * rows[1]
    exact = np.stack([a[:3].T @ b[:3], a[3:].T @ b[3:]])
    assert got.dtype == np.float32 and error(got, exact) < 2**-11
