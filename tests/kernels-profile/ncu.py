#!/usr/bin/env python3
"""Compares a GPU's counters with the simulator's profile: `ncu.py target/debug/profiled [ncu [expected.csv]]`.

Runs `profiled launch` under ncu and compares with `profiled expect`, or with a file that holds its output. Prints a row for each
kernel and counter that one of them counts: both figures, and `equal`, the reason why they differ, or `DIFFERS`. Rows in which both
figures are 0 are left out, and counted at the end. Counters that the GPU does not have are named and left out. Ends with 1 where a
figure differs and no reason is known.
"""
import csv
import fnmatch
import io
import re
import subprocess
import sys

# Why figures differ: kernel, counter, reason. The first that fits counts.
REASONS = [
    (
        "copy_*",
        "*/LDS",
        "an H100 counts the first load of shared memory behind cp.async once for each 8 lanes; its wavefronts "
        "are those of one",
    ),
    (
        "copy_to_column",
        "l1tex__t_sectors_*_op_ld.sum",
        "lanes in one bank are copied one after the other, and each requests its sector; the profile counts "
        "a sector once",
    ),
    (
        "atomic_*",
        "*/SHFL",
        "ptxas makes one addition of those of a warp to one word: by votes, a population count, a shuffle",
    ),
    ("*_one", "*/VOTE+VOTEU", "ptxas makes one addition of those of a warp to one word"),
    ("*_one", "*_pipe_xu.sum", "ptxas makes one addition of those of a warp to one word: its POPC and FLO"),
    ("block_reduction", "*_op_ld.sum", "ptxas makes one load of 16 bytes of three neighbouring ones"),
    ("block_reduction", "*/LDS", "ptxas makes one load of 16 bytes of three neighbouring ones"),
    ("votes", "*/WARPSYNC", "ptxas drops bar.warp.sync where the warp has not diverged"),
    (
        "named_barriers",
        "*_op_st.sum",
        "one store waited for that of another warp, which the GPU counts as a conflict; varies from run to run",
    ),
    (
        "*_copy",
        "*/VOTE+VOTEU",
        "ptxas elects the lane that issues the copy",
    ),
    (
        "*_copy",
        "*inst_executed_per_opcode/[US]*",
        "ptxas predicates what one thread does: all warps issue it, one lane executes it",
    ),
]


def main():
    program = sys.argv[1]
    ncu = sys.argv[2] if len(sys.argv) > 2 else "ncu"
    expected = open(sys.argv[3]).read() if len(sys.argv) > 3 else run([program, "expect"])
    expected = list(csv.DictReader(io.StringIO(expected)))
    measured = measure(program, ncu, {row["counter"].split("/")[0] for row in expected})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["kernel", "counter", "ours", "ncu", "verdict"])
    equal, none, reasons, differ = 0, 0, 0, 0
    for row in expected:
        kernel, counter, ours = row["kernel"], row["counter"], float(row["expected"])
        found = figure(measured.get(kernel, {}), counter)
        if found is None:
            print(f"# no figure of {counter} for {kernel}")
        elif found == ours == 0:
            none += 1
        else:
            verdict = "equal" if found == ours else reason(kernel, counter)
            equal += verdict == "equal"
            differ += verdict == "DIFFERS"
            reasons += verdict not in ("equal", "DIFFERS")
            writer.writerow([kernel, counter, row["expected"], f"{found:g}", verdict])
    print(f"# {equal} equal, {none} zero in both, {reasons} differ for a known reason, {differ} differ")
    return 1 if differ else 0


def measure(program, ncu, counters):
    """The counters of each kernel, by its name."""
    names = {line.split()[0] for line in run([ncu, "--query-metrics"]).splitlines() if line.strip()}
    for counter in sorted(counters):
        if not counter.startswith("sass__") and counter.rsplit(".", 1)[0] not in names:
            print(f"# this GPU has no counter {counter}")
            counters = counters - {counter}
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--print-metric-instances", "details"]
    lines = run(command + ["--metrics", ",".join(sorted(counters)), program, "launch"]).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    return {row["Kernel Name"].split("(")[0]: row for row in csv.DictReader(lines[start:])}


def figure(row, counter):
    """The figure of a counter: `metric`, or `metric/A+B` for the sum of instances A and B. None where there is none."""
    metric, _, instances = counter.partition("/")
    cell = row.get(metric, "")
    if not cell:
        return None
    if not instances:
        return float(cell.replace(",", "").split()[0])
    by_name = {name: float(count.replace(",", "")) for name, count in re.findall(r"([\w.]+): ([\d,]+)", cell)}
    return sum(by_name.get(name, 0.0) for name in instances.split("+"))


def reason(kernel, counter):
    fits = (text for k, c, text in REASONS if fnmatch.fnmatch(kernel, k) and fnmatch.fnmatch(counter, c))
    return next(fits, "DIFFERS")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


sys.exit(main())
