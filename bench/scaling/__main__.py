"""`./dev bench scaling`: how time grows with batch, length, rows, threads and sessions."""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import collection, ensure
from bench.peers.engines import ENGINES, REFERENCE
from bench.peers.machine import ROOT
from bench.peers.measure import measure
from bench.peers.outcome import (
    check_names,
    comma_list,
    conditions,
    interpreters,
    pages,
    publish,
)
from bench.peers.report import described, latency, number, timed


@dataclass(frozen=True)
class Point:
    """One measurement: its place on the axis, the sizes of the inputs, threads and sessions."""

    x: int
    sizes: tuple[int, ...]
    threads: int = 1
    sessions: int = 1


@dataclass(frozen=True)
class Curve:
    """A model along one axis; `per_item` divides the time by the place on the axis."""

    name: str
    model: str
    axis: str
    points: tuple[Point, ...]
    per_item: bool = False


def curves() -> tuple[Curve, ...]:
    """The curves, threads and sessions up to what this machine has."""
    counts = [1, 2, 4, 8, 16, 32, 64]
    threads = [count for count in counts if count <= len(os.sched_getaffinity(0))]
    batches = tuple(Point(n, (n,)) for n in (1, 2, 4, 8, 16, 32))
    rows = (1, 10, 100, 1_000, 10_000, 100_000)
    lengths = (16, 32, 64, 128, 256, 512, 1024)
    return (
        Curve("batch", "mobilenet_v2", "pictures", batches, per_item=True),
        Curve("length", "gpt2", "tokens", tuple(Point(n, (1, n)) for n in lengths), per_item=True),
        Curve("rows", "forest_1", "rows", tuple(Point(n, (n,)) for n in rows), per_item=True),
        Curve("threads", "resnet50", "threads", tuple(Point(n, (1,), n) for n in threads)),
        Curve(
            "sessions",
            "mobilenet_v2",
            "sessions of one thread",
            tuple(Point(n, (1,), 1, n) for n in (1, 2, 4)),
        ),
    )


def page(raw: dict[str, Any]) -> str:
    """The tables in Markdown."""
    facts = raw["machine"]
    lines = ["# How Sardonyx scales", ""]
    lines += [
        "Written by `./dev bench scaling`; edit `bench/scaling/__main__.py`, not this page.",
        "",
    ]
    lines.append(f"- Machine: {described(facts)}, {facts['cores']} cores allowed")
    lines.append(f"- Date: {raw['date']}; {facts['system']}, Python {facts['python']}")
    lines += [f"- {ENGINES[engine].title} {raw['versions'][engine]}" for engine in raw["versions"]]
    lines += [
        "",
        "Milliseconds, the engines in turns; with several sessions, the time a run takes ",
    ]
    lines[-1] += "of all. One thread unless threads are the axis."
    lines += ["", "![Time along each axis](scaling.svg)"]
    for curve in raw["curves"]:
        engines = list(dict.fromkeys(e for point in curve["points"] for e in point["results"]))
        title = f"{curve['name'].capitalize()}: {curve['model']}"
        head = [curve["axis"], *(ENGINES[engine].title for engine in engines)]
        lines += ["", f"## {title}", "", "| " + " | ".join(head) + " |"]
        lines.append("|---:" * len(head) + "|")
        for point in curve["points"]:
            cells = [f"{point['x']:,}"]
            for engine in engines:
                result = point["results"].get(engine)
                failed = result is None or result["error"]
                cells.append("fails" if failed else number(latency(result)))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure all curves, then write tables, plot and raw numbers."""
    known = {curve.name: curve for curve in curves()}
    parser = argparse.ArgumentParser(prog="./dev bench scaling", description=__doc__)
    add = parser.add_argument
    add("--curves", type=comma_list, default=list(known), help=f"of: {', '.join(known)}")
    add("--engines", type=comma_list, default=["sardonyx", REFERENCE, "openvino"])
    add("--rounds", type=int, default=5, help="turns of each engine (default 5)")
    add("--seconds", type=float, default=0.2, help="length of a turn (default 0.2)")
    add("--limit", type=float, default=120, help="seconds until an engine is given up (120)")
    add("--out", type=Path, help="folder of the outcome (that in docs/ if all curves are)")
    options = parser.parse_args()
    check_names(parser, options.curves, known)
    check_names(parser, options.engines, timed(list(ENGINES)))
    partial = options.curves != list(known)
    options.out = options.out or (ROOT / "build/scaling" if partial else pages())
    pythons = interpreters(options.engines)
    raw: dict[str, Any] = {
        **conditions(),
        "versions": {},
        "curves": [],
    }
    for curve in (known[name] for name in options.curves):
        points = []
        for point in curve.points:
            rng = np.random.default_rng(zlib.crc32(f"{curve.model}/{point.sizes}".encode()))
            results = measure(
                pythons,
                REFERENCE,
                ensure(curve.model),
                collection()[curve.model].inputs(rng, *point.sizes),
                threads=point.threads,
                sessions=point.sessions,
                loads=1,
                rounds=options.rounds,
                seconds=options.seconds,
                limit=options.limit,
            )
            raw["versions"] |= {e: r.version for e, r in results.items() if r.version}
            kept = {engine: result.to_json() for engine, result in results.items()}
            points.append({"x": point.x, "results": kept})
            times = {e: "fails" if r["error"] else number(latency(r)) for e, r in kept.items()}
            shown = ", ".join(f"{engine} {time}" for engine, time in times.items())
            print(f"{curve.model}, {point.x:,} {curve.axis}: {shown} ms", flush=True)
        entry = {name: getattr(curve, name) for name in ("name", "model", "axis", "per_item")}
        raw["curves"].append({**entry, "points": points})
    publish(raw, options.out / "scaling", page(raw), "bench.scaling.plot")
    return 0


if __name__ == "__main__":
    sys.exit(main())
