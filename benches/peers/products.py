"""Measures products that models run alternately with PyTorch's, in one process on one GPU.

    python benches/peers/products.py [--family NAME ...] [--only TEXT ...] [--csv FILE] [--rounds N]

Both sides are replayed from CUDA graphs, on sets of random operands that exceed the L2 cache together. Each result is
checked against a product in float64 before it is timed. A row is the median of the rounds, as in peers.py.
"""

import functools

import torch
import torch.nn.functional as F
from peers import NAMES, TOLERANCES, Case, InGraph, Rows, arguments, prepared, random

import moye

BF16, F32, E4M3 = torch.bfloat16, torch.float32, torch.float8_e4m3fn
# Bytes that the sets of a case have at least.
ROTATED = 256 << 20
# Weights of a scale, along K.
GROUP = 128
# A layer of experts.
EXPERTS, TOP, HIDDEN, WIDTH = 64, 6, 2048, 1408


def sets_of(make, size):
    """Sets of operands, of each of which a side reads at least `size` bytes."""
    return [make() for _ in range(max(1, min(16, -(-ROTATED // size))))]


def side(sets, call):
    """A call on each set of operands."""
    return InGraph(*(functools.partial(call, *operands) for operands in sets))


def side_by(sets, make):
    """The calls that `make` returns for each set, which it prepares outside the graph."""
    return InGraph(*(prepared(functools.partial(make, *operands)) for operands in sets))


def uneven(groups):
    """Weights of the sizes of groups, from 1 to 16 in an order without a pattern."""
    return [1 + ((g * 2654435761) >> 7) % 16 for g in range(groups)]


def ends_of(weights, rows):
    """The ends of groups of `rows` rows in all."""
    ends = torch.tensor(weights).cumsum(0) * rows // sum(weights)
    return ends.to(device="cuda", dtype=torch.int32)


def spans(ends):
    """The rows of each group."""
    ends = ends.tolist()
    return [slice(first, last) for first, last in zip([0, *ends], ends)]


def scales(rows, columns):
    return torch.rand(rows, columns, device="cuda") + 0.5


def block_scaled(m, n, k):
    """A scale for 1 x 128 elements of A and for 128 x 128 of B."""
    blocks = k // 128

    def operands():
        a, b = random(m, k, dtype=E4M3), random(n, k, dtype=E4M3)
        # PyTorch takes scales of A whose rows are contiguous.
        return a, b, scales(blocks, m).T, scales(-(-n // 128), blocks), torch.empty(m, n, device="cuda", dtype=BF16)

    sets = sets_of(operands, n * k)

    def reference():
        a, b, scale_a, scale_b, _ = sets[0]
        scale_b = scale_b.double().repeat_interleave(128, 0)[:n]
        a, b = (x.double() * of.double().repeat_interleave(128, 1) for x, of in ((a, scale_a), (b, scale_b)))
        return a @ b.T

    def ours(a, b, scale_a, scale_b, out):
        return moye.block_scaled(a, b, scale_a, scale_b, out=out)

    def theirs(a, b, scale_a, scale_b, _):
        return torch._scaled_mm(a, b.T, scale_a, scale_b.T, out_dtype=BF16)

    return Case(
        work=f"block-scaled e4m3 {m} x {n} x {k}",
        amount=2e-12 * m * n * k,
        unit="TFLOP/s",
        ours=side(sets, ours),
        peers={"torch._scaled_mm": side(sets, theirs)},
        tolerance=TOLERANCES[BF16],
        reference=reference,
    )


def grouped(weights, m, n, k):
    """The rows of each group by a matrix of B."""

    def operands():
        a, b = random(m, k, dtype=BF16), random(len(weights), n, k, dtype=BF16)
        return a, b, ends_of(weights, m), torch.empty(m, n, device="cuda", dtype=BF16)

    sets = sets_of(operands, 2 * len(weights) * n * k)

    def reference():
        a, b, ends, _ = sets[0]
        return torch.cat([a[rows].double() @ of.double().T for rows, of in zip(spans(ends), b)])

    kind = "even" if len(set(weights)) == 1 else "uneven"
    return Case(
        work=f"grouped bf16, {len(weights)} {kind} groups, {m} x {n} x {k}",
        amount=2e-12 * m * n * k,
        unit="TFLOP/s",
        ours=side(sets, lambda a, b, ends, out: moye.grouped(a, b, ends, out=out)),
        peers={"torch._grouped_mm": side(sets, lambda a, b, ends, _: torch._grouped_mm(a, b.mT, offs=ends))},
        tolerance=TOLERANCES[BF16],
        reference=reference,
    )


def grouped_k(weights, rows, m, n):
    """The product along the rows of each group: the gradient of its weights."""
    count = len(weights)

    def operands():
        a, b = random(rows, m, dtype=BF16), random(rows, n, dtype=BF16)
        return a, b, ends_of(weights, rows), torch.empty(count, m, n, device="cuda", dtype=BF16)

    # The result is larger than the operands.
    sets = sets_of(operands, 2 * count * m * n)

    def reference():
        a, b, ends, _ = sets[0]
        return torch.stack([a[of].double().T @ b[of].double() for of in spans(ends)])

    return Case(
        work=f"grouped_k bf16, {count} uneven groups, {m} x {n} x {rows} rows",
        amount=2e-12 * m * n * rows,
        unit="TFLOP/s",
        ours=side(sets, lambda a, b, ends, out: moye.grouped_k(a, b, ends, out=out)),
        peers={"torch._grouped_mm": side(sets, lambda a, b, ends, _: torch._grouped_mm(a.T, b, offs=ends))},
        tolerance=TOLERANCES[BF16],
        reference=reference,
    )


def layer(x, logits, gate_up, down, adds):
    """A mixture-of-experts layer of PyTorch's calls, whose rows `index_add_` adds, or a gather and a product."""
    weights, experts = torch.topk(torch.softmax(logits, 1), TOP)
    order = torch.argsort(experts.view(-1), stable=True)
    counts = torch.histc(experts.float(), EXPERTS, 0, EXPERTS - 1)
    ends = counts.cumsum(0).to(torch.int32)
    gate, up = torch._grouped_mm(x[order // TOP], gate_up.mT, offs=ends).chunk(2, -1)
    rows = torch._grouped_mm(F.silu(gate) * up, down.mT, offs=ends)
    if adds:
        rows = rows * weights.view(-1)[order, None].to(x.dtype)
        return torch.zeros_like(x).index_add_(0, order // TOP, rows)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=x.device)
    return torch.bmm(weights.to(x.dtype).view(-1, 1, TOP), rows[place].view(-1, TOP, HIDDEN)).view_as(x)


def moe(tokens):
    """A layer of experts with SwiGLU."""

    def operands():
        x, logits = random(tokens, HIDDEN, dtype=BF16), random(tokens, EXPERTS, dtype=F32)
        gate_up = random(EXPERTS, 2 * WIDTH, HIDDEN, dtype=BF16, scale=HIDDEN**-0.5)
        down = random(EXPERTS, HIDDEN, WIDTH, dtype=BF16, scale=WIDTH**-0.5)
        return x, logits, gate_up, down, torch.empty_like(x)

    sets = sets_of(operands, 6 * EXPERTS * HIDDEN * WIDTH)

    def reference():
        x, logits, gate_up, down, _ = sets[0]
        weights, experts = torch.topk(torch.softmax(logits.double(), 1), TOP)
        total = torch.zeros_like(x, dtype=torch.float64)
        for expert in range(EXPERTS):
            at, choice = torch.where(experts == expert)
            gate, up = (x[at].double() @ gate_up[expert].double().T).chunk(2, 1)
            rows = (F.silu(gate) * up) @ down[expert].double().T
            total.index_add_(0, at, rows * weights[at, choice, None])
        return total

    def theirs(adds):
        return side(sets, lambda x, logits, gate_up, down, _: layer(x, logits, gate_up, down, adds))

    return Case(
        work=f"layer of experts bf16, E {EXPERTS}, top {TOP}, {tokens} tokens, {HIDDEN} x {WIDTH}",
        amount=0.0,
        unit="us",
        ours=side(sets, lambda *operands: moye.moe(*operands[:4], top=TOP, out=operands[4])),
        peers={"PyTorch, index_add_": theirs(True), "PyTorch, index and bmm": theirs(False)},
        tolerance=TOLERANCES[BF16],
        reference=reference,
    )


def weights_of_4_bits(m, n, k):
    """A linear layer by codes from -8 to 7, with a scale for each group of a row of W."""

    def operands():
        nibbles = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
        # f16 represents these scales, which moye takes, exactly.
        scale = (scales(n, k // GROUP) / 64).to(BF16)
        codes = torch.stack((nibbles & 15, nibbles >> 4), 2).view(n, -1, GROUP).to(BF16) - 8
        w = (codes * scale[:, :, None]).view(n, k)
        return random(m, k, dtype=BF16), nibbles, scale, w, torch.empty(m, n, device="cuda", dtype=BF16)

    sets = sets_of(operands, n * k // 2)

    def reference():
        x, nibbles, scale, *_ = sets[0]
        codes = torch.stack((nibbles & 15, nibbles >> 4), 2).view(n, -1, GROUP).double() - 8
        return x.double() @ (codes * scale.double()[:, :, None]).view(n, k).T

    def ours(x, nibbles, scale, _, out):
        codes, factors = moye.pack_weights(nibbles, scale.half())
        return lambda: moye.linear_quantized(x, codes, factors, out=out)

    def of_4_bits(x, nibbles, scale, *_):
        # The first code of a byte is in its upper half; a weight is (code - 8) * scale + zero.
        packed = torch.ops.aten._convert_weight_to_int4pack((nibbles << 4) | (nibbles >> 4), 8)
        factors = torch.stack((scale.T, torch.zeros_like(scale.T)), 2).contiguous()
        return lambda: torch.ops.aten._weight_int4pack_mm(x, packed, GROUP, factors)

    peers = {"PyTorch, bf16": side(sets, lambda x, nibbles, scale, w, out: F.linear(x, w))}
    # It is for few rows: at 64 it took 263 us, the product by bf16 33.7 (docs/guide/weights.md).
    if m <= 64:
        peers["_weight_int4pack_mm"] = side_by(sets, of_4_bits)
    return Case(
        work=f"W4A16 bf16, groups of {GROUP}, {m} x {n} x {k}",
        amount=0.0,
        unit="us",
        ours=side_by(sets, ours),
        peers=peers,
        tolerance=TOLERANCES[BF16],
        reference=reference,
    )


def few(dtype, m, n, k):
    """A linear layer of few rows, by its operation and by `matmul`."""

    def operands():
        return random(m, k, dtype=dtype), random(n, k, dtype=dtype), torch.empty(m, n, device="cuda", dtype=dtype)

    sets = sets_of(operands, dtype.itemsize * n * k)
    return Case(
        work=f"few rows {NAMES[dtype]} {m} x {n} x {k}",
        amount=0.0,
        unit="us",
        ours=side(sets, lambda x, w, out: moye.linear_few(x, w, out=out)),
        peers={
            "PyTorch": side(sets, lambda x, w, _: F.linear(x, w)),
            "moye.matmul": side(sets, lambda x, w, _: moye.matmul(x, w.T)),
        },
        tolerance=TOLERANCES[dtype],
        reference=lambda: sets[0][0].double() @ sets[0][1].double().T,
    )


# The measured cases by family: a function and its arguments.
FAMILIES = {
    "block_scaled": (
        block_scaled,
        [
            (4096, 7168, 2048),
            (4096, 4096, 7168),
            (4096, 24576, 1536),
            (4096, 2112, 7168),
            (4096, 7168, 16384),
            (64, 7168, 16384),
        ],
    ),
    "grouped": (
        grouped,
        [([1] * 8, 8192, 4096, 4096), (uneven(64), 8192, 2048, 4096), (uneven(128), 16384, 1536, 2048)],
    ),
    "grouped_k": (grouped_k, [(uneven(64), 8192, 4096, 2048)]),
    "moe": (moe, [(4096,), (16,)]),
    "weights": (
        weights_of_4_bits,
        [(1, 14336, 4096), (16, 14336, 4096), (64, 14336, 4096), (4096, 14336, 4096), (16, 28672, 8192)],
    ),
    "few": (few, [(BF16, 1, 14336, 4096), (BF16, 16, 14336, 4096), (F32, 1, 14336, 4096), (F32, 16, 14336, 4096)]),
}


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this family, or several")
    options = parser.parse_args()
    torch.manual_seed(0)
    rows = Rows("products.py", options)
    for family in options.family or FAMILIES:
        make, cases = FAMILIES[family]
        rows.measure(functools.partial(make, *case) for case in cases)
    rows.file.close()


if __name__ == "__main__":
    main()
