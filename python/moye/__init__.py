"""GPU kernels in Rust, from Python: matrix products, attention, copies, CuTe's layout algebra.

The operations take any array with ``__dlpack__``. Arrays on a GPU (PyTorch, CuPy, JAX) are used
where they are, on PyTorch's current stream; arrays on the host (NumPy, with ``ml_dtypes`` for
bfloat16 and 8-bit floats) are copied to the GPU or to the simulator.

>>> import moye, numpy as np
>>> moye.matmul(np.ones((64, 32), np.float32), np.full((32, 48), 2, np.float32), device="sim")[0, 0]
64.0

Layouts are values, and draw themselves in a notebook:

>>> moye.Layout("(4,8):(8,1)").logical_divide((2, 4))
Layout("((2,2),(4,2)):((8,16),(1,4))")
"""

from . import algebra, draw
from ._attention import scaled_dot_product_attention
from ._moye import (
    Array,
    ComposedLayout,
    DeviceError,
    KernelFault,
    Layout,
    LayoutError,
    Picture,
    Swizzle,
    TiledCopy,
    TiledMma,
    __version__,
    device_name,
    evaluate,
    mma_atoms,
    why_simulated,
)
from ._declared import FUNCTIONS as _FUNCTIONS
from ._operations import copy, explain, matmul, transpose

argmax = _FUNCTIONS["argmax"]
argmin = _FUNCTIONS["argmin"]
cumsum = _FUNCTIONS["cumsum"]
dequantize = _FUNCTIONS["dequantize"]
log_softmax = _FUNCTIONS["log_softmax"]
logsumexp = _FUNCTIONS["logsumexp"]
max = _FUNCTIONS["max"]
mean = _FUNCTIONS["mean"]
min = _FUNCTIONS["min"]
norm = _FUNCTIONS["norm"]
quantize = _FUNCTIONS["quantize"]
rms_norm = _FUNCTIONS["rms_norm"]
sample = _FUNCTIONS["sample"]
softmax = _FUNCTIONS["softmax"]
sum = _FUNCTIONS["sum"]
topk = _FUNCTIONS["topk"]
var = _FUNCTIONS["var"]

__all__ = [
    "Array",
    "ComposedLayout",
    "DeviceError",
    "KernelFault",
    "Layout",
    "LayoutError",
    "Picture",
    "Swizzle",
    "TiledCopy",
    "TiledMma",
    "algebra",
    "argmax",
    "argmin",
    "copy",
    "cumsum",
    "dequantize",
    "device_name",
    "draw",
    "evaluate",
    "explain",
    "log_softmax",
    "logsumexp",
    "matmul",
    "max",
    "mean",
    "min",
    "mma_atoms",
    "norm",
    "quantize",
    "rms_norm",
    "sample",
    "scaled_dot_product_attention",
    "softmax",
    "sum",
    "topk",
    "transpose",
    "var",
    "why_simulated",
]
