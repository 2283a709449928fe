"""PyTorch, its compiler and a device copy on the work of moye's operations along rows.

A line of CSV for each: work, shape, GB/s of the copy of the same bytes, of PyTorch and of its
compiled form. All are replayed from CUDA graphs, on sets of operands that exceed the L2 cache;
medians of 11 samples. `cargo run -p moye-rows --example measure` prints moye's side.
"""

import argparse
import statistics

import torch
import torch.nn.functional as F

ROTATED = 512 << 20


def seconds(call, sets):
    """The median time of a call, replayed from a graph over all sets of operands."""
    for operands in sets[:2]:
        call(*operands)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for operands in sets:
            call(*operands)
    graph.replay()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for _ in range(11):
        begin.record()
        graph.replay()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / 2e3 / len(sets))
    return statistics.median(samples)


def random(*shape, dtype):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def glu(x):
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def quantised(x):
    scale = x.float().abs().amax(1, keepdim=True) / 448
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


def works(rows, columns, dtype):
    """Name, operands, call, and bytes that have to be moved."""
    size = torch.finfo(dtype).bits // 8 * rows * columns

    def x():
        return random(rows, columns, dtype=dtype)

    weight = random(columns, dtype=dtype)
    targets = torch.randint(columns, (rows,), device="cuda")
    yield "softmax", lambda: (x(),), lambda x: F.softmax(x, -1), 2 * size
    yield "rms_norm", lambda: (x(),), lambda x: F.rms_norm(x, (columns,), weight), 2 * size
    yield "layer_norm", lambda: (x(),), lambda x: F.layer_norm(x, (columns,), weight, weight), 2 * size
    yield "cross_entropy", lambda: (x(),), lambda x: F.cross_entropy(x, targets, reduction="none"), size
    yield (
        "softmax_backward",
        lambda: (x(), F.softmax(x(), -1)),
        lambda dy, y: torch._softmax_backward_data(dy, y, -1, dtype),
        3 * size,
    )
    yield "swiglu", lambda: (x(),), glu, 3 * size // 2
    yield "cast", lambda: (x(),), lambda x: x.to(torch.float16), size + 2 * rows * columns
    yield "quantize", lambda: (x(),), quantised, size + rows * columns
    yield "sum", lambda: (x(),), lambda x: x.sum(-1), size
    yield "argmax", lambda: (x(),), lambda x: x.argmax(-1), size
    yield "cumsum", lambda: (x(),), lambda x: x.cumsum(-1), 2 * size
    if rows <= 512:
        yield "topk", lambda: (x(),), lambda x: x.topk(50), size
    if columns == 128:
        angles = torch.rand(rows, columns // 2, device="cuda", dtype=dtype)
        yield "rope", lambda: (x(),), lambda x: rope(x, angles.cos(), angles.sin()), 2 * size


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which takes long")
    arguments = parser.parse_args()
    shapes = [(131072, 128), (32768, 1024), (16384, 4096), (8192, 8192), (4096, 32768), (512, 131072)]
    shapes += [(256, 262144), (64, 131072)]
    print("work,dtype,shape,copy GB/s,torch GB/s,compiled GB/s")
    for dtype in (torch.bfloat16, torch.float32):
        for rows, columns in shapes:
            for name, operands, call, size in works(rows, columns, dtype):
                count = max(1, min(16, ROTATED // size))
                sets = [operands() for _ in range(count)]
                halves = [torch.empty(2, size // 2, device="cuda", dtype=torch.uint8) for _ in range(count)]
                copied = size / seconds(lambda both: both[0].copy_(both[1]), [(both,) for both in halves]) / 1e9
                rates = [f"{copied:.0f}"]
                for form in (call, torch.compile(call, dynamic=False) if arguments.compile else None):
                    try:
                        rates.append(f"{size / seconds(form, sets) / 1e9:.0f}" if form else "")
                    except Exception as error:
                        rates.append(type(error).__name__)
                print(f"{name},{str(dtype)[6:]},[{rows} {columns}],{','.join(rates)}", flush=True)
                del sets, halves
            torch.cuda.empty_cache()


main()
