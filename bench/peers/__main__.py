"""`./dev bench peers`: compare Sardonyx with ONNX Runtime, OpenVINO, tract and ncnn."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.models import cases, collection, ensure
from bench.peers.engines import ENGINES, REFERENCE
from bench.peers.measure import ROOT, measure
from bench.peers.report import latency, markdown, ratio

SIMD = (
    "avx2 fma f16c avx_vnni avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 "
    "amx_tile asimd asimddp i8mm bf16 sve"
).split()


def comma_list(text: str) -> list[str]:
    """Split `a,b` into its names."""
    return [name for name in text.split(",") if name]


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
    for names, known in ((options.models, collection()), (options.engines, ENGINES)):
        unknown = [name for name in names or [] if name not in known]
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
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


def environment() -> str:
    """The interpreter of the peers' environment, which is made or completed first."""
    folder = ROOT / "build" / "peers-venv"
    python = folder / "bin" / "python"
    wanted = sorted({package for engine in ENGINES.values() for package in engine.packages})
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text().split() != wanted:
        print(f"setting up {folder.relative_to(ROOT)}: {' '.join(wanted)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "numpy", "matplotlib"], check=True)
        subprocess.run([*pip, "--no-deps", *wanted], check=True)
        stamp.write_text("\n".join(wanted))
    return str(python)


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, cores, SIMD extensions, system."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    flags = facts.get("flags", facts.get("Features", "")).split()
    return {
        "processor": facts.get("model name", platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "simd": [feature for feature in SIMD if feature in flags],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


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
    peers = environment()
    pythons = {
        engine: peers if ENGINES[engine].packages else sys.executable for engine in options.engines
    }
    raw: dict[str, Any] = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
        "machine": machine(),
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

    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / "benchmarks"
    target.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    target.with_suffix(".md").write_text(markdown(raw, "benchmarks.svg"))
    plot = [peers, "-m", "bench.peers.plot", target.with_suffix(".json")]
    subprocess.run([*plot, target.with_suffix(".svg")], cwd=ROOT, check=True)
    print(f"written: {target}.md, .svg and .json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
