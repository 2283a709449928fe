"""Kernels of a ``.ptx`` file, launched by name."""

import os

from . import _moye
from ._arrays import library, on_device_of


class Module:
    """The kernels of a PTX file: see :func:`load`."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self._module = _moye.PtxModule(os.fspath(path), file.read())

    @property
    def kernels(self):
        """The parameters of each kernel, as the PTX declares them:
        ``{"saxpy": (".u64", ".u64", ".f32", ".u32")}``."""
        return self._module.kernels()

    def launch(self, kernel, blocks, threads, *arguments, shared_bytes=0, cluster=1, device=None, stream=None):
        """Launches a kernel, without waiting for it.

        Nothing checks that the kernel stays within its arrays, nor that it has their element types.

        Args:
            kernel: its name.
            blocks, threads: blocks of the grid, threads of a block; an integer, or up to three.
            arguments: one for each parameter: an array on a GPU (any with ``__dlpack__``) for an
                address, a number, or bytes for a struct.
            shared_bytes: dynamic shared memory of a block.
            cluster: blocks of a cluster, as ``blocks``.
            device, stream: as for :func:`matmul`; without arrays, on the device's default stream.

        Raises:
            ValueError: a number out of range, no such kernel, arrays on the host, or the simulator,
                which runs no PTX.
            TypeError: an argument that does not fit its parameter.
            DeviceError: the driver refuses the PTX or the launch.
        """
        arrays = [argument for argument in arguments if hasattr(argument, "__dlpack__")]
        first = arrays[0] if arrays else None
        if first is not None:
            stream = library(first, "an argument").stream(first, stream)

        def passed(number, argument):
            if not hasattr(argument, "__dlpack__"):
                return argument
            name = f"argument {number} of {kernel}"
            return library(argument, name).operand(argument, name, stream)

        given = [passed(number, argument) for number, argument in enumerate(arguments)]
        with on_device_of(first):
            self._module.launch(
                kernel, blocks, threads, given, shared_bytes=shared_bytes, cluster=cluster, device=device, stream=stream
            )


def load(path):
    """The kernels of a PTX file, from any compiler.

    >>> saxpy = moye.load("saxpy.ptx")  # doctest: +SKIP
    >>> saxpy.launch("saxpy", n // 256, 256, x, y, 2.0, n)  # doctest: +SKIP

    A kernel is compiled by the driver at its first launch, in a GPU's first launch of the file. The
    simulator runs no PTX.
    """
    return Module(path)
