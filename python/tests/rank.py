"""A rank of `test_ranks_in_processes_...`, as `torchrun` starts it: multiplies in each form, and
compares with float64. With `torch` its group is that of `torch.distributed`, with `ends` rank 1
ends before the last product."""

import os
import sys

import numpy as np
from helpers import assert_close, operand

import moye

M, N, K, SHARDS = 7, 8, 16, [2, 5]


def group(by_torch):
    if by_torch:
        import torch.distributed as dist

        dist.init_process_group("gloo")
        return moye.parallel.Group.from_torch(device="sim", timeout=60)
    rank, world = (int(os.environ[name]) for name in ["RANK", "WORLD_SIZE"])
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    return moye.parallel.Group(rank, world, address, device="sim", timeout=60)


def multiplied(product, a, b, by_torch):
    """The product of arrays, with tensors of PyTorch if it is there."""
    if not by_torch:
        return product(a, b)
    import torch

    a, b = (torch.from_numpy(x.astype(np.float32)).bfloat16() for x in [a, b])
    result = product(a, b)
    assert isinstance(result, torch.Tensor) and result.dtype == torch.bfloat16
    return result.float().numpy().astype(operand((1,), "bfloat16").dtype)


def main(by_torch, ends):
    ranks = group(by_torch)
    assert ranks.world == 2 and ranks.rank == int(os.environ["RANK"])
    for seed, form in enumerate(["all_gather", "reduce_scatter", "all_reduce"]):
        product = moye.parallel.ParallelMatmul(ranks, form, (M, N, K), shards=SHARDS)
        for call in range(2):
            if ends and ranks.rank == 1 and form == "all_reduce":
                os._exit(3)
            first = 100 * seed + 10 * call
            rows = SHARDS if form == "all_gather" else [M, M]
            a = [operand((rows[rank], K), "bfloat16", first + rank) for rank in range(2)]
            b = [operand((N, K), "bfloat16", first + 2 + rank) for rank in range(2)]
            result = multiplied(product, a[ranks.rank], b[ranks.rank], by_torch)
            ranks.wait()
            exact_a, exact_b = [x.astype(np.float64) for x in a], [x.astype(np.float64) for x in b]
            if form == "all_gather":
                expected = np.concatenate(exact_a) @ exact_b[ranks.rank].T
            else:
                expected = sum(x @ y.T for x, y in zip(exact_a, exact_b))
            if form == "reduce_scatter":
                expected = np.split(expected, [SHARDS[0]])[ranks.rank]
            assert_close(result, expected)
    print("all forms are right")


main("torch" in sys.argv, "ends" in sys.argv)
