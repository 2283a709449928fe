"""Products of several ranks on the simulator, one thread or process each, against float64."""

import os
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_close, operand

import moye


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def ranks(world, act):
    """The result of each rank."""
    address = f"127.0.0.1:{free_port()}"

    def rank(number):
        return act(moye.parallel.Group(number, world, address, device="sim", timeout=20))

    return threads_of(world, rank)


def threads_of(world, rank):
    """What `rank` returns or raises for each number, on a thread each."""
    results = [None] * world

    def run(number):
        try:
            results[number] = rank(number)
        except Exception as error:  # noqa: BLE001 - shown by the main thread
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("form", ["all_gather", "reduce_scatter", "all_reduce"])
def test_each_form_is_the_product_of_all_ranks(form):
    m, n, k, shards = 5, 8, 16, [2, 3]
    rows = shards if form == "all_gather" else [m, m]
    a = [operand((rows[rank], k), "bfloat16", rank) for rank in range(2)]
    b = [operand((n, k), "bfloat16", 2 + rank) for rank in range(2)]

    def act(group):
        product = moye.parallel.ParallelMatmul(group, form, (m, n, k), shards=shards)
        assert "2 ranks" in product.explain()
        return product(a[group.rank], b[group.rank])

    exact_a, exact_b = [x.astype(np.float64) for x in a], [x.astype(np.float64) for x in b]
    total = sum(x @ y.T for x, y in zip(exact_a, exact_b)) if form != "all_gather" else None
    for rank, result in enumerate(ranks(2, act)):
        if form == "all_gather":
            expected = np.concatenate(exact_a) @ exact_b[rank].T
        else:
            expected = total[2 * rank : 2 + 3 * rank] if form == "reduce_scatter" else total
        assert not isinstance(result, Exception), result
        assert_close(result, expected)


def test_what_does_not_fit_is_refused_with_what_it_must_be():
    def act(group):
        product = moye.parallel.ParallelMatmul(group, "all_reduce", (4, 8, 16))
        with pytest.raises(ValueError, match="a has shape .3, 16., and must have .4, 16."):
            product(operand((3, 16), "bfloat16"), operand((8, 16), "bfloat16"))
        with pytest.raises(TypeError, match="elements of float32"):
            product(operand((4, 16), "float32"), operand((8, 16), "bfloat16"))
        with pytest.raises(ValueError, match="form is .sum."):
            moye.parallel.ParallelMatmul(group, "sum", (4, 8, 16))
        return True

    assert ranks(1, act) == [True]


def test_a_rank_that_ends_is_named_by_the_others():
    def act(group):
        if group.rank == 1:
            return True
        with pytest.raises(RuntimeError, match="rank 1 ends its group"):
            moye.parallel.ParallelMatmul(group, "all_reduce", (4, 8, 16))
        return True

    assert ranks(2, act) == [True, True]


def processes(*arguments):
    """The exit code and the output of each of two ranks, started as `torchrun` does."""
    port = free_port()

    def start(rank):
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        return subprocess.Popen(
            [sys.executable, Path(__file__).with_name("rank.py"), *arguments],
            env=os.environ | {name: str(value) for name, value in variables.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    started = [start(rank) for rank in range(2)]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, output) for process, output in zip(started, outputs)]


@pytest.mark.parametrize("way", ["environment", "torch"])
def test_ranks_in_processes_compute_each_form_and_name_a_rank_that_ends(way):
    if way == "torch":
        distributed = pytest.importorskip("torch.distributed", reason="PyTorch is not installed")
        if not distributed.is_available() or not distributed.is_gloo_available():
            pytest.skip("PyTorch has no gloo")
    for code, output in processes(way):
        assert code == 0 and "all forms are right" in output, output
    first, second = processes(way, "ends")
    assert second[0] == 3 and first[0] == 1, (first, second)
    assert "rank 1 has left the group: it has ended" in first[1], first[1]


class ProcessGroup:
    """A stand-in for a process group of `torch.distributed`, with threads as its ranks."""

    def __init__(self, ranks):
        # The numbers in the group of all.
        self.ranks, self.sent, self.meeting = ranks, None, threading.Barrier(len(ranks))


class TorchDistributed(types.ModuleType):
    """The part of `torch.distributed` that a group uses. A thread sets its number as `own.rank`."""

    def __init__(self, world):
        super().__init__("torch.distributed")
        self.group = types.SimpleNamespace(WORLD=ProcessGroup(range(world)))
        self.own = threading.local()

    def get_rank(self, group):
        return group.ranks.index(self.own.rank)

    def get_world_size(self, group):
        return len(group.ranks)

    def get_global_rank(self, group, rank):
        return group.ranks[rank]

    def broadcast_object_list(self, objects, src, group):
        assert src in group.ranks and self.own.rank in group.ranks
        if self.own.rank == src:
            group.sent = list(objects)
        group.meeting.wait(10)
        objects[:] = group.sent
        group.meeting.wait(10)


@pytest.fixture
def distributed(monkeypatch):
    """A stand-in for PyTorch without GPUs, and for its `torch.distributed` of four ranks."""
    torch = types.ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    torch.distributed = TorchDistributed(4)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch.distributed)
    return torch.distributed


@pytest.mark.parametrize("master", [None, "localhost", "127.0.0.1", "::1"])
def test_ranks_of_torch_distributed_and_of_a_part_of_them_are_those_of_the_group(distributed, monkeypatch, master):
    if master == "::1":
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("this host has no IPv6")
    if master is None:
        monkeypatch.delenv("MASTER_ADDR", raising=False)
    else:
        monkeypatch.setenv("MASTER_ADDR", master)
    parts = [ProcessGroup([3, 1]), ProcessGroup([0, 2])]
    a = [operand((4, 16), "bfloat16", rank) for rank in range(4)]
    b = operand((8, 16), "bfloat16", 4)

    def rank(number):
        distributed.own.rank = number
        products = []
        for of in [None, next(part for part in parts if number in part.ranks)]:
            group = moye.parallel.Group.from_torch(of, timeout=20)
            ranks = list(range(4)) if of is None else of.ranks
            assert (group.world, ranks[group.rank]) == (len(ranks), number)
            product = moye.parallel.ParallelMatmul(group, "all_gather", (4 * len(ranks), 8, 16))
            products.append(product(a[number], b))
            group.wait()
        return products

    exact = [x.astype(np.float64) @ b.astype(np.float64).T for x in a]
    for number, result in enumerate(threads_of(4, rank)):
        assert not isinstance(result, Exception), result
        part = next(part for part in parts if number in part.ranks)
        for found, ranks in zip(result, [range(4), part.ranks]):
            assert_close(found, np.concatenate([exact[rank] for rank in ranks]))


def test_an_address_without_a_port_and_more_ranks_than_a_group_has_are_refused_at_once():
    for address in ["localhost", "localhost:0", "localhost:70000", ":29600"]:
        with pytest.raises(RuntimeError, match="must be HOST:PORT with a port from 1 to 65535"):
            moye.parallel.Group(1, 2, address, device="sim")
    with pytest.raises(RuntimeError, match="rank 1 cannot connect to 0.0.0.0:29600"):
        moye.parallel.Group(1, 2, "0.0.0.0:29600", device="sim")
    with pytest.raises(RuntimeError, match="9 ranks; a group has 1 to 8"):
        moye.parallel.Group(1, 9, "localhost:29600", device="sim")
    with pytest.raises(RuntimeError, match="rank 2 of 2"):
        moye.parallel.Group(2, 2, "localhost:29600", device="sim")


def test_a_wait_without_a_stream_is_for_that_of_the_last_call():
    class Recorded:
        def __init__(self):
            self.waits = []

        def wait(self, stream):
            self.waits.append(stream)

        def run(self, a, b, out, stream):
            pass

    group, product = object.__new__(moye.parallel.Group), object.__new__(moye.parallel.ParallelMatmul)
    group._group, group._stream = Recorded(), None
    product._group, product._product, product._shape, product._dtype = group, Recorded(), (4, 8), "float16"
    group.wait()
    product(np.zeros((4, 16), "float16"), np.zeros((8, 16), "float16"), stream=7)
    group.wait()
    group.wait(5)
    assert group._group.waits == [None, 7, 5]
