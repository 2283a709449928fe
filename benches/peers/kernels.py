"""Measures attention's kernels, launched through the driver, alternately with PyTorch's on the same operands.

    cargo xtask ptx --attention
    python benches/peers/kernels.py target/ptx/report [--csv FILE] [--only TEXT ...] [--rounds N]

The folder has the PTX of the kernels, moye_attention.sm_80.ptx and moye_attention.sm_90a.ptx. The
driver compiles each kernel that is measured. All sides are replayed from CUDA
graphs, so that the host's time of a call is not measured. `moye::Attention` chooses these kernels,
sections and numbers of splits on an H100, and for decoding also the other kernel. A row is the
median of the rounds. Each result is checked before it is timed. Prompts of e4m3 are measured
if `nvidia-cudnn-frontend` is installed. The CSV has the columns of
docs/results.
"""

import argparse
import csv
import datetime
import itertools
import pathlib
import statistics
import struct

import torch
import torch.nn.functional as F
from clock import clock
from driver import Kernels, TensorMap, arguments
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    from cudnn_e4m3 import attention as of_e4m3
except ImportError:
    of_e4m3 = None

COLUMNS = ["date", "card", "work", "moye", "peer", "peer_name", "unit", "ratio", "mhz", "command", "note"]
# The minimum time of a side in a round.
MILLISECONDS = 5.0
# Heads of 128: their number, and that of the keys' heads, in the cases of decoding.
HEADS, KV_HEADS = 32, 8
# Sets of keys and values that calls use in turn, so that L2 does not keep them.
SETS = 8


def random(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def hopper(kernel, q, k, v, causal, tile, section):
    """A kernel with TMA; its operands of e4m3 have no scale factors."""
    o, (rows, keys) = torch.empty_like(q, dtype=torch.bfloat16), tile
    fields, row_tiles = arguments(q, k, v, o, causal, rows)
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    maps = [TensorMap(tensor, box) for tensor, box in ((q, 64), (k, keys), (v, keys), (o, 64))]
    blocks = min(row_tiles * q.shape[0] * q.shape[1], processors)
    scales = [bytes(3 * 16)] if q.element_size() == 1 else []
    return kernel.launch(blocks, *maps, fields, *scales, struct.pack("<I", section)), o


def mma_sync(kernel, q, k, v, causal, rows):
    o = torch.empty_like(q)
    fields, row_tiles = arguments(q, k, v, o, causal, rows)
    return kernel.launch(row_tiles * q.shape[0] * q.shape[1], fields), o


def decode(kernel, combine, q, k, v, rows, splits, pages=None):
    """A kernel for few query rows, with tensor maps if it uses TMA, and the one that reduces the splits."""
    (batches, heads, tokens, d), o = q.shape, torch.empty_like(q)
    partial = torch.empty(splits * q.numel(), device="cuda"), torch.empty(splits * q.numel() // d, device="cuda")
    group = heads // k.shape[1]
    fields, tiles = arguments(q, k, v, o, True, rows, group, splits, [p.data_ptr() for p in partial], pages)
    maps = [TensorMap(tensor, box) for box in (64, 16) for tensor in (k, v)] if rows == 64 else []
    first = kernel.launch(tiles * (heads // group) * splits * batches, *maps, fields)
    of_block = 1 if splits > 4 and batches * heads * tokens <= 1024 else 8
    second = combine.launch(-(-batches * heads * tokens // of_block), fields, struct.pack("<I", d))

    def run(keep=(partial, pages, q, k, v, o)):
        first()
        if splits > 1:
            second()

    return run, o


def in_pages(tensor, page, order):
    """The pages of a tensor (B, H, S, D) as (page, H, token, D), with page i at index `order[i]`."""
    batches, heads, tokens, d = tensor.shape
    pages = tensor.reshape(batches, heads, tokens // page, page, d).transpose(1, 2).flatten(0, 1)
    return torch.empty_like(pages).index_copy_(0, order, pages).contiguous()


def in_graph(runs, calls):
    """A side that replays a graph of this number of calls, which alternate between the runs."""
    for run in runs:
        run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for run in itertools.islice(itertools.cycle(runs), calls):
            run()
    return graph.replay, calls


def in_turn(sides, rounds):
    """The median milliseconds of a call of each side, and the median clock. A side is a function and its number of calls."""
    read, times, clocks = clock(), {name: [] for name in sides}, []
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)

    def time(run, count):
        start.record()
        for _ in range(count):
            run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / count

    counts = {name: max(1, int(MILLISECONDS / max(time(run, 2), 1e-3))) for name, (run, _) in sides.items()}
    for _ in range(rounds):
        for name, (run, calls) in sides.items():
            times[name].append(time(run, counts[name]) / calls)
            clocks.append(read())
    mhz = f"{statistics.median(clocks):.0f}" if None not in clocks else None
    return {name: statistics.median(of_side) for name, of_side in times.items()}, mhz


def expect(what, o, q, k, v, causal, tolerance=2**-7):
    """Raises if results of the first or last head differ from float64 by more than the tolerance."""
    for batch, head in ((0, 0), (q.shape[0] - 1, q.shape[1] - 1)):
        of_keys = head * k.shape[1] // q.shape[1]
        scores = q[batch, head].double() @ k[batch, of_keys].double().T * q.shape[3] ** -0.5
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1 + k.shape[2] - q.shape[2]), -torch.inf)
        want = torch.softmax(scores, 1) @ v[batch, of_keys].double()
        error = float((o[batch, head].double() - want).norm() / want.norm())
        if not error < tolerance:
            raise RuntimeError(f"{what}: {error:e} by norm")


def prompts(kernels, wants):
    """Prompts of 16,384 tokens of 2,048 columns in all: the kernels for sm_90a beside cuDNN, those for sm_80 beside FlashAttention-2."""
    # By head size and tokens: the kernel, the rows and keys of its tiles, and the heads of a
    # section under a causal mask.
    cells = {
        (64, 1024): (("64", 192, 128, 1), ("64_causal", 128, 128, 48)),
        (64, 4096): (("64", 192, 128, 1), ("64", 192, 128, 32)),
        (64, 16384): (("64", 192, 128, 1), ("64", 192, 128, 32)),
        (128, 1024): (("128_causal", 128, 128, 1), ("128_causal", 128, 128, 24)),
        (128, 4096): (("128", 128, 160, 1), ("128", 128, 160, 22)),
        (128, 16384): (("128", 128, 160, 1), ("128", 128, 160, 16)),
        (256, 1024): (("256", 128, 80, 1), ("256", 128, 80, 2)),
        (256, 4096): (("256", 128, 80, 1), ("256", 128, 80, 32)),
        (256, 16384): (("256", 128, 80, 1), ("256", 128, 80, 8)),
    }
    rows_of = {64: 128, 80: 128, 96: 128, 128: 128, 192: 64, 256: 64}
    peers = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}
    for d, s, causal in itertools.product(rows_of, (1024, 4096, 16384), (False, True)):
        batches, heads = 16384 // s, 2048 // d
        work = f"attention bf16 B {batches} H {heads} D {d} {'causal ' if causal else ''}{s} x {s}"
        for peer, backend in peers.items():
            name = f"forward_bf16_{d}" if peer == "FlashAttention-2" else f"hopper_bf16_{cells.get((d, s), [['']] * 2)[causal][0]}"
            if name == "hopper_bf16_" or not wants(f"{work} {name}"):
                continue
            q, k, v = (random(batches, heads, s, d) for _ in range(3))
            if peer == "cuDNN":
                _, rows, keys, section = cells[d, s][causal]
                run, o = hopper(kernels[name], q, k, v, causal, (rows, keys), section)
            else:
                run, o = mma_sync(kernels[name], q, k, v, causal, rows_of[d])
            run()
            expect(f"{name}, {work}", o, q, k, v, causal)

            def theirs(q=q, k=k, v=v, causal=causal, backend=backend):
                with sdpa_kernel(backend):
                    F.scaled_dot_product_attention(q, k, v, is_causal=causal)

            seen = s * (s + 1) / 2 if causal else s * s
            work += " (mma.sync)" if peer == "FlashAttention-2" else ""
            yield work, 4e-12 * seen * batches * heads * d, "TFLOP/s", {name: in_graph([run], 2), peer: in_graph([theirs], 2)}


def prompts_of_e4m3(kernels, wants):
    """The same prompts in e4m3 beside cuDNN's attention of e4m3, whose calls are not in a graph."""
    # By head size: rows and keys of a tile; heads of a section under a causal mask by tokens.
    tiles, sections = {64: (192, 128), 128: (128, 192), 256: (128, 96)}, {1024: 48, 4096: 32, 16384: 16}
    for d, s, causal in itertools.product(tiles, sections, (False, True)):
        batches, heads = 16384 // s, 2048 // d
        work = f"attention e4m3 B {batches} H {heads} D {d} {'causal ' if causal else ''}{s} x {s}"
        few = d == 128 and s == 1024
        name, (rows, keys) = f"hopper_e4m3_{d}{'_causal' if few else ''}", (128, 128) if few else tiles[d]
        if not wants(f"{work} {name}"):
            continue
        q, k, v = (random(batches, heads, s, d).to(torch.float8_e4m3fn) for _ in range(3))
        run, o = hopper(kernels[name], q, k, v, causal, (rows, keys), sections[s] if causal else 1)
        run()
        # The probabilities have 3 bits of fraction.
        expect(f"{name}, {work}", o, q, k, v, causal, 0.03)
        theirs = of_e4m3(q, k, v, [torch.ones(1, device="cuda")] * 3, causal)
        theirs()
        seen = s * (s + 1) / 2 if causal else s * s
        yield work, 4e-12 * seen * batches * heads * d, "TFLOP/s", {name: in_graph([run], 2), "cuDNN": (theirs, 1)}


def decoding(kernels, wants):
    """One query token on 8,192 keys, contiguous and in pages: the kernel with TMA and `wgmma`, and the one with `mma.sync`."""
    s, d = 8192, 128
    for batches, sets in ((1, 1), (1, SETS), (16, 1)):
        # By kernel; the default choice comes first.
        splits = {"hopper_bf16_128_few": 16, "decode_bf16_128": 32}
        if batches > 1:
            splits = {"decode_bf16_128": 2, "hopper_bf16_128_few": 1}
        for page in (None, 64, 16):
            where = f"pages of {page} " if page else ""
            work = f"attention bf16 B {batches} H {HEADS}/{KV_HEADS} D {d} causal {where}1 x {s}"
            work += ", other keys in each call" if sets > 1 else ""
            if not wants(work):
                continue
            sides = {name: [] for name in splits}
            for _ in range(sets):
                q, k, v = random(batches, HEADS, 1, d), *(random(batches, KV_HEADS, s, d) for _ in range(2))
                given, table = (k, v), None
                if page:
                    order = torch.randperm(batches * s // page, device="cuda")
                    table = order.reshape(batches, -1).int().contiguous()
                    given = [in_pages(tensor, page, order) for tensor in (k, v)]
                for name, of_side in sides.items():
                    both = kernels[name], kernels["combine_bf16"]
                    rows = 64 if name.startswith("hopper") else 16
                    run, o = decode(*both, q, *given, rows, splits[name], table)
                    run()
                    expect(f"{name}, {work}", o, q, k, v, True)
                    of_side.append(run)
            amount = 2e-9 * 2 * batches * KV_HEADS * s * d
            yield work, amount, "GB/s", {name: in_graph(runs, 16) for name, runs in sides.items()}


def several_tokens(kernels, wants):
    """Several query tokens on a cache, with TMA and `wgmma`: the chosen number of splits beside twice and half as many."""
    d, name = 128, "hopper_bf16_128_few"
    cells = [(1, 8192, tokens, 16, 8) for tokens in (1, 2, 4, 8)]
    cells += [(1, 8192, 16, 8, 16), (2, 4096, 16, 4, 8), (4, 2048, 16, 2, 4), (8, 4096, 8, 1, 2)]
    for (batches, s, tokens, chosen, other), sets in itertools.product(cells, (1, SETS)):
        work = f"attention bf16 B {batches} H {HEADS}/{KV_HEADS} D {d} causal {tokens} x {s}, splits"
        work += ", other keys in each call" if sets > 1 else ""
        if not wants(work):
            continue
        sides = {f"{name}, {splits} splits": [] for splits in (chosen, other)}
        for _ in range(sets):
            q, k, v = random(batches, HEADS, tokens, d), *(random(batches, KV_HEADS, s, d) for _ in range(2))
            for splits, of_side in zip((chosen, other), sides.values()):
                run, o = decode(kernels[name], kernels["combine_bf16"], q, k, v, 64, splits)
                run()
                expect(f"{name}, {work}", o, q, k, v, True)
                of_side.append(run)
        amount = 2e-9 * 2 * batches * KV_HEADS * s * d
        yield work, amount, "GB/s", {side: in_graph(runs, 16) for side, runs in sides.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with moye_attention.sm_80.ptx and moye_attention.sm_90a.ptx")
    parser.add_argument("--csv", help="append rows to this file")
    parser.add_argument("--only", action="append", default=[], help="cases whose work or kernel contains this string")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.cuda.set_stream(torch.cuda.Stream())
    kernels = Kernels(options.folder)
    card, date = torch.cuda.get_device_name().removeprefix("NVIDIA "), datetime.date.today().isoformat()
    command = f"benches/peers/kernels.py, PyTorch {torch.__version__}, medians of {options.rounds} rounds"

    def wants(text):
        return not options.only or any(only in text for only in options.only)

    rows = []
    of_8_bits = [] if of_e4m3 is None else [prompts_of_e4m3]
    cases = [prompts, *of_8_bits, decoding, several_tokens]
    for work, amount, unit, sides in itertools.chain.from_iterable(make(kernels, wants) for make in cases):
        times, mhz = in_turn(sides, options.rounds)
        (ours, time), (peer, of_peer) = times.items()
        rates = [amount / (1e-3 * time), amount / (1e-3 * of_peer)]
        note = f"{ours}: {1e3 * time:.1f} us; {peer}: {1e3 * of_peer:.1f} us"
        rows.append([date, card, work, *(f"{rate:.0f}" for rate in rates), peer, unit, f"{rates[0] / rates[1]:.2f}", mhz, command, note])
        print(f"{work}: {rates[0]:.0f} {unit}, {rates[1]:.0f} ({peer}), {rates[0] / rates[1]:.2f}; {mhz} MHz; {note}", flush=True)
    if options.csv:
        with open(options.csv, "a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(([COLUMNS] if file.tell() == 0 else []) + rows)


if __name__ == "__main__":
    main()
