"""What the machine itself can do, measured by `machine_bench`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from bench.peers.work import Work

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SARDONYX_BUILD_DIR", ROOT / "build" / "release"))


def rates(
    benchmarks: str, cpus: set[int], repetitions: int = 1, seconds: float = 0.5
) -> dict[str, float]:
    """How often a second, at best, by name in lower case: of benchmarks that match an expression,
    on some processors. Those that want more processors are left out."""
    with tempfile.NamedTemporaryFile() as report:
        command = [
            BUILD / "bin" / "machine_bench",
            f"--benchmark_repetitions={repetitions}",
            f"--benchmark_min_time={seconds}",
            f"--benchmark_filter={benchmarks}",
        ]
        subprocess.run(
            [*command, f"--benchmark_out={report.name}", "--benchmark_out_format=json"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        runs = json.loads(Path(report.name).read_text())["benchmarks"]
    best: dict[str, float] = {}
    for run in runs:
        if run["run_type"] == "iteration" and "per_second" in run:
            name = run["name"].partition("/")[0].lower()
            best[name] = max(best.get(name, 0.0), run["per_second"])
    return best


def reading(threads: int) -> dict[str, float]:
    """Bytes that threads read from memory in a second, best of 5."""
    return rates(f"^Reading/threads:{threads}/", os.sched_getaffinity(0), repetitions=5)


def limits(work: Work, cpus: set[int]) -> dict[str, float]:
    """What a thread on each of the processors does in a second just now of what a model's work
    needs: operations of float32 and of bytes, bytes read again from caches."""
    needed = {
        "Arithmetic": True,
        "Bytes": work.on_bytes > 0,
        "SmallSteps": work.small > 0,
        "LargeSteps": work.large > 0,
    }
    names = "|".join(name for name, is_needed in needed.items() if is_needed)
    return rates(f"^({names})/threads:{len(cpus)}/", cpus, seconds=0.05)
