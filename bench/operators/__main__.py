"""`./dev bench operators`: every operator beside ONNX Runtime, a ratio for each case."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from pathlib import Path
from typing import Any

import onnxruntime

from bench.operators.cases import all_cases
from bench.operators.measure import measure
from bench.operators.report import markdown, summary
from bench.peers.cores import cores
from bench.peers.machine import ROOT
from bench.peers.outcome import machine

RAW = "operators.json"  # raw numbers, in the folder of the page


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="./dev bench operators",
        description=__doc__,
        epilog="Rows measured before stay in the file of raw numbers until measured again; the "
        "page is written from all of them.",
    )
    add = parser.add_argument
    add("patterns", nargs="*", help='rows to measure: "Add*", "* f32 *"; default: all')
    add("--part", default="1/1", metavar="I/N", help="only every Nth row, from the Ith")
    add("--threads", type=int, nargs="+", default=[1, 2], help="a table for each (1 2)")
    add("--rounds", type=int, default=5, help="turns of each engine (5)")
    add("--seconds", type=float, default=0.01, help="length of a turn (0.01)")
    add("--above", type=float, help="only rows whose ratio was above this the last time")
    add("--out", type=Path, default=ROOT / "build/operators", help="folder of the page")
    return parser.parse_args()


def sweep(options: argparse.Namespace, threads: int, known: dict[str, Any]) -> None:
    """Measure the rows that were asked for at this number of threads, and print them."""
    chosen = [
        case
        for case in all_cases()
        if not options.patterns
        or any(fnmatch.fnmatchcase(case.name, f"{pattern}*") for pattern in options.patterns)
    ]
    if options.above is not None:
        chosen = [c for c in chosen if known.get(c.name, {}).get("ratio", 0) > options.above]
    first, every = map(int, options.part.split("/"))
    for case in chosen[first - 1 :: every]:
        row = measure(case, threads, options.rounds, options.seconds)
        known[case.name] = row
        print(summary(row), flush=True)


def publish(out: Path, raw: dict[str, Any]) -> None:
    """Write what was measured and the page of it: one broken off leaves the tables before."""
    out.mkdir(parents=True, exist_ok=True)
    (out / RAW).write_text(json.dumps(raw, indent=0) + "\n")
    (out / "operator-speed.md").write_text(markdown(raw))


def main() -> int:
    """Measure, print a line a row, write the page."""
    options = arguments()
    allowed = os.sched_getaffinity(0)
    raw_path = options.out / RAW
    raw = json.loads(raw_path.read_text()) if raw_path.exists() else {"rows": {}}
    raw |= {"machine": machine(), "version": onnxruntime.__version__}
    names = {case.name for case in all_cases()}
    for threads in options.threads:
        os.sched_setaffinity(0, allowed)
        os.sched_setaffinity(0, cores(threads))
        known = raw["rows"].setdefault(str(threads), {})
        sweep(options, threads, known)
        raw["rows"][str(threads)] = {n: row for n, row in known.items() if n in names}
        publish(options.out, raw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
