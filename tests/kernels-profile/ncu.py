#!/usr/bin/env python3
"""Compares a GPU's counters with the simulator's profile: `ncu.py target/debug/profiled [ncu [expected.csv]]`.

Runs `profiled launch` under ncu and compares with `profiled expect`, or with a file that holds its output. Prints a row for each
kernel and counter that one of them counts: both figures, and `equal`, the reason why they differ, or `DIFFERS`. Rows in which both
figures are 0 are left out, and counted at the end. Counters that the GPU does not have are named and left out. Ends with 1 where a
figure differs from the one that the reason predicts, or no reason is known.

`ncu.py judge result.csv` judges the figures of a file that an earlier run printed.
"""
import csv
import io
import re
import subprocess
import sys

# A launch: 4 blocks of 4 warps.
BLOCKS = 4
WARPS = 16

LDS_BEHIND_COPY = (
    "an H100 counts the first load of shared memory behind cp.async once for each 8 lanes; its wavefronts are those of one"
)
ONE_ADDITION = "ptxas makes one addition of those of a warp to one word: by votes, a population count, a shuffle"
ONE_LOAD = "ptxas makes one load of 16 bytes of three neighbouring ones"
STORE_WAITED = "a store waited for that of another warp, which the GPU counts as a conflict; varies from run to run"
ELECTED = "ptxas elects the lane that issues the copy"
VOTED = "ptxas makes the predicate of the initialisation uniform by two votes"
PREDICATED = "ptxas predicates what one thread does: all warps issue it, one lane executes it"

OPCODE = "sass__inst_executed_per_opcode/"

# Why figures differ: of these kernels and this counter, the figures of the GPU that the reason explains, as a function of ours.
REASONS = [
    (
        "copy_asynchronous copy_words copy_in_groups copy_to_column",
        OPCODE + "LDS",
        lambda ours: [ours + 3 * WARPS],
        LDS_BEHIND_COPY,
    ),
    (
        "copy_to_column",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        lambda ours: [32 * WARPS],
        "lanes in one bank are copied one after the other, and each requests its sector; the profile counts a sector once",
    ),
    ("atomic_one atomic_shared_one", OPCODE + "SHFL", lambda ours: [ours + WARPS], ONE_ADDITION),
    ("atomic_one atomic_shared_one reduce_one", OPCODE + "VOTE+VOTEU", lambda ours: [ours + WARPS], ONE_ADDITION),
    ("atomic_one atomic_shared_one", "sm__inst_executed_pipe_xu.sum", lambda ours: [ours + 3 * WARPS], ONE_ADDITION),
    ("reduce_one", "sm__inst_executed_pipe_xu.sum", lambda ours: [ours + WARPS], ONE_ADDITION),
    ("block_reduction", OPCODE + "LDS", lambda ours: [ours / 3], ONE_LOAD),
    (
        "block_reduction",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        lambda ours: [ours / 3 * 2],
        ONE_LOAD + ", which takes two wavefronts",
    ),
    ("votes", OPCODE + "WARPSYNC", lambda ours: [0], "ptxas drops bar.warp.sync where the warp has not diverged"),
    (
        "named_barriers",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        lambda ours: range(ours + 1, ours + BLOCKS + 1),
        STORE_WAITED,
    ),
    (
        "named_barriers",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        lambda ours: range(1, BLOCKS + 1),
        STORE_WAITED,
    ),
    ("bulk_copy tensor_copy", OPCODE + "VOTE+VOTEU", lambda ours: [3 * WARPS], ELECTED),
    ("bulk_copy", OPCODE + "UBLKCP", lambda ours: [WARPS], PREDICATED),
    ("tensor_copy", OPCODE + "UTMALDG", lambda ours: [WARPS], PREDICATED),
    # The initialisation and the arrival are predicated, not the wait.
    ("bulk_copy tensor_copy", OPCODE + "SYNCS", lambda ours: [ours + 2 * (WARPS - BLOCKS)], PREDICATED),
    ("mbarrier_of_all", OPCODE + "SYNCS", lambda ours: [ours + WARPS - BLOCKS], PREDICATED),
    ("mbarrier_of_all", OPCODE + "VOTE+VOTEU", lambda ours: [2 * WARPS], VOTED),
]


def main():
    if sys.argv[1] == "judge":
        lines = [line for line in open(sys.argv[2]) if not line.startswith("#")]
        return report((row["kernel"], row["counter"], row["ours"], float(row["ncu"])) for row in csv.DictReader(lines))
    program = sys.argv[1]
    ncu = sys.argv[2] if len(sys.argv) > 2 else "ncu"
    expected = open(sys.argv[3]).read() if len(sys.argv) > 3 else run([program, "expect"])
    expected = list(csv.DictReader(io.StringIO(expected)))
    measured = measure(program, ncu, {row["counter"].split("/")[0] for row in expected})
    figures = ((row["kernel"], row["counter"], row["expected"]) for row in expected)
    return report((kernel, counter, ours, figure(measured.get(kernel, {}), counter)) for kernel, counter, ours in figures)


def report(figures):
    """Prints the verdict on each (kernel, counter, ours, found). Gives 1 where a difference is not explained."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["kernel", "counter", "ours", "ncu", "verdict"])
    equal, none, reasons, differ = 0, 0, 0, 0
    for kernel, counter, ours, found in figures:
        if found is None:
            print(f"# no figure of {counter} for {kernel}")
        elif found == int(ours) == 0:
            none += 1
        else:
            verdict = "equal" if found == int(ours) else reason(kernel, counter, int(ours), found)
            equal += verdict == "equal"
            differ += verdict == "DIFFERS"
            reasons += verdict not in ("equal", "DIFFERS")
            writer.writerow([kernel, counter, ours, f"{found:g}", verdict])
    print(f"# {equal} equal, {none} zero in both, {reasons} differ as a reason predicts, {differ} differ")
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


def reason(kernel, counter, ours, found):
    """The reason that predicts the figure that was found, or `DIFFERS`."""
    for kernels, of, predicted, text in REASONS:
        if kernel in kernels.split() and counter == of and found in predicted(ours):
            return text
    return "DIFFERS"


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


sys.exit(main())
