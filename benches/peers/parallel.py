"""PyTorch's side of `moye bench parallel`: products beside NCCL's collectives, and PyTorch's
operators of symmetric memory, one process a GPU. Each sample of ten calls, of a hundred with few
rows, is after a rest, as there; medians of the samples, of rank 0.

    python3 benches/peers/parallel.py
"""

import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

LARGE = ((4096, 8192, 8192), (8192, 8192, 8192), (16384, 16384, 16384))
FEW = ((64, 8192, 8192), (1, 8192, 8192))
# Operators of symmetric memory, after a product of few rows.
SUMS = ("one_shot_all_reduce", "two_shot_all_reduce_", "multimem_all_reduce_")
CALLS, SAMPLES, REST = 10, 5, 0.1


def bench(call, calls=CALLS):
    for _ in range(3):
        call()
    times = []
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        time.sleep(REST)
        dist.barrier()
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / calls * 1e3)
    return sorted(times)[len(times) // 2]


def random(*shape):
    return torch.rand(*shape, device="cuda", dtype=torch.bfloat16) * 2 - 1


def fused(form, *operands):
    import torch.distributed._symmetric_memory as symmetric

    group = dist.group.WORLD.group_name
    symmetric.enable_symm_mem_for_group(group)
    if form == "AllGather":
        return lambda: torch.ops.symm_mem.fused_all_gather_matmul(operands[0], [operands[1]], 0, group)
    return lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(*operands, "sum", 0, group)


def summed(operator, a, b):
    """The product in symmetric memory, and an operator that sums it over the ranks; `None` if the
    GPUs lack it."""
    import torch.distributed._symmetric_memory as symmetric

    group = dist.group.WORLD.group_name
    c = symmetric.empty(a.shape[0], b.shape[1], device="cuda", dtype=torch.bfloat16)
    handle = symmetric.rendezvous(c, group)
    if operator == "multimem_all_reduce_" and not handle.multicast_ptr:
        return None

    def call():
        torch.mm(a, b, out=c)
        return getattr(torch.ops.symm_mem, operator)(c, "sum", group)

    return call


def main(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))

    def line(*values):
        if rank == 0:
            print(*values, sep=",", flush=True)

    line("form", "m", "n", "k", "product alone us", "with NCCL us", "fused us", *(f"{name} us" for name in SUMS))
    for m, n, k in LARGE:
        a, b = random(m // world, k), random(n // world, k).t()
        whole = torch.empty(m, k, device="cuda", dtype=torch.bfloat16)

        def gathered():
            dist.all_gather_into_tensor(whole, a)
            return torch.mm(whole, b)

        gathered()
        alone = bench(lambda: torch.mm(whole, b))
        line("AllGather", m, n, k, f"{alone:.0f}", f"{bench(gathered):.0f}", f"{bench(fused('AllGather', a, b)):.0f}")
    for m, n, k in LARGE:
        a, b = random(m, k // world), random(n, k // world).t()
        c = torch.empty(m // world, n, device="cuda", dtype=torch.bfloat16)
        alone = bench(lambda: torch.mm(a, b))
        with_nccl = bench(lambda: dist.reduce_scatter_tensor(c, torch.mm(a, b)))
        line("ReduceScatter", m, n, k, f"{alone:.0f}", f"{with_nccl:.0f}", f"{bench(fused('ReduceScatter', a, b)):.0f}")
    for m, n, k in FEW:
        a, b = random(m, k // world), random(n, k // world).t()
        alone = bench(lambda: torch.mm(a, b), 10 * CALLS)
        with_nccl = bench(lambda: dist.all_reduce(torch.mm(a, b)), 10 * CALLS)
        calls = [summed(operator, a, b) for operator in SUMS]
        sums = [f"{bench(call, 10 * CALLS):.1f}" if call else "" for call in calls]
        line("AllReduce", m, n, k, f"{alone:.1f}", f"{with_nccl:.1f}", "", *sums)
    tokens, hidden, inner = 4096, 8192, 28672
    x, up, down = random(tokens // world, hidden), random(inner // world, hidden).t(), random(hidden, inner // world).t()
    whole, z = (torch.empty(rows, hidden, device="cuda", dtype=torch.bfloat16) for rows in (tokens, tokens // world))

    def feed_forward():
        dist.all_gather_into_tensor(whole, x)
        dist.reduce_scatter_tensor(z, torch.mm(torch.mm(whole, up), down))

    gather, group = fused("AllGather", x, up), dist.group.WORLD.group_name

    def fused_feed_forward():
        y = gather()[1][0]
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(y, down, "sum", 0, group)

    times = bench(feed_forward), bench(fused_feed_forward)
    line("feed-forward", tokens, hidden, inner, "", *(f"{time:.0f}" for time in times))
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    mp.spawn(main, args=(count,), nprocs=count)
