"""moye beside PyTorch, its compiler and a device copy, on operations along rows.

One CSV line per operation: GB/s of moye, of a copy of the same bytes, of PyTorch and of its
compiled form (`--compile`: for marked shapes, since each compilation takes seconds). All are
replayed alternately from CUDA graphs, on sets of operands that exceed the L2 cache: medians of 11
samples. Before it is timed, moye's result is compared with PyTorch's. `--small` measures calls on
4,096 elements instead, in microseconds, beside an empty kernel.
"""

import argparse
import statistics

import torch
import torch.nn.functional as F

import moye

ROTATED = 512 << 20
SHAPES = [(131072, 128), (32768, 1024), (16384, 4096), (8192, 8192), (4096, 32768), (512, 131072), (256, 262144)]
MARKED = [(16384, 4096), (4096, 32768), (512, 131072)]


class InGraph:
    """A call on each set of operands, captured in a graph."""

    def __init__(self, call, sets):
        self.count = len(sets)
        for operands in sets[:2]:
            call(*operands)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for operands in sets:
                call(*operands)

    def seconds(self):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 2e3 / self.count


def random(*shape, dtype):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def with_gradient(x, targets):
    """The gradient of the loss of each row by PyTorch's kernels, the loss included."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(F.cross_entropy(x, targets, reduction="sum"), x)[0]


# The compiler's input in place of calls that it does not fuse.
def loss_and_gradient(x, targets):
    wide = x.float()
    lse = wide.logsumexp(-1, keepdim=True)
    at = targets[:, None]
    loss = lse - wide.gather(1, at)
    columns = torch.arange(x.shape[1], device=x.device)
    return ((wide - lse).exp() - (columns == at).float()).to(x.dtype), loss


def softmax_gradient(y, dy):
    y, dy = y.float(), dy.float()
    return (y * (dy - (y * dy).sum(-1, keepdim=True))).bfloat16()


def rms_gradient(x, dy, w, rstd):
    h, dh = x.float() * rstd, dy.float() * w.float()
    dx = rstd * (dh - h * (h * dh).mean(-1, keepdim=True))
    return dx.to(x.dtype), (h * dy.float()).sum(0).to(w.dtype)


def layer_gradient(x, dy, w, mean, rstd):
    h, dh = (x.float() - mean) * rstd, dy.float() * w.float()
    dx = rstd * (dh - dh.mean(-1, keepdim=True) - h * (h * dh).mean(-1, keepdim=True))
    return dx.to(x.dtype), (h * dy.float()).sum(0).to(w.dtype), dy.float().sum(0).to(w.dtype)


def glu(x):
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def quantised(x):
    scale = x.float().abs().amax(1) / 448
    return (x.float() / scale[:, None]).to(torch.float8_e4m3fn), scale


def works(rows, columns, dtype, every=False):
    """Name, operands, moye's call, PyTorch's, bytes that must be moved, and the function to compile.

    Shapes that are not marked have some operations alone, unless `every` one is wanted.
    """
    size = torch.finfo(dtype).bits // 8 * rows * columns
    shape, eps = (columns,), 1e-6
    new = torch.empty_like

    def x():
        return random(rows, columns, dtype=dtype)

    w, b = random(columns, dtype=dtype), random(columns, dtype=dtype)
    targets = torch.randint(columns, (rows,), device="cuda")
    loss, lse = (torch.empty(rows, device="cuda", dtype=torch.float32) for _ in range(2))
    dw, db = new(w), new(b)
    # Rows of random values have approximately these statistics.
    mean, rstd = (torch.full((rows, 1), of, device="cuda", dtype=torch.float32) for of in (0.0, 1.0))

    yield ("softmax", lambda: (x(),), lambda x, y: moye.softmax(x, out=y), lambda x: F.softmax(x, -1), 2 * size)
    yield (
        "rms_norm",
        lambda: (x(),),
        lambda x, y: moye.rms_norm(x, w, eps=eps, out=y),
        lambda x: F.rms_norm(x, shape, w, eps),
        2 * size,
    )
    yield (
        "layer_norm",
        lambda: (x(),),
        lambda x, y: moye.layer_norm(x, w, b, out=y),
        lambda x: F.layer_norm(x, shape, w, b),
        2 * size,
    )
    yield (
        "rms_norm with a residual and the sum",
        lambda: (x(), x(), x()),
        lambda x, residual, total, y: (moye.rms_norm(x, w, residual, eps=eps, out=y, sum=total), y)[1],
        lambda x, residual, _: F.rms_norm(x + residual, shape, w, eps),
        4 * size,
    )
    if columns <= 131072:
        yield (
            "cross_entropy with its gradient",
            lambda: (x(),),
            lambda x, y: moye.cross_entropy(x, targets, out=loss, dlogits=y),
            lambda x: with_gradient(x, targets),
            2 * size,
            lambda x: loss_and_gradient(x, targets),
        )
    if not every and (rows, columns) not in MARKED:
        return
    yield (
        "cross_entropy",
        lambda: (x(),),
        lambda x, y: moye.cross_entropy(x, targets, out=loss, lse=lse),
        lambda x: F.cross_entropy(x, targets, reduction="none"),
        size,
    )
    yield (
        "softmax_backward",
        lambda: (F.softmax(x(), -1), x()),
        lambda y, dy, dx: moye.softmax_backward(y, dy, out=dx),
        lambda y, dy: torch._softmax_backward_data(dy, y, -1, dtype),
        3 * size,
        softmax_gradient,
    )
    yield (
        "rms_norm_backward",
        lambda: (x(), x()),
        lambda x, dy, dx: moye.rms_norm_backward(x, dy, w, eps=eps, out=dx, dweight=dw),
        lambda x, dy: torch.ops.aten._fused_rms_norm_backward(dy, x, shape, rstd, w, [True, True])[0],
        3 * size,
        lambda x, dy: rms_gradient(x, dy, w, rstd),
    )
    yield (
        "layer_norm_backward",
        lambda: (x(), x()),
        lambda x, dy, dx: moye.layer_norm_backward(x, dy, w, out=dx, dweight=dw, dbias=db),
        lambda x, dy: torch.ops.aten.native_layer_norm_backward(dy, x, shape, mean, rstd, w, b, [True] * 3)[0],
        3 * size,
        lambda x, dy: layer_gradient(x, dy, w, mean, rstd),
    )
    yield ("sum", lambda: (x(),), lambda x, _: moye.sum(x, axis=-1), lambda x: x.sum(-1), size)
    yield ("argmax", lambda: (x(),), lambda x, _: moye.argmax(x, axis=-1), lambda x: x.argmax(-1), size)
    yield ("cumsum", lambda: (x(),), lambda x, y: moye.cumsum(x, out=y), lambda x: x.cumsum(-1), 2 * size)
    if columns == 4096 or every:
        half = (rows, columns // 2)
        gated = [torch.empty(half, device="cuda", dtype=dtype) for _ in range(2)]
        yield ("swiglu", lambda: (x(),), lambda x, _: moye.swiglu(x, out=gated[0]), glu, 3 * size // 2)
        yield (
            "cast to f16",
            lambda: (x(),),
            lambda x, _: moye.cast(x, dtype="float16"),
            lambda x: x.to(torch.float16),
            size + 2 * rows * columns,
        )
        yield (
            "quantize e4m3 with a scale a row",
            lambda: (x(),),
            lambda x, _: moye.quantize(x)[0],
            lambda x: quantised(x)[0],
            size + rows * columns,
        )
        angles = torch.rand(rows, 1, 64, device="cuda", dtype=torch.float32)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        yield (
            "rope heads of 128",
            lambda: (x().view(rows, columns // 128, 128),),
            lambda x, y: moye.rope(x, None, cos[:, 0], sin[:, 0], out=y),
            lambda x: rotated(x, cos, sin),
            2 * size,
        )


def of_vocabularies(dtype):
    """top-k and sampling of 64 rows of 131,072, beside PyTorch's topk."""
    size = torch.finfo(dtype).bits // 8 * 64 * 131072

    def x():
        return (random(64, 131072, dtype=dtype),)

    def topk(x):
        return x.topk(50)[0]

    def sampled(**options):
        return lambda x, _: moye.sample(x, **options)

    yield ("topk 50", x, lambda x, _: moye.topk(x, k=50)[0], topk, size)
    yield ("sample top-k 50 (PyTorch: topk)", x, sampled(top_k=50), topk, size)
    yield ("sample top-k 50 and top-p 0.9 (PyTorch: topk)", x, sampled(top_k=50, top_p=0.9), topk, size)
    yield ("sample top-p 0.9 (PyTorch: topk)", x, sampled(top_p=0.9), topk, size)
    yield ("sample min-p 0.05 (PyTorch: topk)", x, sampled(min_p=0.05), topk, size)
    yield ("sample top-p 0.9 and min-p 0.05 (PyTorch: topk)", x, sampled(top_p=0.9, min_p=0.05), topk, size)


def measure(work, shape, compiled):
    name, operands, ours, theirs, size, *formula = work
    count = max(2, min(16, ROTATED // size))
    sets = [operands() for _ in range(count)]
    with_result = [(*of, torch.empty_like(of[0])) for of in sets]
    halves = [(torch.empty(size // 2, device="cuda", dtype=torch.uint8).random_(), None) for _ in range(count)]
    halves = [(x, torch.empty_like(x)) for x, _ in halves]
    sides = {"moye": (ours, with_result), "copy": (lambda x, y: y.copy_(x), halves), "torch": (theirs, sets)}
    if compiled:
        sides["compiled"] = (torch.compile(formula[0] if formula else theirs, dynamic=False), sets)
    got, expected = ours(*with_result[0]), theirs(*sets[0])
    note = "not compared"
    if not name.startswith("sample"):
        got = with_result[0][-1] if name.startswith("cross_entropy with") else got
        got, expected = got.double().flatten(), expected.double().flatten()
        note = f"{((got - expected).norm() / expected.norm()).item():.1e}"
    graphs = {}
    for side, (call, of) in sides.items():
        try:
            graphs[side] = InGraph(call, of)
        except Exception as error:
            note += f"; {side}: {type(error).__name__}"
    times = {side: [] for side in graphs}
    for _ in range(11):
        for side, graph in graphs.items():
            times[side].append(graph.seconds())
    rate = {side: size / statistics.median(of) / 1e9 for side, of in times.items()}
    rates = [f"{rate[side]:.0f}" if side in rate else "" for side in ("moye", "copy", "torch", "compiled")]
    ratio = rate.get("moye", 0.0) / rate["copy"]
    time = statistics.median(times["moye"]) * 1e6 if "moye" in times else 0.0
    print(f"{name},{shape},{time:.2f},{','.join(rates)},{ratio:.2f},{note}", flush=True)


def measure_small(dtype):
    """Each call on 4,096 elements, 64 calls in a graph one after another."""
    empty = torch.cuda._compile_kernel('extern "C" __global__ void empty() {}', "empty")
    calls = 64
    for rows, columns in ((1, 4096), (32, 128)):
        for name, operands, ours, theirs, *_ in works(rows, columns, dtype, every=True):
            sets = [operands() for _ in range(calls)]
            sides = {
                "moye": InGraph(ours, [(*of, torch.empty_like(of[0])) for of in sets]),
                "empty": InGraph(lambda *_: empty(grid=(1, 1, 1), block=(128, 1, 1)), sets),
                "copy": InGraph(lambda x, y: y.copy_(x), [(of[0], torch.empty_like(of[0])) for of in sets]),
            }
            try:
                sides["torch"] = InGraph(theirs, sets)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}")
            times = {side: [] for side in sides}
            for _ in range(11):
                for side, graph in sides.items():
                    times[side].append(graph.seconds() * 1e6)
            of = {side: statistics.median(all) for side, all in times.items()}
            us = [f"{of[side]:.2f}" if side in of else "" for side in ("moye", "empty", "copy", "torch")]
            shape = f"{str(dtype).removeprefix('torch.')} {rows} x {columns}"
            print(f"{name},{shape},{','.join(us)},{of['moye'] / of['empty']:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--only", default="", help="operations with one of these words in their names, separated by commas")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--shapes", help="rows x columns, such as 1024x65536,2048x40000")
    parser.add_argument("--small", action="store_true", help="calls on 4,096 elements beside an empty kernel")
    arguments = parser.parse_args()
    if arguments.small:
        print("work,shape,moye us,empty us,copy us,torch us,moye / empty")
        for dtype in arguments.dtypes.split(","):
            measure_small(getattr(torch, dtype))
        return
    shapes = SHAPES
    if arguments.shapes:
        shapes = [tuple(map(int, shape.split("x"))) for shape in arguments.shapes.split(",")]
    wanted = arguments.only.split(",")
    print("work,shape,moye us,moye GB/s,copy GB/s,torch GB/s,compiled GB/s,of the copy,difference to PyTorch")
    for dtype in arguments.dtypes.split(","):
        of = getattr(torch, dtype)
        all_works = [(work, shape) for shape in shapes for work in works(*shape, of, bool(arguments.shapes))]
        all_works += [(work, (64, 131072)) for work in of_vocabularies(of)]
        for work, (rows, columns) in all_works:
            if any(word in work[0] for word in wanted):
                compiled = arguments.compile and (rows, columns) in MARKED
                measure(work, f"{dtype} {rows} x {columns}", compiled)
                torch.cuda.empty_cache()


with torch.no_grad():
    main()
