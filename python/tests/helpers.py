"""Helpers of the tests: random operands, and products in float64."""

import ml_dtypes
import numpy as np

# The largest relative error of a product, by the type of its result. Operands are small integers
# divided by powers of two, so that most of the error is that of the last rounding.
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-14, "int32": 0.0}


def dtype(name):
    """NumPy's type of a name, with those of ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def operand(shape, name, seed=0):
    """Random values that the type represents."""
    random = np.random.default_rng(seed)
    if name == "int8":
        return random.integers(-128, 128, shape, dtype=np.int8)
    return random.standard_normal(shape).astype(dtype(name))


def assert_close(result, reference, tolerance=None):
    """The relative norm of the error is small."""
    assert result.shape == reference.shape
    tolerance = TOLERANCES[result.dtype.name] if tolerance is None else tolerance
    error = np.linalg.norm(result.astype(np.float64) - reference)
    assert error <= tolerance * np.linalg.norm(reference), (error, np.linalg.norm(reference))
