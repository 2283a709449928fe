"""Products whose weights are sharded over several GPUs, with the collective of each.

Each rank is a process with a GPU. With PyTorch the ranks are those of a process group::

    group = moye.parallel.Group.from_torch()
    gather = moye.parallel.ParallelMatmul(group, "all_gather", (m, n, k))
    y = gather(x, weight)  # x: this rank's rows, weight: this rank's (n, k), y: (m, n)
    group.wait()

The group's timeout bounds the waits for other ranks in creating a group, in creating a product, in
the first call of each product, in ``Group.wait`` and at the end of a group. It does not bound
waits of PyTorch and of the driver, such as ``y.cpu()`` and ``torch.cuda.synchronize()``: call
``Group.wait`` before them.
"""

import os
import socket

from . import _moye
from ._arrays import library, on_device_of, operand

__all__ = ["Group", "ParallelMatmul"]


class Group:
    """The ranks that multiply together: this process is one of them.

    Args:
        rank: this rank's number, from 0 on.
        world: the number of ranks.
        address: "HOST:PORT", where rank 0 listens: an address of its host that the other ranks
            reach; that of IPv6 as in "[fd00::1]:29600".
        device: "gpu:N", "sim", or as for :func:`moye.matmul`.
        timeout: how long ranks wait for each other, in seconds, in the calls that the module's
            documentation lists.

    Raises:
        RuntimeError: a rank that does not arrive, two ranks on one GPU; the message names them.
    """

    def __init__(self, rank, world, address, *, device=None, timeout=60.0):
        self.rank, self.world = rank, world
        self._stream = None
        self._group = _moye.ParallelGroup(rank, world, address, device, timeout)

    @classmethod
    def from_torch(cls, group=None, *, device=None, timeout=60.0):
        """The ranks of a process group of ``torch.distributed``, by default all, each on PyTorch's
        current GPU."""
        import torch
        import torch.distributed as dist

        group = group or dist.group.WORLD
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        address = [_free_address() if rank == 0 else None]
        dist.broadcast_object_list(address, src=dist.get_global_rank(group, 0), group=group)
        if device is None:
            device = f"gpu:{torch.cuda.current_device()}" if torch.cuda.is_available() else "sim"
        return cls(rank, world, address[0], device=device, timeout=timeout)

    def explain(self):
        """Whether the ranks reach each other's memory; if not, why."""
        return self._group.explain()

    def wait(self, stream=None):
        """Waits for the work on a stream, by default that of the group's last call, at most for the
        group's timeout. A rank that does not arrive by then is an error that names it."""
        self._group.wait(self._stream if stream is None else stream)


class ParallelMatmul:
    """The product ``a @ b.T`` with weights sharded over the ranks of a group.

    All ranks create the same products in the same order, and call them in the same order.

    Args:
        group: a :class:`Group`.
        form: "all_gather" (``a`` is this rank's rows, the result has all rows and this rank's
            columns), "reduce_scatter" (``a`` has all rows and this rank's K, the result is this
            rank's rows of the sum) or "all_reduce" (the result is the whole sum).
        extents: M, N and K: all rows, the rows of ``b`` on a rank, and the elements of its rows.
        dtype: "bfloat16" or "float16".
        shards: the rows of each rank; by default they differ by one at most.
    """

    def __init__(self, group, form, extents, *, dtype="bfloat16", shards=None):
        m, n, _ = extents
        self._group = group
        own = shards[group.rank] if shards else m // group.world + (group.rank < m % group.world)
        self._shape = (own if form == "reduce_scatter" else m, n)
        dtype = str(dtype).removeprefix("torch.")
        self._product = _moye.ParallelProduct(group._group, form, tuple(extents), dtype, shards)
        self._dtype = dtype

    def explain(self):
        """The kernels, and the bytes that each rank sends."""
        return self._product.explain()

    def __call__(self, a, b, *, out=None, stream=None):
        """The product; on a GPU the call returns before it is computed.

        Args:
            a, b: this rank's operands, rows of K elements.
            out: where the result is written.
            stream: as for :func:`moye.matmul`.

        Returns:
            ``out``, or a new array of the library and on the device of ``a``.
        """
        of = library(a, "a")
        stream = of.stream(a, stream)
        is_new = out is None
        if is_new:
            out = of.empty(self._shape, self._dtype, a)
        in_a, in_b, into = operand(a, "a", stream), operand(b, "b", stream), operand(out, "out", stream)
        with on_device_of(a):
            self._product.run(in_a, in_b, into, stream)
        self._group._stream = stream
        return of.give(out, a) if is_new else out


def _free_address():
    """An address of this host at which nothing listens, on the route to the first rank of all."""
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    family, _, _, _, to = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
    # Connecting a datagram socket selects the route, and sends nothing.
    with socket.socket(family, socket.SOCK_DGRAM) as route:
        route.connect(to)
        host = route.getsockname()[0]
    with socket.socket(family) as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
