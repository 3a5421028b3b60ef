"""What the machine itself can do, measured by `machine_bench`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SARDONYX_BUILD_DIR", ROOT / "build" / "release"))


def rates(benchmarks: str, cpus: set[int], repetitions: int = 1) -> dict[str, float]:
    """How often a second, at best, by name in lower case: of benchmarks that match an expression,
    on some processors. Those that want more processors are left out."""
    with tempfile.NamedTemporaryFile() as report:
        command = [
            BUILD / "bin" / "machine_bench",
            f"--benchmark_repetitions={repetitions}",
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


def limits(threads: int) -> dict[str, float]:
    """What the machine does in a second, best of 5: operations of float32 and of bytes, bytes read
    from memory and again from caches."""
    return rates(f":{threads}/", os.sched_getaffinity(0), repetitions=5)
