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
    use_plans,
    why_simulated,
)
from ._operations import FUNCTIONS as _FUNCTIONS
from ._operations import explain, grouped_list
from ._ptx import Module, load

# A function for each declared operation: matmul, softmax, sum and the others.
globals().update(_FUNCTIONS)

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
    "algebra",
    "device_name",
    "draw",
    "evaluate",
    "explain",
    "grouped_list",
    "load",
    "mma_atoms",
    "parallel",
    "use_plans",
    "why_simulated",
    *_FUNCTIONS,
]
