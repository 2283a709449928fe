"""Measures the peak rate of `mma.sync` of f64: a loop of one instruction on accumulators in registers, without memory.

    python benches/peers/instructions.py [--csv FILE] [--rounds N]

The driver compiles the PTX, so that it needs no package but PyTorch. The CSV has the columns of docs/results.
"""

import argparse
import csv
import ctypes
import datetime
import statistics
from dataclasses import dataclass

import torch
from clock import clock

# Accumulators of a warp: enough to hide the latency of an instruction.
CHAINS = 8
WARPS = 8
ITERATIONS = 2048
COLUMNS = ["date", "card", "work", "moye", "peer", "peer_name", "unit", "ratio", "mhz", "command", "note"]

PTX = """.version 7.8
.target sm_90
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 count)
{{
.reg .pred %again;
.reg .u32 %thread, %left;
.reg .u64 %to;
.reg .f64 %sum;
.reg .f64 {registers};
mov.u32 %thread, %tid.x;
ld.param.u32 %left, [count];
ld.param.u64 %to, [out];
{values}
LOOP:
{instructions}
sub.u32 %left, %left, 1;
setp.ne.u32 %again, %left, 0;
@%again bra LOOP;
mov.f64 %sum, 0d0000000000000000;
{sums}
setp.eq.f64 %again, %sum, 0d3FF3C0CA428C59FB;
@%again st.global.f64 [%to], %sum;
ret;
}}
"""


@dataclass
class Instruction:
    """An `mma.sync` of f64: its shape, and the registers of a lane for A, B and the accumulator."""

    m: int
    n: int
    k: int
    a: int
    b: int
    c: int

    @property
    def name(self):
        return f"m{self.m}n{self.n}k{self.k}"

    def ptx(self):
        """A kernel that issues the instruction on `CHAINS` accumulators in turn."""
        a, b = ([f"%{operand}{i}" for i in range(count)] for operand, count in (("a", self.a), ("b", self.b)))
        chains = [[f"%c{chain}_{i}" for i in range(self.c)] for chain in range(CHAINS)]
        sums = sum(chains, [])

        def vector(names):
            return "{" + ", ".join(names) + "}"

        return PTX.format(
            registers=", ".join(a + b + sums),
            # Derived from the thread's index, so that the assembler cannot compute the result.
            values="\n".join(f"cvt.rn.f64.u32 {name}, %thread;" for name in a + b + sums),
            instructions="\n".join(
                f"mma.sync.aligned.{self.name}.row.col.f64.f64.f64.f64 {vector(c)}, {vector(a)}, {vector(b)}, {vector(c)};" for c in chains
            ),
            # A condition that is never true, which the assembler does not know.
            sums="\n".join(f"add.f64 %sum, %sum, {name};" for name in sums),
        )


INSTRUCTIONS = [
    Instruction(8, 8, 4, 1, 1, 2),
    Instruction(16, 8, 4, 2, 1, 4),
    Instruction(16, 8, 8, 4, 2, 4),
    Instruction(16, 8, 16, 8, 4, 4),
]


class Driver:
    """The functions of the driver that PyTorch does not offer."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: CUDA error {code}")

    def kernel(self, ptx):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"loop")
        return function

    def launch(self, function, blocks, out):
        values = ctypes.c_uint64(out.data_ptr()), ctypes.c_uint32(ITERATIONS)
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.call("cuLaunchKernel", function, blocks, 1, 1, 32 * WARPS, 1, 1, 0, stream, arguments, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", help="the file to write")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    properties = torch.cuda.get_device_properties(0)
    blocks = 8 * properties.multi_processor_count
    driver, mhz, out = Driver(), clock(), torch.empty(1, device="cuda", dtype=torch.float64)
    kernels = {instruction.name: (instruction, driver.kernel(instruction.ptx())) for instruction in INSTRUCTIONS}
    times, clocks = {name: [] for name in kernels}, {name: [] for name in kernels}
    for round_ in range(options.rounds + 1):
        for name, (_, function) in kernels.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            driver.launch(function, blocks, out)
            end.record()
            now = mhz()
            end.synchronize()
            # The first round compiles and warms up.
            if round_:
                times[name].append(start.elapsed_time(end) * 1e-3)
                clocks[name].append(now)
    card = torch.cuda.get_device_name().removeprefix("NVIDIA ")
    rows = []
    for name, (instruction, _) in kernels.items():
        products = instruction.m * instruction.n * instruction.k * CHAINS * WARPS * ITERATIONS * blocks
        rate = 2e-12 * products / statistics.median(times[name])
        known = [now for now in clocks[name] if now is not None]
        at = f"{statistics.median(known):.0f}" if known else ""
        rows.append([datetime.date.today().isoformat(), card, f"mma.sync {name} of f64, alone", f"{rate:.1f}", "", "", "TFLOP/s", "", at])
        print(f"{name}: {rate:.1f} TFLOP/s at {at or 'an unknown number of'} MHz", flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            note = f"{CHAINS} accumulators a warp, {WARPS} warps a block"
            writer.writerows([*row, "benches/peers/instructions.py", note] for row in rows)


if __name__ == "__main__":
    main()
