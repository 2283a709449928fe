"""Times PyTorch's grouped products, and a mixture-of-experts layer built from them.

    python benches/peers/experts.py

It prints the figures in docs/results beside those of `moye-products`' example `measure`, which runs
alternately with it. A time is the median of 21 samples between two CUDA events. The layer is a CUDA
graph, so that the host's time is not measured.
"""

import torch
import torch.nn.functional as F

SAMPLES = 21
EXPERTS, TOP, HIDDEN, WIDTH = 64, 6, 2048, 1408


def microseconds(run):
    """The median time of a call."""
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)

    def sample(calls):
        start.record()
        for _ in range(calls):
            run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3 / calls

    sample(3)
    calls = max(1, min(50, int(20e3 / sample(1))))
    return sorted(sample(calls) for _ in range(SAMPLES))[SAMPLES // 2]


def in_graph(run):
    """A CUDA graph of a call."""
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def layer(x, logits, gate_up, down, adds):
    """A mixture-of-experts layer, whose rows `index_add_` adds, or a gather and a product."""
    weights, experts = torch.topk(torch.softmax(logits, 1), TOP)
    order = torch.argsort(experts.view(-1), stable=True)
    counts = torch.histc(experts.float(), EXPERTS, 0, EXPERTS - 1)
    ends = counts.cumsum(0).to(torch.int32)
    inner = torch._grouped_mm(x[order // TOP], gate_up.transpose(1, 2), offs=ends)
    gate, up = inner.chunk(2, -1)
    rows = torch._grouped_mm(F.silu(gate) * up, down.transpose(1, 2), offs=ends)
    if adds:
        rows = rows * weights.view(-1)[order, None].to(x.dtype)
        return torch.zeros_like(x).index_add_(0, order // TOP, rows)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=x.device)
    weights = weights.to(x.dtype).view(-1, 1, TOP)
    return torch.bmm(weights, rows[place].view(-1, TOP, HIDDEN)).view_as(x)


def uniform(low, high, *shape):
    return (torch.rand(shape, device="cuda") * (high - low) + low).to(torch.bfloat16)


def ends_of(groups, rows, even):
    """The ends of groups in the example `measure`."""
    weights = [1 if even else 1 + ((g * 2654435761) >> 7) % 16 for g in range(groups)]
    ends = torch.tensor(weights).cumsum(0) * rows // sum(weights)
    return ends.to(device="cuda", dtype=torch.int32)


def main():
    torch.manual_seed(1)
    gate_up, down = uniform(-0.5, 0.5, EXPERTS, 2 * WIDTH, HIDDEN), uniform(-0.5, 0.5, EXPERTS, HIDDEN, WIDTH)
    for tokens in (4096, 16):
        x, logits = uniform(-2, 2, tokens, HIDDEN), uniform(-3, 3, tokens, EXPERTS).float()
        for adds in (True, False):
            time = microseconds(in_graph(lambda: layer(x, logits, gate_up, down, adds)))
            print(f"{tokens} tokens, {'index_add_' if adds else 'index and bmm'}: {time:.1f} us")
    for groups, m, n, k, even in (
        (8, 8192, 4096, 4096, True),
        (64, 8192, 2048, 4096, False),
        (128, 16384, 1536, 2048, False),
    ):
        a, b, ends = uniform(-4, 4, m, k), uniform(-4, 4, groups, n, k).transpose(1, 2), ends_of(groups, m, even)
        time = microseconds(lambda: torch._grouped_mm(a, b, offs=ends))
        print(f"{groups} groups, {m} x {n} x {k}: {time:.1f} us, {2e-6 * m * n * k / time:.0f} TFLOP/s")
        if groups == 64:
            rows = uniform(-4, 4, m, n)
            time = microseconds(lambda: torch._grouped_mm(a.t(), rows, offs=ends))
            print(f"along {m} rows, {k} x {n}: {time:.1f} us, {2e-6 * m * n * k / time:.0f} TFLOP/s")


if __name__ == "__main__":
    main()
