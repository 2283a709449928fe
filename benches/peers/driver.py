"""Kernels of moye through the CUDA driver: their PTX, launch and parameters."""

import ctypes
import re
import struct
from dataclasses import dataclass

import torch

UNLIMITED = 2**31 - 1
# Constants of the driver's interface.
U8_MAP, BF16_MAP, L2_128B, MAX_DYNAMIC_SHARED = 0, 9, 2, 8

driver = ctypes.CDLL("libcuda.so.1")


def check(code):
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"the driver says {code}, {text.value}")


class Kernels:
    """The kernels of a folder with moye_attention.sm_80.ptx and moye_attention.sm_90a.ptx, by name."""

    def __init__(self, folder):
        self.texts = [(folder / f"moye_attention.{arch}.ptx").read_text() for arch in ("sm_80", "sm_90a")]
        self.known = {}

    def __getitem__(self, name):
        if name not in self.known:
            self.known[name] = Kernel.of(next(text for text in self.texts if f".entry {name}(" in text), name)
        return self.known[name]


@dataclass
class Kernel:
    """A kernel: its function, threads of a block and bytes of dynamic shared memory."""

    function: ctypes.c_void_p
    threads: int
    shared: int

    @classmethod
    def of(cls, text, name):
        """The driver compiles this kernel of a PTX module, and the globals that it refers to."""
        head = text[: re.search(r"^\.address_size.*\n", text, re.M).end()]
        start = text.index(f".visible .entry {name}(")
        body = text[start : text.index("\n}\n", start) + 3]
        outside = re.finditer(r"^\.(?:extern|global|const)\b.*?\b([\w$]+)\[.*;$", text, re.M)
        needed = [line.group() for line in outside if line.group(1) in body]
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(driver.cuModuleLoadData(ctypes.byref(module), "\n".join([head, *needed, body]).encode() + b"\0"))
        check(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        shared = int(re.search(r"^// shared (\d+)", body, re.M).group(1))
        check(driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared))
        return cls(function, int(re.search(r"\.maxntid (\d+)", body).group(1)), shared)

    def launch(self, blocks, *parameters):
        """A function that launches the kernel. A parameter is the bytes of a value, or a tensor map."""
        aligned = [p if isinstance(p, TensorMap) else ctypes.create_string_buffer(p, len(p)) for p in parameters]
        places = [p.address if isinstance(p, TensorMap) else ctypes.addressof(p) for p in aligned]
        pointers = (ctypes.c_void_p * len(places))(*places)

        def run(keep=aligned):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            size = (blocks, 1, 1, self.threads, 1, 1, self.shared)
            check(driver.cuLaunchKernel(self.function, *size, stream, pointers, None))

        return run


class TensorMap:
    """The map of a tensor of heads (B, H, S, D), or of pages: boxes of at most 128 bytes by `rows` rows."""

    def __init__(self, tensor, rows):
        batches, heads, tokens, d = tensor.shape
        self.memory = ctypes.create_string_buffer(128 + 64)
        self.address = (ctypes.addressof(self.memory) + 63) // 64 * 64
        size = tensor.element_size()
        row = min(d * size, 128)
        extents = (ctypes.c_uint64 * 4)(d, tokens, heads, batches)
        strides = (ctypes.c_uint64 * 3)(*[size * tensor.stride(mode) for mode in (2, 1, 0)])
        box, steps = (ctypes.c_uint32 * 4)(row // size, rows, 1, 1), (ctypes.c_uint32 * 4)(1, 1, 1, 1)
        place = (ctypes.c_void_p(self.address), U8_MAP if size == 1 else BF16_MAP, 4, ctypes.c_void_p(tensor.data_ptr()))
        # Swizzles of 32, 64 and 128 bytes are 1, 2 and 3.
        swizzle = (row // 32).bit_length()
        check(driver.cuTensorMapEncodeTiled(*place, extents, strides, box, steps, 0, swizzle, L2_128B, 0))


def arguments(q, k, v, o, causal, rows, pack=1, splits=1, partial=(0, 0), pages=None):
    """The struct `Arguments` of the kernels as bytes, and the row tiles of a head. With `pages`, a
    table (B, pages of a sequence), k and v are (page, KV head, token, D)."""
    batches, heads, tokens, d = q.shape
    page = k.shape[2] if pages is not None else 0
    keys = pages.shape[1] * page if page else k.shape[2]
    row_tiles = -(-tokens * pack // rows)
    fields = struct.pack("<4Q", *[tensor.data_ptr() for tensor in (q, k, v, o)])
    fields += struct.pack("<12q", *[t.stride(mode) for t in (q, k, v, o) for mode in (0, 2, 1)])
    # Log-sum-exp, bias, mask, slopes, sinks, offsets and lengths are absent.
    fields += bytes(8 * (4 + 5 + 5 + 2 + 4))
    fields += struct.pack("<Qq2Q", pages.data_ptr() if page else 0, pages.stride(0) if page else 0, *partial)
    fields += struct.pack("<6I", batches, heads, heads // k.shape[1], pack, tokens, keys)
    fields += struct.pack("<2i3I", UNLIMITED, 0 if causal else UNLIMITED, page, splits, row_tiles)
    fields += struct.pack("<2fI", d**-0.5, 0.0, 0)
    return fields, row_tiles
