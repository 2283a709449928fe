"""Products of several ranks on the simulator, one thread each, against float64."""

import socket
import threading

import numpy as np
import pytest
from helpers import assert_close, operand

import moye


def ranks(world, act):
    """The result of each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    results = [None] * world

    def rank(number):
        try:
            results[number] = act(moye.parallel.Group(number, world, address, device="sim", timeout=20))
        except Exception as error:  # noqa: BLE001 - shown by the main thread
            results[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(world)]
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
