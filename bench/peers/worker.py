"""One engine with one model in a process of its own; answers requests, a line of JSON each.

Started as `python -m bench.peers.worker ENGINE MODEL INPUTS.npz THREADS`, pinned by its parent.
The first line that it writes tells version, load and first-run time; then it answers

    {"seconds": S}     runs for S seconds, at least once: {"times": [nanoseconds ...]}
    {"save": "P.npz"}  the peak memory so far, then writes the outputs: {"peak_kib": N}
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TextIO

import numpy as np

from bench.peers.engines import ENGINES


def peak_kib() -> int:
    """The largest resident set that this process has had, in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM")


def serve(channel: TextIO, engine: str, model: str, inputs: str, threads: int) -> None:
    """Load, then answer requests from standard input until it ends."""

    def answer(**what: object) -> None:
        channel.write(json.dumps(what) + "\n")
        channel.flush()

    with np.load(inputs) as archive:
        feeds = {name: archive[name] for name in archive.files}
    convert = ENGINES[engine].convert
    path = convert(Path(model), feeds, Path(inputs).parent) if convert else Path(model)
    version, open_model = ENGINES[engine].start()
    start = time.perf_counter_ns()
    run = open_model(path, feeds, threads)
    outputs = run()
    answer(version=version, load_ns=time.perf_counter_ns() - start)

    for line in sys.stdin:
        request = json.loads(line)
        if "seconds" in request:
            times: list[int] = []
            end = time.perf_counter_ns() + int(request["seconds"] * 1e9)
            run()  # wakes threads and warms caches that the other engines have taken
            while not times or time.perf_counter_ns() < end:
                start = time.perf_counter_ns()
                outputs = run()
                times.append(time.perf_counter_ns() - start)
            answer(times=times)
        else:
            peak = peak_kib()
            arrays = {f"{index:03}": np.array(value) for index, value in enumerate(outputs)}
            np.savez(request["save"], **arrays)
            answer(peak_kib=peak)


def main() -> None:
    """Serve; a failure is an answer too."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    engine, model, inputs, threads = sys.argv[1:]
    try:
        serve(channel, engine, model, inputs, int(threads))
    except Exception as error:
        text = " ".join(str(error).partition("Stack backtrace")[0].split())
        channel.write(json.dumps({"error": f"{type(error).__name__}: {text}"}) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
