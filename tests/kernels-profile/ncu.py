#!/usr/bin/env python3
"""Compares a GPU's counters with the simulator's profile: `ncu.py target/debug/profiled [ncu]`.

Runs `profiled expect`, then `profiled launch` under ncu, and prints a row a kernel and counter with both figures and `equal` or
`DIFFERS`. Counters that the GPU does not have are named and left out. Ends with 1 where a figure differs.
"""
import csv
import io
import subprocess
import sys


def main():
    program = sys.argv[1]
    ncu = sys.argv[2] if len(sys.argv) > 2 else "ncu"
    expected = list(csv.DictReader(io.StringIO(run([program, "expect"]))))
    counters = sorted({row["counter"] for row in expected})
    known = run([ncu, "--query-metrics"])
    names = {line.split()[0] for line in known.splitlines() if line.strip()}
    missing = [counter for counter in counters if counter.rsplit(".", 1)[0] not in names]
    for counter in missing:
        print(f"# this GPU has no counter {counter}")
    counters = [counter for counter in counters if counter not in missing]
    text = run([ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(counters), program, "launch"])
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    measured = {row["Kernel Name"].split("(")[0]: row for row in csv.DictReader(lines[start:])}
    writer = csv.writer(sys.stdout)
    writer.writerow(["kernel", "counter", "expected", "measured", "verdict"])
    differ = 0
    for row in expected:
        if row["counter"] in missing:
            continue
        found = measured.get(row["kernel"], {}).get(row["counter"], "").replace(",", "")
        equal = found != "" and float(found) == float(row["expected"])
        differ += not equal
        writer.writerow([row["kernel"], row["counter"], row["expected"], found, "equal" if equal else "DIFFERS"])
    print(f"# {differ} of {len(expected)} differ")
    return 1 if differ else 0


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


sys.exit(main())
