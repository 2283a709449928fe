#!/usr/bin/env python3
"""The cost of race detection: `races.py target/debug/moye target/debug/examples/race_cost > docs/results/DATE-cpu-races.csv`.

Runs operations of the program on the simulator, alternately with and without race detection. Prints the CPU time of each in
seconds, less that of the program on a matrix of a few elements: the minimum of some rounds. Rows of kernels that only access
memory are from sim/examples/race_cost.rs, with the nanoseconds per access. Exits with 1 if a row takes more than 3 times as long
with race detection and has no note that says why.
"""
import csv
import os
import platform
import random
import struct
import subprocess
import sys
import tempfile

ROUNDS = 5
MOST = 3.0

# Why rows may exceed the limit, and which changes did not help.
EACH_WORD_ONCE = (
    "each word of global memory is touched once, so that its record of 32 bytes is new: {new}; tried: a spin lock for each page of "
    "records in place of a mutex, pages found without a search, one record for the lanes of an instruction: all are in, and a "
    "record remains eight times as large as its word"
)

# Operation, kind of the kernel, arguments of the program, extents of its files, and those of small
# files.
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
NOTES = {"f32 transpose 2048x2048": EACH_WORD_ONCE.format(new="reads of A, writes of B")}
# Kernels of sim/examples/race_cost.rs: operation, kind and note.
EXAMPLES = {
    "transpose": (
        "u32 transpose 2048x2048 by plain intrinsics",
        "global and shared memory",
        EACH_WORD_ONCE.format(new="reads of A, writes of B; no arithmetic stands beside them"),
    ),
    "copy": (
        "u32 copy 2048x2048 by plain intrinsics",
        "global memory",
        EACH_WORD_ONCE.format(new="reads of A, writes of B; no arithmetic stands beside them"),
    ),
    "sgemm": ("f32 product 512x512x256 by scalar loads", "shared memory, FMA", ""),
}


def main():
    program, example = (os.path.abspath(path) for path in sys.argv[1:3])
    table = csv.writer(sys.stdout, lineterminator="\n")
    columns = ["date", "machine", "work", "kind", "with_s", "without_s", "ratio", "with_ns", "without_ns", "command", "note"]
    table.writerow(columns)
    date = subprocess.run(["date", "+%F"], capture_output=True, text=True).stdout.strip()
    machine = f"{os.cpu_count()} cores {platform.machine()}"
    too_slow = 0

    def row(work, kind, times, each, command, note):
        nonlocal too_slow
        with_races, without = times
        too_slow += with_races / without > MOST and not note
        figures = [f"{with_races:.3f}", f"{without:.3f}", f"{with_races / without:.2f}"]
        table.writerow([date, machine, work, kind, *figures, *each, command, note])
        sys.stdout.flush()

    for work, kind, arguments, dtype, extents in WORKS:
        times = measured(program, arguments, dtype, extents)
        row(work, kind, times, ("", ""), f"moye {arguments} --device sim", NOTES.get(work, ""))
    printed = subprocess.run([example], capture_output=True, text=True, check=True).stdout
    for name, with_races, without, _, *each in csv.reader(printed.splitlines()):
        work, kind, note = EXAMPLES[name]
        times = (float(with_races), float(without))
        row(work, kind, times, each, "cargo run -p moye-sim --example race_cost", note)
    return 1 if too_slow else 0


def measured(program, arguments, dtype, extents):
    """The CPU time of an operation with and without race detection."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program] + arguments.split() + ["--device", "sim", "--force", "-o", "out.npy"]
        small = [tuple(min(extent, 64 if len(e) == 4 and at == 3 else 8) for at, extent in enumerate(e)) for e in extents]
        times = {"1": [], "0": []}
        write(folder, dtype, small)
        start = min(seconds(folder, command, "0") for _ in range(ROUNDS))
        write(folder, dtype, extents)
        for _ in range(ROUNDS):
            for races in times:
                times[races].append(seconds(folder, command, races) - start)
    return min(times["1"]), min(times["0"])


def write(folder, dtype, extents):
    """Writes matrices of small integers as NumPy files."""
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
    """The CPU time of a run."""
    environment = dict(os.environ, MOYE_SIM_RACES=races)
    child = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}:\n{error.decode()}")
    return usage.ru_utime


sys.exit(main())
