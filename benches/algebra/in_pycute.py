"""The requests of main.rs in NVIDIA's pycute, in ns each. It comes with the CUTLASS sources (python/pycute) and with
PyPI's package nvidia-cutlass, of which 4.2.0 was measured."""

import timeit

from pycute import (Layout, complement, composition, logical_product, make_layout, product, right_inverse,
                    zipped_divide)


def raked_product(block, tiler):
    both = logical_product(block, tiler)
    return make_layout(*(make_layout(both[1][i], both[0][i]) for i in range(len(block))))


def thread_value_layout(threads, values):
    places = raked_product(threads, values)
    shape = Layout((product(threads.shape), product(values.shape)))
    return composition(right_inverse(places), shape)


A, B = Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))
TILE = Layout((2, 4), (1, 6))
MATRIX = Layout((4096, 4096), (4096, 1))
THREADS, VALUES = Layout((16, 8), (8, 1)), Layout((1, 4))
TV = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 256)))

for name, request in {
    "composition_of_layouts": lambda: composition(A, B),
    "complement_of_a_tile": lambda: complement(TILE, 192),
    "zipped_divide_of_a_matrix": lambda: zipped_divide(MATRIX, (128, 64)),
    "thread_value_layout": lambda: thread_value_layout(THREADS, VALUES),
    "evaluation": lambda: TV(77),
}.items():
    times = timeit.repeat(request, number=2000, repeat=7)
    print(f"{name:28} {sorted(times)[3] / 2000 * 1e9:10.0f} ns")
