"""The functions of Python, on the simulator: `pip install . pytest numpy && pytest`."""

import new_kernels
import numpy as np


def test_silu_of_a_transposed_view():
    x = np.random.default_rng(0).standard_normal((33, 70), np.float32).T
    y = new_kernels.silu(x, device="sim")
    exact = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
    assert y.dtype == np.float32 and np.linalg.norm(y - exact) < 1e-6 * np.linalg.norm(exact)


def test_the_kernel_of_a_call_is_named():
    x = np.zeros((3, 5), np.float16)
    assert new_kernels.explain(new_kernels.silu, x, device="sim") == "silu_f16"


def test_another_element_type_is_refused():
    try:
        new_kernels.silu(np.zeros(3))
    except TypeError as error:
        assert "float32" in str(error)
    else:
        raise AssertionError("float64 is taken")
