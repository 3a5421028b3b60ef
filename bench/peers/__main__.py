"""`./dev bench peers`: compare Sardonyx with ONNX Runtime, OpenVINO, tract and ncnn."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.models import cases, collection, ensure
from bench.peers import goals, roofline
from bench.peers.cores import checks
from bench.peers.engines import ENGINES, REFERENCE
from bench.peers.measure import ROOT, Result, measure
from bench.peers.outcome import check_names, comma_list, conditions, interpreters, publish
from bench.peers.report import markdown


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
    add("--runs", type=int, default=1, help="whole runs, one after the other (default 1)")
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


def summary(results: dict[str, Result]) -> str:
    """One line for the terminal."""
    parts = []
    reference = results.get(REFERENCE)
    for engine, result in results.items():
        if result.error:
            parts.append(f"{engine} fails")
            continue
        if not ENGINES[engine].is_timed:
            continue
        parts.append(f"{engine} {result.median_ms:.3g} ms")
        if engine != REFERENCE and reference and not reference.error:
            parts[-1] += f" ({result.median_ms / reference.median_ms:.2f})"
    return ", ".join(parts)


def measure_all(
    options: argparse.Namespace, raw: dict[str, Any]
) -> dict[tuple[str, str, int], dict[str, Result]]:
    """Every model at each number of threads, in as many runs as asked for."""
    pythons = interpreters(options.engines)
    settings = {name: raw["options"][name] for name in ("rounds", "seconds", "loads")}
    total = len(options.models) * len(options.threads) * options.runs
    count = 0
    raw["limits"] = {str(threads): {} for threads in raw["threads"]}
    entries: dict[tuple[str, str, int], dict[str, Result]] = {}
    for _ in range(options.runs):
        for threads, best in raw["limits"].items():
            for kind, value in roofline.limits(int(threads)).items():
                best[kind] = max(value, best.get(kind, 0.0))
        for name in options.models:
            path = ensure(name)
            case, feeds = next(iter(cases(name).items()))
            for part in path.parent.glob(f"{path.name}*"):
                part.read_bytes()  # the first engine must not be the one that waits for the disk
            for threads in raw["threads"]:
                count += 1
                print(f"[{count}/{total}] {name}, {threads} threads: ", end="", flush=True)
                results = measure(
                    pythons,
                    REFERENCE,
                    path,
                    feeds,
                    threads=threads,
                    limit=options.limit,
                    **settings,
                )
                print(summary(results), flush=True)
                before = entries.setdefault((name, case, threads), results)
                if before is not results:
                    for engine, result in results.items():
                        before[engine].extend(result)
    return entries


def main() -> int:
    """Measure, then write tables, plot and raw numbers."""
    options = arguments()
    raw: dict[str, Any] = {
        **conditions(),
        "engines": options.engines,
        "threads": [int(count) for count in options.threads],
        "options": {
            name: getattr(options, name) for name in ("runs", "rounds", "seconds", "loads")
        },
        "versions": {},
        "entries": [],
    }
    for (name, case, threads), results in measure_all(options, raw).items():
        entry: dict[str, Any] = {"model": name, "case": case, "threads": threads}
        if goals.goal(name).has_limits:
            floor = roofline.work(ensure(name), cases(name)[case])
            entry |= {} if floor is None else {"work": floor}
        entry["results"] = {engine: result.to_json() for engine, result in results.items()}
        raw["entries"].append(entry)
        raw["versions"] |= {e: r.version for e, r in results.items() if r.version}
    raw["cores"] = dict(checks)
    page = markdown(raw, "benchmarks.svg")
    publish(raw, options.out / "benchmarks", page, "bench.peers.plot")
    return 0


if __name__ == "__main__":
    sys.exit(main())
