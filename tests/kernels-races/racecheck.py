#!/usr/bin/env python3
"""Who finds what: `racecheck.py target/debug/raced [compute-sanitizer [racecheck,memcheck,synccheck,initcheck]]`.

Runs each kernel with its fault, and without it, under tools of compute-sanitizer on GPU 0, and prints a table in Markdown
beside what the simulator says: the reports of each tool, `-` for none, and `false alarm` where it reports the kernel
without the fault. Ends with 1 where the simulator reports a kernel that is right.
"""
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

SECONDS = 40
AT_ONCE = 16


def main():
    program = sys.argv[1]
    sanitizer = sys.argv[2] if len(sys.argv) > 2 else "compute-sanitizer"
    tools = sys.argv[3].split(",") if len(sys.argv) > 3 else ["racecheck", "memcheck", "synccheck", "initcheck"]
    rows = [line.split(",") for line in run([program, "simulate"]).splitlines()[1:]]
    alarms = [f"{kernel}: {right}" for kernel, right, _ in rows if right != "nothing"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        start = lambda *what: pool.submit(reports, sanitizer, program, *what)
        runs = {
            (tool, kernel, variant): start(tool, kernel, variant)
            for kernel, _, _ in rows
            for tool in tools
            for variant in ("faulty", "right")
        }
    print("| kernel | simulator | " + " | ".join(tools) + " |")
    print("| --- " * (2 + len(tools)) + "|")
    for kernel, _, faulty in rows:
        cells = [kernel, "-" if faulty == "nothing" else "found"]
        for tool in tools:
            right = runs[tool, kernel, "right"].result()
            alarm = "" if right == "-" else f", false alarm: {right}"
            cells.append(runs[tool, kernel, "faulty"].result() + alarm)
        print("| " + " | ".join(cells) + " |")
    for alarm in alarms:
        print(f"the simulator reports a right kernel, {alarm}")
    return 1 if alarms else 0


def reports(sanitizer, program, tool, kernel, variant):
    """What a tool says: `-` for nothing, the number of reports, or that the kernel did not end."""
    command = [sanitizer, "--tool", tool, program, kernel, variant]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    text = done.stdout + done.stderr
    found = re.search(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", text)
    if found is None:
        return f"no summary (exit code {done.returncode})"
    return "-" if found.group(1) == "0" else found.group(1)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


sys.exit(main())
