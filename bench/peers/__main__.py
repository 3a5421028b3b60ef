"""`./dev bench peers`: compare Sardonyx with ONNX Runtime, OpenVINO, tract and ncnn."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.models import cases, collection, ensure
from bench.peers.engines import ENGINES, REFERENCE
from bench.peers.measure import ROOT, measure
from bench.peers.outcome import check_names, comma_list, conditions, interpreters, publish
from bench.peers.report import latency, markdown, ratio


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="./dev bench peers",
        description=__doc__,
        epilog="The outcome of a whole run goes to docs/, that of a partial or quick one to "
        "build/peers/, unless --out says otherwise.",
    )
    add = parser.add_argument
    add("--models", type=comma_list, help=f"of: {', '.join(collection())}", metavar="A,B")
    add("--engines", type=comma_list, metavar="A,B", help=f"of: {', '.join(ENGINES)}")
    add("--threads", type=comma_list, default=["1", "2"], metavar="N,M", help="default: 1,2")
    add("--rounds", type=int, help="turns of each engine (default 9)")
    add("--seconds", type=float, help="length of a turn (default 0.25)")
    add("--loads", type=int, help="fresh processes that load the model (default 3)")
    add("--limit", type=float, default=120, help="seconds until an engine is given up (120)")
    add("--quick", action="store_true", help="3 turns of 0.1 s, 1 load: a first impression")
    add("--out", type=Path, help="folder for benchmarks.md, .svg and .json")
    options = parser.parse_args()
    check_names(parser, options.models or [], collection())
    check_names(parser, options.engines or [], ENGINES)
    if not all(count.isdigit() and int(count) > 0 for count in options.threads):
        parser.error("--threads takes positive numbers, for example 1,2")
    partial = options.quick or options.models or options.engines
    options.out = options.out or ROOT / ("build/peers" if partial else "docs")
    options.models = options.models or [m.name for m in collection().values() if m.benchmarked]
    options.engines = options.engines or list(ENGINES)
    defaults = {"rounds": 3, "seconds": 0.1, "loads": 1}
    if not options.quick:
        defaults = {"rounds": 9, "seconds": 0.25, "loads": 3}
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def summary(entry: dict[str, Any]) -> str:
    """One line for the terminal."""
    parts = []
    for engine, result in entry["results"].items():
        if result["error"]:
            parts.append(f"{engine} fails")
            continue
        share = ratio(entry, engine, REFERENCE, latency)
        beside = f" ({share:.2f})" if share is not None and engine != REFERENCE else ""
        parts.append(f"{engine} {latency(result):.3g} ms{beside}")
    return ", ".join(parts)


def main() -> int:
    """Measure, then write tables, plot and raw numbers."""
    options = arguments()
    pythons = interpreters(options.engines)
    raw: dict[str, Any] = {
        **conditions(),
        "engines": options.engines,
        "threads": [int(count) for count in options.threads],
        "options": {name: getattr(options, name) for name in ("rounds", "seconds", "loads")},
        "versions": {},
        "entries": [],
    }
    total = len(options.models) * len(options.threads)
    for name in options.models:
        path = ensure(name)
        case, feeds = next(iter(cases(name).items()))
        for part in path.parent.glob(f"{path.name}*"):
            part.read_bytes()  # the first engine must not be the one that waits for the disk
        for threads in raw["threads"]:
            count = len(raw["entries"]) + 1
            print(f"[{count}/{total}] {name}, {threads} threads: ", end="", flush=True)
            results = measure(
                pythons,
                REFERENCE,
                path,
                feeds,
                threads=threads,
                limit=options.limit,
                **raw["options"],
            )
            entry = {"model": name, "case": case, "threads": threads}
            entry["results"] = {engine: result.to_json() for engine, result in results.items()}
            raw["entries"].append(entry)
            raw["versions"] |= {e: r.version for e, r in results.items() if r.version}
            print(summary(entry), flush=True)

    page = markdown(raw, "benchmarks.svg")
    publish(raw, options.out / "benchmarks", page, "bench.peers.plot")
    return 0


if __name__ == "__main__":
    sys.exit(main())
