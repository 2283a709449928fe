"""Measures the operations of the Python package alternately with those of PyTorch, cuBLAS and Triton, in one process.

    python benches/peers/peers.py [--csv FILE] [--only TEXT ...] [--rounds N]

A row is the median of the rounds, in each of which every side runs for some milliseconds between two CUDA events. The operands are
random. Each result is checked before it is timed. The CSV has the columns of docs/results, one row per peer.
"""

import argparse
import contextlib
import csv
import datetime
import functools
import io
import statistics
import time
from dataclasses import dataclass, field, replace

import torch
import torch.nn.attention.bias
from clock import clock
from torch.nn.attention import SDPBackend, sdpa_kernel

import moye

# The minimum time of a side in a round.
MILLISECONDS = 4.0
COLUMNS = ["date", "card", "work", "moye", "peer", "peer_name", "unit", "ratio", "mhz", "command", "note"]


@dataclass
class Case:
    """An operation, ours and the peers', on the same operands."""

    work: str
    # The work, in 10^12 operations or 10^9 bytes. Not read where the unit is a time, "us".
    amount: float
    unit: str
    ours: callable
    peers: dict
    tolerance: float = 0.0
    note: str = ""
    reference: callable = field(default=None)
    # The part of the result that the reference covers.
    of: object = ...


@dataclass
class Within:
    """A side whose calls run in a context, which is entered once for all calls of a round."""

    context: callable
    run: callable

    def __call__(self):
        return self.run()


class InGraph:
    """A side whose call is captured several times in a CUDA graph, and replayed: the host's time is not measured.

    Several runs are the same call on different operands, in turn; the result is that of the first.
    """

    def __init__(self, *runs):
        self.runs, self.graph, self.result = runs, None, None
        self.rounds = -(-10 // len(runs))

    @property
    def calls(self):
        return self.rounds * len(self.runs)

    def __call__(self):
        if self.graph is None:
            stream = torch.cuda.Stream()
            # Workspaces are allocated outside the capture, on its stream.
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream), within(self.runs[0]):
                for run in self.runs:
                    run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream), within(self.runs[0]):
                for _ in range(self.rounds):
                    self.result, *_ = [run() for run in self.runs]
            self.graph = graph
        self.graph.replay()
        return self.result


def within(run):
    """The context in which a side is called."""
    return run.context() if isinstance(run, Within) else contextlib.nullcontext()


def calls_of(run):
    """The calls of the operation in a call of a side."""
    return run.calls if isinstance(run, InGraph) else 1


def prepared(make):
    """A side that `make` returns at the first call, so that an error in it is a row with its reason."""
    made = functools.cache(make)
    return lambda *operands: made()(*operands)


def random(*shape, dtype, scale=1.0):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, device="cuda", dtype=dtype)
    return (torch.randn(shape, device="cuda") * scale).to(dtype)


NAMES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
}
TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-13, torch.int8: 0.0}


def in_graphs(case):
    """The same work replayed from CUDA graphs on all sides: the time of the kernels, without that of the calls."""
    peers = {name: InGraph(run) for name, run in case.peers.items() if name != "Triton"}
    return replace(case, work=f"{case.work}, in a graph", ours=InGraph(case.ours), peers=peers, note="replays of a graph")


def product(dtype, m, n, k, majors="tn", tf32=False, batches=None, triton_peer=True):
    """A product; `t` is an operand A with K contiguous, `n` an operand B with N contiguous, in BLAS's terms."""
    lead = () if batches is None else (batches,)
    a = random(*lead, m, k, dtype=dtype) if majors[0] == "t" else random(*lead, k, m, dtype=dtype).mT
    b = random(*lead, n, k, dtype=dtype).mT if majors[1] == "n" else random(*lead, k, n, dtype=dtype)
    out = torch.empty(*lead, m, n, device="cuda", dtype=torch.int32 if dtype == torch.int8 else dtype)
    name = "tf32" if tf32 else NAMES[dtype]
    precision = "tf32" if tf32 else None

    def cublas():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        return torch._int_mm(a, b) if dtype == torch.int8 else torch.matmul(a, b, out=out)

    peers = {"cuBLAS": cublas}
    if triton_peer and batches is None and dtype in (torch.float16, torch.bfloat16):
        peers["Triton"] = triton_product(a, b, out)
    count = batches or 1
    return Case(
        work=f"{name} {majors} " + (f"{batches} x " if batches else "") + f"{m} x {n} x {k}",
        amount=2e-12 * count * m * n * k,
        unit="TFLOP/s",
        ours=lambda: moye.matmul(a, b, out=out, precision=precision),
        peers=peers,
        tolerance=2e-3 if tf32 else TOLERANCES[dtype],
        reference=lambda: a.double() @ b.double(),
    )


def scaled_product(m, n, k, dtype=torch.float8_e4m3fn):
    """8-bit floats with a factor per row and per column."""
    a, b = random(m, k, dtype=dtype), random(n, k, dtype=dtype).mT
    rows, columns = torch.rand(m, 1, device="cuda") + 0.5, torch.rand(1, n, device="cuda") + 0.5
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return Case(
        work=f"{NAMES[dtype]} tn {m} x {n} x {k}, scales by row and column",
        amount=2e-12 * m * n * k,
        unit="TFLOP/s",
        ours=lambda: moye.matmul(a, b, scale_a=rows, scale_b=columns, out=out),
        peers={"torch._scaled_mm": lambda: torch._scaled_mm(a, b, rows, columns, out_dtype=torch.bfloat16)},
        tolerance=1e-2,
        reference=lambda: (a.double() @ b.double()) * rows.double() * columns.double(),
    )


def linear(dtype, m, n, k, gelu=True):
    """A linear layer: product, bias and GELU, or without GELU."""
    x, weight, bias = random(m, k, dtype=dtype), random(n, k, dtype=dtype, scale=k**-0.5), random(n, dtype=dtype)
    out = torch.empty(m, n, device="cuda", dtype=dtype)

    def after(y):
        return torch.nn.functional.gelu(y, approximate="tanh") if gelu else y

    peers = {"PyTorch": lambda: after(torch.nn.functional.linear(x, weight, bias))}
    if gelu:
        peers["cuBLASLt epilogue"] = lambda: torch._addmm_activation(bias, x, weight.T, use_gelu=True)
    return Case(
        work=f"{NAMES[dtype]} linear with bias{' and GELU' if gelu else ''} {m} x {n} x {k}",
        amount=2e-12 * m * n * k,
        unit="TFLOP/s",
        ours=lambda: moye.matmul(x, weight.T, bias=bias, activation="gelu_tanh" if gelu else None, out=out),
        peers=peers,
        tolerance=1e-2,
        reference=lambda: after(x.double() @ weight.double().T + bias.double()),
    )


def sdpa(backend, q, k, v, **options):
    """PyTorch's attention by one of its backends."""
    theirs = torch.nn.functional.scaled_dot_product_attention
    return Within(lambda: sdpa_kernel(backend), lambda: theirs(q, k, v, **options))


def both_backends(q, k, v, **options):
    """PyTorch's backends of attention."""
    return {
        "cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, **options),
        "FlashAttention-2": sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, **options),
    }


def first_head(q, k, v, **options):
    """The attention of the first KV head of the first batch in float64, a few queries at a time, and where it is in the result."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q[0, :group].double(), k[0, 0].double(), v[0, 0].double()
    rows = []
    for start in range(0, q.shape[1], 2048):
        scores = q[:, start : start + 2048] @ k.T * q.shape[2] ** -0.5
        if options.get("is_causal"):
            # The last query is at the position of the last key.
            row = torch.arange(start, start + scores.shape[1], device="cuda")[:, None] + k.shape[0] - q.shape[1]
            scores.masked_fill_(torch.arange(k.shape[0], device="cuda") > row, float("-inf"))
        rows.append(torch.softmax(scores, 2) @ v)
    return torch.cat(rows, 1)[None]


def attention(dtype, batches, heads, kv_heads, tokens, columns, causal):
    """Attention of tensors (batches, tokens, heads, columns), which both sides read as views."""
    q, k, v = (
        random(batches, tokens, count, columns, dtype=dtype).transpose(1, 2) for count in (heads, kv_heads, kv_heads)
    )
    out = torch.empty(batches, tokens, heads, columns, device="cuda", dtype=dtype).transpose(1, 2)
    options = {"is_causal": causal, "enable_gqa": heads != kv_heads}
    return Case(
        work=f"{NAMES[dtype]} attention{', causal' if causal else ''}, {batches} x {heads}/{kv_heads} x {tokens} x {columns}",
        amount=4e-12 * batches * heads * tokens * (tokens + 1 if causal else 2 * tokens) / 2 * columns,
        unit="TFLOP/s",
        ours=lambda: moye.scaled_dot_product_attention(q, k, v, causal=causal, out=out),
        peers=both_backends(q, k, v, **options),
        tolerance=1e-2,
        reference=lambda: first_head(q, k, v, **options),
        of=(slice(0, 1), slice(0, heads // kv_heads)),
    )


def cache(dtype, batches, heads, kv_heads, queries, keys, columns):
    """Queries, and a cache of keys and values."""
    shapes = ((heads, queries), (kv_heads, keys), (kv_heads, keys))
    return [random(batches, count, tokens, columns, dtype=dtype) for count, tokens in shapes]


def decode(dtype, batches, heads, kv_heads, keys, columns, queries=1):
    """Attention of a few queries per head on a KV cache, each byte of which a call reads once."""
    q, k, v = cache(dtype, batches, heads, kv_heads, queries, keys, columns)
    out = torch.empty_like(q)
    options = {"enable_gqa": heads != kv_heads}
    return Case(
        work=f"{NAMES[dtype]} decode, {batches} x {heads}/{kv_heads} x {queries} x {columns}, {keys} keys",
        amount=1e-9 * 2 * k.numel() * k.element_size(),
        unit="GB/s",
        ours=InGraph(lambda: moye.scaled_dot_product_attention(q, k, v, out=out)),
        peers={name: InGraph(run) for name, run in both_backends(q, k, v, **options).items()},
        tolerance=1e-2,
        note="replays of a graph" + ("; no side has a mask" if queries > 1 else ""),
        reference=lambda: first_head(q, k, v),
        of=(slice(0, 1), slice(0, heads // kv_heads)),
    )


def chunk(dtype, heads, queries, keys, columns):
    """A chunk of a prompt: its queries attend to the cache, and to the chunk's keys up to their position."""
    q, k, v = cache(dtype, 1, heads, heads, queries, keys, columns)
    out = torch.empty_like(q)
    # PyTorch's `is_causal` aligns the mask to the upper left.
    mask = torch.ones(queries, keys, device="cuda", dtype=torch.bool).tril(keys - queries)
    lower_right = torch.nn.attention.bias.causal_lower_right(queries, keys)
    return Case(
        work=f"{NAMES[dtype]} chunk, 1 x {heads}/{heads} x {queries} x {columns}, {keys} keys",
        amount=4e-12 * heads * (queries * keys - queries * (queries - 1) / 2) * columns,
        unit="TFLOP/s",
        ours=InGraph(lambda: moye.scaled_dot_product_attention(q, k, v, causal=True, out=out)),
        peers={
            "cuDNN": InGraph(sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, attn_mask=mask)),
            "FlashAttention-2": InGraph(sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, attn_mask=lower_right)),
        },
        tolerance=1e-2,
        note="replays of a graph; cuDNN reads a boolean mask",
        reference=lambda: first_head(q, k, v, is_causal=True),
        of=(slice(0, 1), slice(0, 1)),
    )


def paged(dtype, batches, heads, kv_heads, queries, keys, columns, page):
    """Attention on a cache in pages of `page` tokens in random order, beside the same call on contiguous keys."""
    q, k, v = cache(dtype, batches, heads, kv_heads, queries, keys, columns)
    out = torch.empty_like(q)
    count = keys // page
    # The page of each page of each sequence.
    table = torch.randperm(batches * count, device="cuda").reshape(batches, count)

    def in_pages(x):
        pages = torch.empty(batches * count, kv_heads, page, columns, device="cuda", dtype=dtype)
        pages[table.flatten()] = x.reshape(batches, kv_heads, count, page, columns).transpose(1, 2).flatten(0, 1)
        return pages

    k_pages, v_pages = in_pages(k), in_pages(v)
    numbers = table.int()
    lengths = torch.full((batches,), keys, device="cuda", dtype=torch.int32)
    of_pages = {"causal": True, "page_table": numbers, "key_lengths": lengths, "out": out}
    is_few = queries <= 16
    flop = 4e-12 * batches * heads * (queries * keys - queries * (queries - 1) / 2) * columns
    return Case(
        work=f"{NAMES[dtype]} pages of {page}, {batches} x {heads}/{kv_heads} x {queries} x {columns}, {keys} keys",
        amount=1e-9 * 2 * k.numel() * k.element_size() if is_few else flop,
        unit="GB/s" if is_few else "TFLOP/s",
        ours=InGraph(lambda: moye.scaled_dot_product_attention(q, k_pages, v_pages, **of_pages)),
        peers={"moye, contiguous": InGraph(lambda: moye.scaled_dot_product_attention(q, k, v, causal=True, out=out))},
        tolerance=1e-2,
        note="replays of a graph; PyTorch's scaled_dot_product_attention takes no pages",
        reference=lambda: first_head(q, k, v, is_causal=True),
        of=(slice(0, 1), slice(0, heads // kv_heads)),
    )


def by_offsets(dtype, batches, heads, tokens, columns, causal):
    """Sequences one after another along the tokens, with cumulative offsets, beside the same sequences as batches."""
    q, k, v, out = (random(batches, tokens, heads, columns, dtype=dtype) for _ in range(4))
    offsets = torch.arange(batches + 1, device="cuda", dtype=torch.int32) * tokens
    of_offsets = {"q_offsets": offsets, "k_offsets": offsets, "longest": (tokens, tokens)}
    as_batches = [x.transpose(1, 2) for x in (q, k, v, out)]
    as_one = [x.flatten(0, 1).transpose(0, 1)[None] for x in (q, k, v, out)]

    def run(operands, **options):
        *read, result = operands
        moye.scaled_dot_product_attention(*read, causal=causal, out=result, **options)
        return as_batches[3]

    return Case(
        work=f"{NAMES[dtype]} attention by offsets{', causal' if causal else ''}, {batches} x {heads}/{heads} x {tokens} x {columns}",
        amount=4e-12 * batches * heads * tokens * (tokens + 1 if causal else 2 * tokens) / 2 * columns,
        unit="TFLOP/s",
        ours=lambda: run(as_one, **of_offsets),
        peers={"moye, batches": lambda: run(as_batches)},
        tolerance=1e-2,
        reference=lambda: first_head(*as_batches[:3], is_causal=causal),
        of=(slice(0, 1), slice(0, 1)),
    )


def attention_e4m3(batches, heads, tokens, columns, causal):
    """Attention of 8-bit floats with a factor for each operand."""
    e4m3, bf16 = torch.float8_e4m3fn, torch.bfloat16
    q, k, v = (random(batches, heads, tokens, columns, dtype=e4m3) for _ in range(3))
    factors = [torch.tensor([factor], device="cuda") for factor in (0.5, 0.75, 1.25)]
    wide = [(x.float() * factor).to(bf16) for x, factor in zip((q, k, v), factors)]
    out = torch.empty(batches, heads, tokens, columns, device="cuda", dtype=bf16)
    options = {"is_causal": causal}
    q_scale, k_scale, v_scale = factors
    theirs = torch.nn.functional.scaled_dot_product_attention
    return Case(
        work=f"e4m3 attention{', causal' if causal else ''}, {batches} x {heads}/{heads} x {tokens} x {columns}",
        amount=4e-12 * batches * heads * tokens * (tokens + 1 if causal else 2 * tokens) / 2 * columns,
        unit="TFLOP/s",
        ours=lambda: moye.scaled_dot_product_attention(
            q, k, v, causal=causal, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, out=out
        ),
        peers={
            # PyTorch refuses such tensors; the row has its reason.
            "PyTorch, e4m3": lambda: theirs(q, k, v, **options),
            "cuDNN, e4m3": cudnn_e4m3(q, k, v, factors, causal),
            "cuDNN, bf16": sdpa(SDPBackend.CUDNN_ATTENTION, *wide, **options),
        },
        # The probabilities are rounded to e4m3, with 3 bits of fraction.
        tolerance=6e-2,
        note="cuDNN, e4m3 has results of e4m3; cuDNN, bf16 has the operands in bf16",
        reference=lambda: first_head(*(x.float() * factor for x, factor in zip((q, k, v), factors)), **options),
        of=(slice(0, 1), slice(0, 1)),
    )


def cudnn_e4m3(*arguments):
    """cuDNN's attention of e4m3; None if its Python package is not installed."""
    try:
        from cudnn_e4m3 import attention
    except ImportError:
        return None
    return prepared(lambda: attention(*arguments))


def movement(name, dtype, rows, columns):
    x = random(rows, columns, dtype=dtype)
    if name == "transpose":
        out = torch.empty(columns, rows, device="cuda", dtype=dtype)
        ours, peer = (lambda: moye.transpose(x, out=out)), (lambda: out.copy_(x.T))
    else:
        out = torch.empty_like(x)
        ours, peer = (lambda: moye.copy(x, out=out)), (lambda: out.copy_(x))
    return Case(
        work=f"{name}, {x.element_size()} bytes, {rows} x {columns}",
        amount=2e-9 * x.numel() * x.element_size(),
        unit="GB/s",
        ours=ours,
        peers={"PyTorch": peer},
        reference=lambda: x.T if name == "transpose" else x,
    )


def triton_product(a, b, out):
    """A product in Triton, tuned over a few tiles; None if Triton is not installed."""
    try:
        from triton_product import product
    except ImportError:
        return None
    return lambda: product(a, b, out)


def cases():
    """The measured cases. Each is created when it is needed, and its operands are freed afterwards."""
    f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
    for dtype in (f16, bf16):
        for size in (512, 1024, 2048, 4096, 8192):
            yield lambda dtype=dtype, size=size: product(dtype, size, size, size)
    for majors in ("nn", "nt", "tt"):
        yield lambda majors=majors: product(bf16, 4096, 4096, 4096, majors)
    for m in (1, 16, 64, 256):
        yield lambda m=m: product(bf16, m, 4096, 4096)
    for shape in ((1000, 777, 555), (4095, 4095, 4095), (2048, 2048, 16384)):
        yield lambda shape=shape: product(bf16, *shape)
    yield lambda: product(bf16, 512, 512, 512, batches=32)
    for size in (1024, 4096):
        yield lambda size=size: product(f32, size, size, size)
        yield lambda size=size: product(f32, size, size, size, tf32=True)
        yield lambda size=size: product(f64, size, size, size)
    for size in (2048, 4096, 8192):
        yield lambda size=size: product(torch.int8, size, size, size)
        if torch.cuda.get_device_capability() == (9, 0):
            yield lambda size=size: scaled_product(size, size, size)
    if torch.cuda.get_device_capability() == (9, 0):
        # If PyTorch refuses two operands of e5m2, the row has its reason.
        yield lambda: scaled_product(4096, 4096, 4096, torch.float8_e5m2)
    # Cases in which the host's time of a call exceeds the kernel's.
    for dtype in (f16, bf16):
        for size in (512, 1024, 2048):
            yield lambda dtype=dtype, size=size: in_graphs(product(dtype, size, size, size))
    for m in (1, 16, 64, 256):
        yield lambda m=m: in_graphs(product(bf16, m, 4096, 4096))
    yield lambda: in_graphs(product(bf16, 1000, 777, 555))
    yield lambda: in_graphs(product(bf16, 2048, 2048, 16384))
    yield lambda: in_graphs(product(bf16, 512, 512, 512, batches=32))
    yield lambda: in_graphs(product(f32, 1024, 1024, 1024, tf32=True))
    yield lambda: in_graphs(product(f64, 1024, 1024, 1024))
    yield lambda: in_graphs(product(torch.int8, 2048, 2048, 2048))
    if torch.cuda.get_device_capability() == (9, 0):
        yield lambda: in_graphs(scaled_product(2048, 2048, 2048))
    for shape in ((4096, 4096, 1024), (8192, 8192, 2048)):
        yield lambda shape=shape: linear(bf16, *shape)
        yield lambda shape=shape: linear(bf16, *shape, gelu=False)
    for columns in (64, 128, 256):
        heads = 2048 // columns
        for tokens in (1024, 4096, 16384):
            shape = (16384 // tokens, heads, heads, tokens, columns)
            for causal in (False, True):
                yield lambda shape=shape, causal=causal: attention(bf16, *shape, causal)
    for causal in (False, True):
        yield lambda causal=causal: attention(bf16, 2, 32, 8, 2048, 128, causal)
    for batches, keys in ((1, 2048), (1, 8192), (1, 32768), (16, 2048), (16, 8192), (16, 32768)):
        yield lambda batches=batches, keys=keys: decode(bf16, batches, 32, 8, keys, 128)
    for batches in (1, 16):
        for queries in (2, 4, 8, 16):
            yield lambda batches=batches, queries=queries: decode(bf16, batches, 32, 8, 8192, 128, queries)
    yield lambda: chunk(bf16, 8, 256, 8192 + 256, 128)
    for page in (16, 64):
        for shape in ((1, 32, 8, 1, 8192, 128), (16, 32, 8, 1, 8192, 128), (16, 32, 8, 8, 8192, 128), (1, 8, 8, 256, 8192 + 256, 128)):
            yield lambda shape=shape, page=page: paged(bf16, *shape, page)
    for causal in (False, True):
        yield lambda causal=causal: by_offsets(bf16, 4, 16, 4096, 128, causal)
    if torch.cuda.get_device_capability() == (9, 0):
        for columns in (64, 128, 256):
            for causal in (False, True):
                yield lambda columns=columns, causal=causal: attention_e4m3(4, 2048 // columns, 4096, columns, causal)
        for causal in (False, True):
            yield lambda causal=causal: attention_e4m3(1, 16, 16384, 128, causal)
    for dtype in (f16, f32):
        for size in (4096, 16384):
            yield lambda dtype=dtype, size=size: movement("transpose", dtype, size, size)
    yield lambda: movement("copy", f32, 16384, 16384)
    # Imported here, because that file imports this one.
    from attention_options import cases as options_of_attention

    yield from options_of_attention()


def milliseconds(run, count, mhz=lambda: None, clocks=None):
    """The GPU time of a call; the clock during it is added to `clocks`."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with within(run):
        start.record()
        for _ in range(count):
            run()
        end.record()
    if clocks is not None:
        clocks.append(mhz())
    end.synchronize()
    return start.elapsed_time(end) / count / calls_of(run)


def check(case, name, run, reference):
    with within(run):
        result = run()[case.of].double()
    error = ((result - reference).norm() / reference.norm()).item()
    if not error <= case.tolerance:
        raise AssertionError(f"{case.work}: the relative error of {name} is {error:.1e}, over {case.tolerance:.0e}")


def measure(case, rounds, mhz):
    """The median time of each side, the median clock of all, and the error of each side that fails, by name."""
    sides, notes = {}, {}
    reference = case.reference().double()
    for name, run in {"moye": case.ours, **case.peers}.items():
        if run is None:
            continue
        try:
            check(case, name, run, reference)
            milliseconds(run, 3)
            sides[name] = run
        except Exception as error:  # A side that fails is a row with its reason.
            notes[name] = f"{name}: {str(error).splitlines()[0]}"
    del reference
    counts = {}
    for name, run in sides.items():
        counts[name] = max(1, round(MILLISECONDS / milliseconds(run, 3) / calls_of(run)))
    times, clocks = {name: [] for name in sides}, []
    for round_ in range(rounds):
        # The first side of a round rotates, because it finds the GPU cooler.
        order = list(sides)[round_ % len(sides) :] + list(sides)[: round_ % len(sides)] if sides else []
        for name in order:
            times[name].append(milliseconds(sides[name], counts[name], mhz, clocks))
    clocks = [known for known in clocks if known is not None]
    median_clock = f"{statistics.median(clocks):.0f}" if clocks else ""
    return {name: statistics.median(each) for name, each in times.items()}, median_clock, notes


def host_cost(rounds):
    """The host's time for a call that the GPU does not wait for, in microseconds."""
    a = random(128, 128, dtype=torch.float16)
    out = torch.empty_like(a)
    sides = {"moye": lambda: moye.matmul(a, a, out=out), "cuBLAS": lambda: torch.matmul(a, a, out=out)}
    times = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            run()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                run()
            times[name].append((time.perf_counter() - start) / 200 * 1e6)
            torch.cuda.synchronize()
    return {name: statistics.median(each) for name, each in times.items()}


def figure(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


class Rows:
    """The table of a script: printed, and written row by row, so that an interrupted run keeps its measurements."""

    def __init__(self, script, options):
        self.options, self.mhz = options, clock()
        self.card = torch.cuda.get_device_name().removeprefix("NVIDIA ")
        self.date = datetime.date.today().isoformat()
        self.command = f"benches/peers/{script}, PyTorch {torch.__version__.split('+')[0]}"
        print(f"{self.card}, {self.date}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}\n")
        print("| work | moye | peer | ratio | MHz | note |\n| --- | ---: | ---: | ---: | ---: | --- |")
        self.file = open(options.csv, "w", newline="") if options.csv else io.StringIO()
        self.rows = csv.writer(self.file, lineterminator="\n")
        self.rows.writerow(COLUMNS)

    def wanted(self, work):
        return self.options.only is None or any(text in work for text in self.options.only)

    def add(self, work, ours, peer, name, unit, ratio, at="", note=""):
        ours, peer = (figure(value) if value else "fails" for value in (ours, peer))
        self.rows.writerow([self.date, self.card, work, ours, peer, name, unit, ratio, at, self.command, note])
        self.file.flush()
        print(f"| {work} | {ours} {unit} | {peer} ({name}) | {ratio} | {at} | {note} |", flush=True)

    def measure(self, cases):
        """A row for each peer of each case. `cases` are functions that create them."""
        for make in cases:
            case = make()
            if not self.wanted(case.work):
                continue
            medians, at, notes = measure(case, self.options.rounds, self.mhz)
            of_unit = (lambda ms: 1e3 * ms) if case.unit == "us" else (lambda ms: case.amount / (ms * 1e-3))
            values = {name: of_unit(median) for name, median in medians.items()}
            for name, run in case.peers.items():
                if run is None:
                    continue
                ratio = f"{medians[name] / medians['moye']:.2f}" if {name, "moye"} <= medians.keys() else ""
                note = "; ".join(filter(None, [case.note, notes.get("moye"), notes.get(name)]))
                self.add(case.work, values.get("moye"), values.get(name), name, case.unit, ratio, at, note)
            del case
            torch.cuda.empty_cache()


def arguments(description):
    """A parser of the options of `Rows`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--csv", help="the file to write")
    parser.add_argument("--only", action="append", help="only work whose name contains this string, or one of several")
    parser.add_argument("--rounds", type=int, default=11)
    return parser


def main():
    options = arguments(__doc__.splitlines()[0]).parse_args()
    torch.manual_seed(0)
    rows = Rows("peers.py", options)
    rows.measure(cases())
    work = "host time of a call, f16 128 x 128 x 128"
    if rows.wanted(work):
        cost = host_cost(options.rounds)
        rows.add(work, cost["moye"], cost["cuBLAS"], "cuBLAS", "us", f"{cost['cuBLAS'] / cost['moye']:.2f}")
    rows.file.close()


if __name__ == "__main__":
    # The module of this name, so that attention_options.py has the same classes.
    import peers

    peers.main()
