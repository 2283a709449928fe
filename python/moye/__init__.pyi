import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from . import algebra as algebra
from . import draw as draw
from . import parallel as parallel

__version__: str

class SupportsDLPack(Protocol):
    """An array: of NumPy, PyTorch, CuPy, JAX, ..."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

A = TypeVar("A", bound=SupportsDLPack)
P = ParamSpec("P")

class DeviceError(RuntimeError): ...
class KernelFault(DeviceError): ...
class LayoutError(ValueError): ...

_IntTuple = int | str | None | tuple["_IntTuple", ...] | list["_IntTuple"]
_AnyLayout = Layout | ComposedLayout | Swizzle | _IntTuple

class _Operations:
    """The operations of :mod:`moye.algebra` whose first argument is the layout."""

    def __getattr__(self, name: str) -> Any: ...

class Layout(_Operations):
    def __init__(self, shape: Layout | _IntTuple, stride: _IntTuple = None) -> None: ...
    def __call__(self, *coordinate: _IntTuple) -> Any: ...
    def __getitem__(self, index: int) -> Layout: ...
    def __matmul__(self, other: _AnyLayout) -> Any: ...
    @property
    def shape(self) -> Any: ...
    @property
    def stride(self) -> Any: ...
    @property
    def size(self) -> int: ...
    @property
    def cosize(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def depth(self) -> int: ...
    def draw(self) -> Picture: ...
    def _repr_svg_(self) -> str | None: ...

class ComposedLayout(_Operations):
    def __init__(self, text: str | ComposedLayout) -> None: ...
    def __call__(self, *coordinate: _IntTuple) -> Any: ...
    def __getitem__(self, index: int) -> ComposedLayout: ...
    def __matmul__(self, other: _AnyLayout) -> Any: ...
    @property
    def swizzle(self) -> Swizzle: ...
    @property
    def offset(self) -> int: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def shape(self) -> Any: ...
    @property
    def size(self) -> int: ...
    @property
    def cosize(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def depth(self) -> int: ...
    def draw(self) -> Picture: ...
    def _repr_svg_(self) -> str | None: ...

class Swizzle:
    def __init__(self, bits: int, base: int, shift: int) -> None: ...
    def __call__(self, index: int) -> int: ...
    def __matmul__(self, other: _AnyLayout) -> Any: ...

class Picture:
    @property
    def title(self) -> str: ...
    def svg(self) -> str: ...
    def render(self, format: Literal["svg", "tikz", "typst", "table", "moye", "cute"]) -> str: ...
    def save(self, path: Any) -> None: ...
    def _repr_svg_(self) -> str: ...

class TiledCopy:
    def __init__(
        self, threads: _AnyLayout, values: _AnyLayout, *, atom: str | None = None, element: str | int | None = None
    ) -> None: ...
    @property
    def tile(self) -> list[int]: ...
    @property
    def source(self) -> Layout: ...
    @property
    def destination(self) -> Layout: ...
    def draw(self) -> Picture: ...
    def _repr_svg_(self) -> str | None: ...

class TiledMma:
    def __init__(self, atom: str, atoms: _AnyLayout = None, tile: tuple[int, int, int] | None = None) -> None: ...
    @property
    def atom(self) -> str: ...
    @property
    def shape_mnk(self) -> tuple[int, int, int]: ...
    @property
    def thr_id(self) -> Layout: ...
    @property
    def tile(self) -> tuple[int, int, int]: ...
    @property
    def a(self) -> Layout: ...
    @property
    def b(self) -> Layout: ...
    @property
    def c(self) -> Layout: ...
    def draw(self) -> Picture: ...
    def _repr_svg_(self) -> str | None: ...

class Module:
    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def kernels(self) -> dict[str, tuple[str, ...]]: ...
    def launch(
        self,
        kernel: str,
        blocks: int | tuple[int, ...],
        threads: int | tuple[int, ...],
        *arguments: SupportsDLPack | float | bytes,
        shared_bytes: int = 0,
        cluster: int | tuple[int, ...] = 1,
        device: str | None = None,
        stream: int | None = None,
    ) -> None: ...

def load(path: str | os.PathLike[str]) -> Module: ...

class Array:
    def __init__(
        self, shape: tuple[int, ...] | list[int], dtype: str, device: int | None = None, value: float | None = None
    ) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def grouped_list(
    a: Sequence[A],
    b: Sequence[A],
    *,
    out: Sequence[A] | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> Sequence[A]: ...
# Declared operations, written by stubs.py.
def add(
    x: A, y: A, *, alpha: float = 1.0, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def append(
    x: A, slots: A, cache: A, *, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def argmax(
    x: A, *, axis: int | None = None, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def argmin(
    x: A, *, axis: int | None = None, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def axpby(
    x: A,
    y: A,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def bias_activation(
    x: A,
    bias: A | None = None,
    *,
    activation: Literal["none", "relu", "relu2", "silu", "gelu", "gelu_tanh"] = "gelu",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def bincount(
    x: A, *, bins: int = 100, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def block_scaled(
    a: A,
    b: A,
    scale_a: A,
    scale_b: A,
    ends: A | None = None,
    *,
    dtype: Any = "bfloat16",
    tile: Literal["auto", "128x256", "192x128", "128x128", "64x64"] = "auto",
    out: A | None = None,
    out_scales: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def block_scaled_k(
    a: A,
    b: A,
    scale_a: A,
    scale_b: A,
    ends: A,
    *,
    dtype: Any = "bfloat16",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def block_scaled_pairs(
    a0: A,
    b0: A,
    scale_a0: A,
    scale_b0: A,
    a1: A | None = None,
    b1: A | None = None,
    scale_a1: A | None = None,
    scale_b1: A | None = None,
    a2: A | None = None,
    b2: A | None = None,
    scale_a2: A | None = None,
    scale_b2: A | None = None,
    a3: A | None = None,
    b3: A | None = None,
    scale_a3: A | None = None,
    scale_b3: A | None = None,
    *,
    dtype: Any = "bfloat16",
    out0: A | None = None,
    out1: A | None = None,
    out2: A | None = None,
    out3: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def cast(
    x: A, *, dtype: Any = "float32", out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def copy(x: A, *, out: A | None = None, device: str | None = None, stream: int | None = None) -> A: ...
def cross_entropy(
    logits: A,
    targets: A,
    dloss: A | None = None,
    *,
    axis: int = -1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    grad_scale: float = 1.0,
    out: A | None = None,
    lse: A | None = None,
    dlogits: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def cumsum(
    x: A,
    *,
    axis: int = -1,
    exclusive: bool = False,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def dequantize(
    q: A,
    scales: A,
    *,
    dtype: Any = "float32",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def dequantize_int4(
    q: A,
    scales: A,
    minima: A | None = None,
    *,
    group: int = 32,
    dtype: Any = "float32",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def embedding(
    indices: A, weight: A, *, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def full_like(
    x: A, *, value: float = 0.0, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def geglu(
    x: A,
    up: A | None = None,
    *,
    interleaved: bool = False,
    approximate: Literal["none", "tanh"] = "none",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def grouped(
    a: A,
    b: A,
    ends: A,
    *,
    tile: Literal["auto", "128x256 pairs", "128x256", "128x128"] = "auto",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def grouped_k(
    a: A, b: A, ends: A, *, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def grouped_pairs(
    a0: A,
    b0: A,
    a1: A | None = None,
    b1: A | None = None,
    a2: A | None = None,
    b2: A | None = None,
    a3: A | None = None,
    b3: A | None = None,
    *,
    out0: A | None = None,
    out1: A | None = None,
    out2: A | None = None,
    out3: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def histc(
    x: A,
    *,
    bins: int = 100,
    low: float = 0.0,
    high: float = 1.0,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def layer_norm(
    x: A,
    weight: A | None = None,
    bias: A | None = None,
    residual: A | None = None,
    *,
    eps: float = 1e-05,
    dtype: Literal["same", "float32", "float16", "bfloat16"] = "same",
    out: A | None = None,
    sum: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def layer_norm_backward(
    x: A,
    dy: A,
    weight: A | None = None,
    dsum: A | None = None,
    *,
    eps: float = 1e-05,
    out: A | None = None,
    dweight: A | None = None,
    dbias: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def layer_norm_quantized(
    x: A,
    weight: A | None = None,
    bias: A | None = None,
    residual: A | None = None,
    *,
    eps: float = 1e-05,
    dtype: Any = "float8_e4m3fn",
    q: A | None = None,
    scales: A | None = None,
    sum: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def linear_e4m3(
    a: A,
    b: A,
    *,
    tile: Literal["auto", "128x256 pairs", "128x128"] = "auto",
    out: A | None = None,
    scales: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def linear_few(
    x: A, w: A, residual: A | None = None, *, out: A | None = None, device: str | None = None, stream: int | None = None
) -> A: ...
def linear_gated(
    x: A,
    gate_up: A,
    *,
    tile: Literal["auto", "128x128 pairs", "128x128", "128x128 mma", "64x64 mma"] = "auto",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def linear_qkv(
    x: A,
    w: A,
    slots_of_rows: A,
    positions: A | None = None,
    cos: A | None = None,
    sin: A | None = None,
    *,
    size: int = 128,
    kv_heads: int = 1,
    slots: int = 0,
    page: int = 0,
    interleaved: bool = False,
    tile: Literal["auto", "128x256 pairs", "128x128"] = "auto",
    q: A | None = None,
    k: A | None = None,
    v: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A, A]: ...
def linear_quantized(
    x: A,
    codes: A,
    factors: A,
    residual: A | None = None,
    norm: A | None = None,
    *,
    bits: int = 4,
    rows: int = 0,
    offset: int = 8,
    gated: bool = False,
    eps: float = 1e-06,
    tile: Literal["auto", "8", "16", "64", "256"] = "auto",
    e4m3: bool = False,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def linear_quantized_a8(
    x: A,
    scales: A,
    codes: A,
    factors: A,
    *,
    bits: int = 4,
    rows: int = 0,
    offset: int = 8,
    gated: bool = False,
    eps: float = 1e-06,
    tile: Literal["auto", "8", "16", "64", "256"] = "auto",
    dtype: Any = "float16",
    e4m3: bool = False,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def linear_residual(
    a: A,
    b: A,
    residual: A | None = None,
    squares_of_a: A | None = None,
    *,
    eps: float = 1e-06,
    tile: Literal["auto", "128x256 pairs", "128x128"] = "auto",
    out: A | None = None,
    squares: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def log_softmax(
    x: A,
    mask: A | None = None,
    bias: A | None = None,
    *,
    axis: int = -1,
    scale: float = 1.0,
    causal: bool = False,
    offset: int = 0,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def log_softmax_backward(
    y: A,
    dy: A,
    *,
    axis: int = -1,
    scale: float = 1.0,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def logsumexp(
    x: A,
    *,
    axis: int | Sequence[int] | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def matmul(
    a: A,
    b: A,
    *,
    c: A | None = None,
    bias: A | None = None,
    scale_a: A | None = None,
    scale_b: A | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] | None = None,
    precision: Literal["tf32", "float16"] | None = None,
    out_dtype: Any = None,
    tile: Sequence[int] | None = None,
    kernel: str | None = None,
    split_k: int | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def max(
    x: A,
    *,
    axis: int | Sequence[int] | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def mean(
    x: A,
    *,
    axis: int | Sequence[int] | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def min(
    x: A,
    *,
    axis: int | Sequence[int] | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def moe(
    x: A,
    logits: A,
    gate_up: A,
    down: A,
    *,
    top: int = 2,
    routing: Literal["softmax", "plain"] = "softmax",
    renormalise: bool = False,
    tile: Literal["auto", "128x256 pairs", "128x256"] = "auto",
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def norm(
    x: A,
    *,
    axis: int | Sequence[int] | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def pack_weights(
    weights: A,
    scales: A | None = None,
    others: A | None = None,
    *,
    form: Literal["nibbles", "bytes", "e4m3", "gptq", "awq", "q4_0", "q4_1", "q8_0", "q4_k", "q5_k", "q6_k"] = "nibbles",
    codes: A | None = None,
    factors: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def quantize(
    x: A,
    *,
    dtype: Any = "float8_e4m3fn",
    tile_rows: int = 1,
    tile_columns: int = 0,
    q: A | None = None,
    scales: A | None = None,
    transposed: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def quantize_int4(
    x: A,
    *,
    group: int = 32,
    scale_dtype: Any = "float16",
    q: A | None = None,
    scales: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def quantize_uint4(
    x: A,
    *,
    group: int = 32,
    scale_dtype: Any = "float16",
    q: A | None = None,
    scales: A | None = None,
    minima: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A, A]: ...
def relu2glu(
    x: A,
    up: A | None = None,
    *,
    interleaved: bool = False,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def rms_norm(
    x: A,
    weight: A | None = None,
    residual: A | None = None,
    *,
    eps: float = 1e-06,
    dtype: Literal["same", "float32", "float16", "bfloat16"] = "same",
    out: A | None = None,
    sum: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def rms_norm_backward(
    x: A,
    dy: A,
    weight: A | None = None,
    dsum: A | None = None,
    *,
    eps: float = 1e-06,
    out: A | None = None,
    dweight: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def rms_norm_quantized(
    x: A,
    weight: A | None = None,
    residual: A | None = None,
    *,
    eps: float = 1e-06,
    dtype: Any = "float8_e4m3fn",
    q: A | None = None,
    scales: A | None = None,
    sum: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def rope(
    x: A,
    positions: A | None = None,
    cos: A | None = None,
    sin: A | None = None,
    *,
    base: float = 10000.0,
    rotary: int = 0,
    interleaved: bool = False,
    inverse: bool = False,
    axis: int = -3,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def sample(
    x: A,
    seeds: A | None = None,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    int32: bool = False,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
@overload
def scaled_dot_product_attention(
    q: A,
    k: A,
    v: A,
    *,
    bias: A | None = None,
    mask: A | None = None,
    alibi: A | None = None,
    sinks: A | None = None,
    q_scale: A | None = None,
    k_scale: A | None = None,
    v_scale: A | None = None,
    q_offsets: A | None = None,
    k_offsets: A | None = None,
    key_lengths: A | None = None,
    page_table: A | None = None,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    longest: Sequence[int] | None = None,
    splits: int | None = None,
    out: A | None = None,
    return_lse: Literal[False] = False,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
@overload
def scaled_dot_product_attention(
    q: A,
    k: A,
    v: A,
    *,
    bias: A | None = None,
    mask: A | None = None,
    alibi: A | None = None,
    sinks: A | None = None,
    q_scale: A | None = None,
    k_scale: A | None = None,
    v_scale: A | None = None,
    q_offsets: A | None = None,
    k_offsets: A | None = None,
    key_lengths: A | None = None,
    page_table: A | None = None,
    causal: bool = False,
    window: Sequence[int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    longest: Sequence[int] | None = None,
    splits: int | None = None,
    out: A | None = None,
    return_lse: Literal[True],
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def softmax(
    x: A,
    mask: A | None = None,
    bias: A | None = None,
    *,
    axis: int = -1,
    scale: float = 1.0,
    causal: bool = False,
    offset: int = 0,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def softmax_backward(
    y: A,
    dy: A,
    *,
    axis: int = -1,
    scale: float = 1.0,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def sum(
    x: A,
    *,
    axis: int | Sequence[int] | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def swiglu(
    x: A,
    up: A | None = None,
    *,
    interleaved: bool = False,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def topk(
    x: A,
    *,
    k: int = 50,
    axis: int = -1,
    int32: bool = False,
    values: A | None = None,
    indices: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> tuple[A, A]: ...
def transpose(x: A, *, out: A | None = None, device: str | None = None, stream: int | None = None) -> A: ...
def unpack_weights(
    codes: A,
    factors: A,
    *,
    bits: int = 4,
    rows: int = 0,
    columns: int = 0,
    offset: int = 8,
    dtype: Any = "float16",
    e4m3: bool = False,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
def var(
    x: A,
    *,
    axis: int | Sequence[int] | None = None,
    correction: int = 1,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> A: ...
@overload
def explain(function: Callable[P, Any], /, *arguments: P.args, **options: P.kwargs) -> str: ...
@overload
def explain(
    a: A,
    b: A,
    *,
    c: A | None = None,
    bias: A | None = None,
    scale_a: A | None = None,
    scale_b: A | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] | None = None,
    precision: Literal["tf32", "float16"] | None = None,
    out_dtype: Any = None,
    tile: Sequence[int] | None = None,
    kernel: str | None = None,
    split_k: int | None = None,
    out: A | None = None,
    device: str | None = None,
    stream: int | None = None,
) -> dict[str, Any]: ...
# End of the declared operations.
def evaluate(text: str) -> Any: ...
def mma_atoms() -> list[str]: ...
def device_name(device: str | None = None) -> str: ...
def use_plans(path: str | os.PathLike[str]) -> None: ...
def why_simulated() -> str | None: ...
