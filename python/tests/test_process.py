"""Signals and forks around a call."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from helpers import operand

import moye


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("MOYE_DEVICE", "sim")


def check_product():
    a, b = operand((40, 30), "float32"), operand((30, 20), "float32", 1)
    np.testing.assert_allclose(moye.matmul(a, b), a @ b, rtol=1e-4, atol=1e-5)


def while_interrupted(call):
    """Interrupts `call`, which takes minutes, and returns how long it continued: in CPU time of all
    threads, which other programs do not lengthen, and in wall time."""
    sent = []

    def interrupt():
        sent.extend((time.process_time(), time.monotonic()))
        os.kill(os.getpid(), signal.SIGINT)

    # A shell starts background programs without the handler of the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        ended = time.process_time(), time.monotonic()
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    return ended[0] - sent[0], ended[1] - sent[1]


def test_a_simulation_is_interrupted_and_nothing_is_broken_afterwards():
    x = np.ones((2048, 2048), np.float32)
    out = np.full((2048, 2048), 7.0, np.float32)
    q = np.ones((1, 16, 2048, 64), np.float16)
    for call in (
        lambda: moye.matmul(x, x, out=out),
        lambda: moye.scaled_dot_product_attention(q, q, q),
    ):
        times = [while_interrupted(call) for _ in range(3)]
        # Half a second on one core, and a few hundredths on each other one; uninterrupted, the call
        # would continue for half a minute. Other programs may delay some of the attempts, not all.
        assert all(computed < 0.5 + 0.05 * os.cpu_count() for computed, _ in times), times
        assert any(elapsed < 0.5 for _, elapsed in times), times
        assert (out == 7).all()
        check_product()


def test_an_exception_of_another_handler_ends_a_simulation_too():
    def handler(*_):
        raise TimeoutError("in time")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        x = np.ones((2048, 2048), np.float32)
        with pytest.raises(TimeoutError, match="in time"):
            moye.matmul(x, x)
    finally:
        signal.signal(signal.SIGALRM, before)
    check_product()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_computes_though_its_parent_has():
    check_product()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            check_product()
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status) == 0
    check_product()
