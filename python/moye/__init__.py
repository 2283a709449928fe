"""GPU kernels in Rust, from Python: matrix products, attention, copies, CuTe's layout algebra.

The operations accept any array with ``__dlpack__``. Arrays on a GPU (PyTorch, CuPy, JAX) are used
in place, on PyTorch's current stream; arrays on the host (NumPy, with ``ml_dtypes`` for
bfloat16 and 8-bit floats) are copied to the GPU or to the simulator.

>>> import moye, numpy as np
>>> moye.matmul(np.ones((64, 32), np.float32), np.full((32, 48), 2, np.float32), device="sim")[0, 0]
64.0

Layouts are values, and draw themselves in a notebook:

>>> moye.Layout("(4,8):(8,1)").logical_divide((2, 4))
Layout("((2,2),(4,2)):((8,16),(1,4))")
"""

from . import algebra, draw, parallel
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
from ._operations import copy, explain, grouped_list, matmul, transpose
from ._ptx import Module, load

add = _FUNCTIONS["add"]
append = _FUNCTIONS["append"]
argmax = _FUNCTIONS["argmax"]
argmin = _FUNCTIONS["argmin"]
axpby = _FUNCTIONS["axpby"]
bias_activation = _FUNCTIONS["bias_activation"]
bincount = _FUNCTIONS["bincount"]
block_scaled = _FUNCTIONS["block_scaled"]
cast = _FUNCTIONS["cast"]
cross_entropy = _FUNCTIONS["cross_entropy"]
cumsum = _FUNCTIONS["cumsum"]
dequantize = _FUNCTIONS["dequantize"]
dequantize_int4 = _FUNCTIONS["dequantize_int4"]
embedding = _FUNCTIONS["embedding"]
full_like = _FUNCTIONS["full_like"]
geglu = _FUNCTIONS["geglu"]
grouped = _FUNCTIONS["grouped"]
grouped_k = _FUNCTIONS["grouped_k"]
histc = _FUNCTIONS["histc"]
layer_norm = _FUNCTIONS["layer_norm"]
layer_norm_backward = _FUNCTIONS["layer_norm_backward"]
layer_norm_quantized = _FUNCTIONS["layer_norm_quantized"]
linear_e4m3 = _FUNCTIONS["linear_e4m3"]
linear_few = _FUNCTIONS["linear_few"]
linear_qkv = _FUNCTIONS["linear_qkv"]
linear_quantized = _FUNCTIONS["linear_quantized"]
linear_quantized_a8 = _FUNCTIONS["linear_quantized_a8"]
linear_residual = _FUNCTIONS["linear_residual"]
log_softmax = _FUNCTIONS["log_softmax"]
log_softmax_backward = _FUNCTIONS["log_softmax_backward"]
logsumexp = _FUNCTIONS["logsumexp"]
max = _FUNCTIONS["max"]
mean = _FUNCTIONS["mean"]
min = _FUNCTIONS["min"]
moe = _FUNCTIONS["moe"]
norm = _FUNCTIONS["norm"]
pack_weights = _FUNCTIONS["pack_weights"]
quantize = _FUNCTIONS["quantize"]
quantize_int4 = _FUNCTIONS["quantize_int4"]
quantize_uint4 = _FUNCTIONS["quantize_uint4"]
relu2glu = _FUNCTIONS["relu2glu"]
rms_norm = _FUNCTIONS["rms_norm"]
rms_norm_backward = _FUNCTIONS["rms_norm_backward"]
rms_norm_quantized = _FUNCTIONS["rms_norm_quantized"]
rope = _FUNCTIONS["rope"]
sample = _FUNCTIONS["sample"]
softmax = _FUNCTIONS["softmax"]
softmax_backward = _FUNCTIONS["softmax_backward"]
sum = _FUNCTIONS["sum"]
swiglu = _FUNCTIONS["swiglu"]
topk = _FUNCTIONS["topk"]
unpack_weights = _FUNCTIONS["unpack_weights"]
var = _FUNCTIONS["var"]

__all__ = [
    "Array",
    "ComposedLayout",
    "DeviceError",
    "KernelFault",
    "Layout",
    "LayoutError",
    "Module",
    "Picture",
    "Swizzle",
    "TiledCopy",
    "TiledMma",
    "add",
    "algebra",
    "append",
    "argmax",
    "argmin",
    "axpby",
    "bias_activation",
    "bincount",
    "block_scaled",
    "cast",
    "copy",
    "cross_entropy",
    "cumsum",
    "dequantize",
    "dequantize_int4",
    "device_name",
    "draw",
    "embedding",
    "evaluate",
    "explain",
    "full_like",
    "geglu",
    "grouped",
    "grouped_k",
    "grouped_list",
    "histc",
    "layer_norm",
    "layer_norm_backward",
    "layer_norm_quantized",
    "linear_e4m3",
    "linear_few",
    "linear_qkv",
    "linear_quantized",
    "linear_quantized_a8",
    "linear_residual",
    "load",
    "log_softmax",
    "log_softmax_backward",
    "logsumexp",
    "matmul",
    "max",
    "mean",
    "min",
    "mma_atoms",
    "moe",
    "norm",
    "pack_weights",
    "parallel",
    "quantize",
    "quantize_int4",
    "quantize_uint4",
    "relu2glu",
    "rms_norm",
    "rms_norm_backward",
    "rms_norm_quantized",
    "rope",
    "sample",
    "scaled_dot_product_attention",
    "softmax",
    "softmax_backward",
    "sum",
    "swiglu",
    "topk",
    "transpose",
    "unpack_weights",
    "var",
    "why_simulated",
]
