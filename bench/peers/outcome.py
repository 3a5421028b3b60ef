"""What the benchmarks that compare engines share: names on the command line, the environment of the
peers, what a run's figures depend on, and the files of its outcome.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import sardonyx
from bench.peers import processor
from bench.peers.engines import ENGINES
from bench.peers.machine import ROOT

SIMD = (
    "avx2 fma f16c avx_vnni avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 "
    "amx_tile amx_int8 amx_bf16 asimd asimddp i8mm bf16 sve"
).split()


def comma_list(text: str) -> list[str]:
    """Split `a,b` into its names."""
    return [name for name in text.split(",") if name]


def check_names(
    parser: argparse.ArgumentParser, names: Iterable[str], known: Collection[str]
) -> None:
    """End the program with a message if a name is not among the known ones."""
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")


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


def interpreters(engines: Iterable[str]) -> dict[str, str]:
    """The interpreter to use by engine; the peers' environment is made or completed first."""
    peers = environment()
    compileall.compile_dir(ROOT / "python", quiet=1)  # as installers do to the peers' packages
    return {engine: peers if ENGINES[engine].packages else sys.executable for engine in engines}


def pages() -> Path:
    """Where the outcome on machines of this kind is kept: of processors of this design, or if it is
    not known by name, of those with vectors as wide."""
    kind = processor.design(processor.facts()) or sardonyx.target()
    return ROOT / "docs" / kind.lower().replace(" ", "-")


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, cores, SIMD extensions, system."""
    facts = processor.facts()
    flags = facts.get("flags", facts.get("Features", "")).split()
    return {
        "processor": processor.name(facts),
        "design": processor.design(facts),
        "cores": len(os.sched_getaffinity(0)),
        "simd": [feature for feature in SIMD if feature in flags],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def conditions() -> dict[str, Any]:
    """Date and machine of a run."""
    date = datetime.datetime.now().astimezone().isoformat(timespec="minutes")
    return {"date": date, "machine": machine()}


def publish(raw: dict[str, Any], target: Path, page: str, plot: str) -> None:
    """Write raw numbers, page and plot beside each other; `plot` is the module that draws."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    target.with_suffix(".md").write_text(page)
    files = [str(target.with_suffix(suffix)) for suffix in (".json", ".svg")]
    subprocess.run([environment(), "-m", plot, *files], cwd=ROOT, check=True)
    print(f"written: {target}.md, .svg and .json")
