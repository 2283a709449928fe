#!/usr/bin/env python3
"""What race detection costs: `races.py target/debug/moye > docs/results/DATE-cpu-races.csv`.

Runs operations of the program on the simulator, with race detection and without, in turn. Prints the processor time of each, in
seconds, without what the program takes for a matrix of a few elements: the least of some rounds. Ends with 1 where one takes more
than 3 times as long with race detection.
"""
import os
import platform
import random
import struct
import subprocess
import sys
import tempfile

ROUNDS = 5
MOST = 3.0

# Work, kernel's kind, arguments of the program, extents of its files, and those of files of a few
# elements.
WORKS = [
    ("f32 product 256x256x256", "FMA, cp.async", "matmul A B", "f4", [(256, 256), (256, 256)]),
    ("f16 product 768x768x768", "wgmma, TMA", "matmul A B", "f2", [(768, 768), (768, 768)]),
    ("f16 product 505x507x509", "realignment, wgmma, TMA", "matmul A B", "f2", [(505, 509), (509, 507)]),
    ("tf32 product 512x512x512", "wgmma, TMA", "matmul A B --tf32", "f4", [(512, 512), (512, 512)]),
    ("f64 product 256x256x256", "mma.sync, cp.async", "matmul A B", "f8", [(256, 256), (256, 256)]),
    ("i8 product 768x768x768", "wgmma, TMA", "matmul A B", "i1", [(768, 768), (768, 768)]),
    ("i8 product 256x256x256, tile 64x64", "mma.sync, ldmatrix, cp.async", "matmul A B --tile 64x64", "i1", [(256, 256), (256, 256)]),
    ("f16 attention 4x256x256x64", "wgmma, TMA", "attention A A A", "f2", [(1, 4, 256, 64)]),
    ("f16 attention 4x32x512x64", "wgmma, TMA", "attention A B B", "f2", [(1, 4, 32, 64), (1, 4, 512, 64)]),
    ("f32 transpose 2048x2048", "global memory", "transpose A", "f4", [(2048, 2048)]),
]


def main():
    program = os.path.abspath(sys.argv[1])
    print("date,machine,work,kind,with_s,without_s,ratio,command")
    too_slow = 0
    for work, kind, arguments, dtype, extents in WORKS:
        with tempfile.TemporaryDirectory() as folder:
            command = [program] + arguments.split() + ["--device", "sim", "--force", "-o", "out.npy"]
            small = [tuple(min(extent, 64 if len(e) == 4 and at == 3 else 8) for at, extent in enumerate(e)) for e in extents]
            times = {}
            for races in ("1", "0"):
                times[races] = []
            write(folder, dtype, small)
            start = min(seconds(folder, command, "0") for _ in range(ROUNDS))
            write(folder, dtype, extents)
            for _ in range(ROUNDS):
                for races in times:
                    times[races].append(seconds(folder, command, races) - start)
        with_races, without = min(times["1"]), min(times["0"])
        ratio = with_races / without
        too_slow += ratio > MOST
        machine = f"{os.cpu_count()} cores {platform.machine()}"
        date = subprocess.run(["date", "+%F"], capture_output=True, text=True).stdout.strip()
        print(
            f'{date},{machine},"{work}","{kind}",{with_races:.3f},{without:.3f},{ratio:.2f},moye {arguments} --device sim',
            flush=True,
        )
    return 1 if too_slow else 0


def write(folder, dtype, extents):
    """Matrices of small integers, as files of NumPy."""
    draw = random.Random(0)
    for name, extent in zip("AB", extents):
        count = 1
        for length in extent:
            count *= length
        code = {"f2": "e", "f4": "f", "f8": "d", "i1": "b"}[dtype]
        some = struct.pack(f"<4096{code}", *(draw.randint(-4, 4) for _ in range(4096)))
        size = struct.calcsize(code) * count
        header = f"{{'descr': '{'|' if dtype == 'i1' else '<'}{dtype}', 'fortran_order': False, 'shape': {extent}, }}"
        header += " " * (-(len(header) + 11) % 64) + "\n"
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            file.write((some * (size // len(some) + 1))[:size])


def seconds(folder, command, races):
    """The processor time of a run."""
    environment = dict(os.environ, MOYE_SIM_RACES=races)
    child = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}:\n{error.decode()}")
    return usage.ru_utime


sys.exit(main())
