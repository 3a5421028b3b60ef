"""`./dev bench peers`: compare Sardonyx with ONNX Runtime, OpenVINO, tract and ncnn."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from bench.models import cases, collection, ensure, survey
from bench.peers import goals, machine, roofline
from bench.peers.cores import checks
from bench.peers.engines import ENGINES, REFERENCE
from bench.peers.machine import ROOT
from bench.peers.measure import Failure, Result, measure, measure_side_by_side
from bench.peers.outcome import (
    check_names,
    comma_list,
    conditions,
    interpreters,
    pages,
    publish,
)
from bench.peers.report import OURS, PAGE, SURVEY_PAGE, Entry, markdown, overview
from bench.peers.work import Work

SURVEY_ENGINES = ["sardonyx", "onnxruntime", "openvino"]  # which are the fastest on most models


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="./dev bench peers",
        description=__doc__,
        epilog="The outcome of a whole run, or of the survey, goes to the folder of docs/ that "
        "is named after the processor's design, that of a partial or quick one to build/peers/, "
        "unless --out says otherwise.",
    )
    add = parser.add_argument
    add("--models", type=comma_list, help=f"of: {', '.join(collection())}", metavar="A,B")
    add(
        "--survey",
        action="store_true",
        help=f"instead {len(survey())} architectures beyond those that the goals name",
    )
    add("--engines", type=comma_list, metavar="A,B", help=f"of: {', '.join(ENGINES)}")
    add("--threads", type=comma_list, default=["1", "2"], metavar="N,M", help="default: 1,2")
    add("--rounds", type=int, help="turns of each engine (default 9)")
    add("--seconds", type=float, help="length of a turn (default 0.25)")
    add("--loads", type=int, help="fresh processes that load the model (default 3)")
    add("--runs", type=int, default=1, help="whole runs, one after the other (default 1)")
    add("--limit", type=float, help="seconds until an engine is given up (default 120)")
    add("--quick", action="store_true", help="3 turns of 0.1 s, 1 load, 20 s at most an answer")
    add("--out", type=Path, help="folder for benchmarks.md, .svg and .json")
    options = parser.parse_args()
    known = survey() if options.survey else collection()
    check_names(parser, options.models or [], known)
    check_names(parser, options.engines or [], ENGINES)
    if not all(count.isdigit() and int(count) > 0 for count in options.threads):
        parser.error("--threads takes positive numbers, for example 1,2")
    partial = options.quick or options.models or options.engines
    options.out = options.out or (ROOT / "build/peers" if partial else pages())
    options.page = SURVEY_PAGE if options.survey else PAGE
    options.models = options.models or [m.name for m in known.values() if m.benchmarked]
    options.engines = options.engines or (SURVEY_ENGINES if options.survey else list(ENGINES))
    defaults = {"rounds": 3, "seconds": 0.1, "loads": 1, "limit": 20.0}
    if not options.quick:
        defaults = {"rounds": 9, "seconds": 0.25, "loads": 3, "limit": 120.0}
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


def twin_of(name: str) -> str:
    """The float32 model that this one is a narrower form of, or nothing."""
    known = collection()
    return known[name].twin if name in known else ""


def new_entry(name: str, case: str, threads: int) -> Entry:
    """What is known of a model before anything is measured."""
    entry: Entry = {"model": name, "case": case, "threads": threads}
    if goals.goal(name).has_limits and (floor := roofline.work(ensure(name), cases(name)[case])):
        entry |= {"work": floor._asdict(), "limits": []}
    if twin_of(name):
        entry["beside_twin"] = []
    return entry


def measure_model(
    options: argparse.Namespace, pythons: dict[str, str], entry: Entry, before: dict[str, Result]
) -> None:
    """Measure one model with all engines, and add that to what earlier runs found."""
    name = entry["model"]
    path, feeds = ensure(name), cases(name)[entry["case"]]
    for part in path.parent.glob(f"{path.name}*"):
        part.read_bytes()  # the first engine must not be the one that waits for the disk
    how = {
        "threads": entry["threads"],
        "rounds": options.rounds,
        "seconds": options.seconds,
        "limit": options.limit,
    }

    def note_limits(cpus: set[int]) -> None:
        if "work" in entry:
            entry["limits"].append(machine.limits(Work(**entry["work"]), cpus))

    results = measure(
        pythons, REFERENCE, path, feeds, loads=options.loads, beside=note_limits, **how
    )
    print(summary(results), flush=True)
    for engine, result in results.items():
        if engine in before:
            before[engine].extend(result)
        else:
            before[engine] = result
    entry["results"] = {engine: result.to_json() for engine, result in before.items()}
    if "beside_twin" in entry and OURS in pythons:
        both = [path, ensure(twin_of(name))]
        with contextlib.suppress(Failure):  # the rows of the two tell of it
            narrow, wide = measure_side_by_side(pythons[OURS], OURS, both, feeds, **how)
            entry["beside_twin"] += [one / other for one, other in zip(narrow, wide, strict=True)]


def measure_all(options: argparse.Namespace, raw: dict[str, Any]) -> None:
    """Every model at each number of threads, in as many runs as asked for.

    The outcome is published after each run, so one that is broken off leaves those before it.
    """
    pythons = interpreters(options.engines)
    raw["limits"] = {str(threads): {"reading": 0.0} for threads in raw["threads"]}
    pairs = [(name, threads) for name in options.models for threads in raw["threads"]]
    raw["entries"] = [new_entry(name, next(iter(cases(name))), count) for name, count in pairs]
    measured: list[dict[str, Result]] = [{} for _ in pairs]
    for run in range(options.runs):
        for threads, best in raw["limits"].items():
            for kind, value in machine.reading(int(threads)).items():
                best[kind] = max(value, best[kind])
        for index, (entry, before) in enumerate(zip(raw["entries"], measured, strict=True)):
            count = f"{run * len(pairs) + index + 1}/{options.runs * len(pairs)}"
            what = f"{entry['model']}, {entry['threads']} threads"
            print(f"[{count}] {what}: ", end="", flush=True)
            measure_model(options, pythons, entry, before)
            raw["versions"] |= {e: r.version for e, r in before.items() if r.version}
        raw["options"]["runs"] = run + 1
        raw["cores"] = dict(checks)
        page = markdown(raw, f"{options.page}.svg")
        publish(raw, options.out / options.page, page, "bench.peers.plot")
        if options.out.resolve() == pages():
            write_overview(options.out.parent)


def write_overview(folder: Path) -> None:
    """Write the page that shows what was measured on every kind of machine."""
    found = {path.parent.name: path for path in folder.glob(f"*/{PAGE}.json")}
    outcomes = {kind: json.loads(path.read_text()) for kind, path in found.items()}
    surveyed = {path.parent.name for path in folder.glob(f"*/{SURVEY_PAGE}.json")}
    (folder / f"{PAGE}.md").write_text(overview(outcomes, surveyed))


def main() -> int:
    """Measure, then write tables, plot and raw numbers."""
    options = arguments()
    raw: dict[str, Any] = {
        **conditions(),
        "engines": options.engines,
        "threads": [int(count) for count in options.threads],
        "options": {name: getattr(options, name) for name in ("rounds", "seconds", "loads")},
        "versions": {},
    }
    measure_all(options, raw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
