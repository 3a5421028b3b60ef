"""One engine with one model in a process of its own; answers requests, a line of JSON each.

Started as `python -m bench.peers.worker ENGINE MODEL INPUTS.npz THREADS SESSIONS`, pinned by its
parent. The first line that it writes tells version, load and first-run time, and the peak memory
until then; later the lists of times would count. Then it answers

    {"seconds": S}     runs for S seconds, at least once: {"times": [nanoseconds ...]}; of several
                       sessions, run by a thread each, the time that all took over all their runs
    {"save": "P.npz"}  writes the outputs: {}
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

import numpy as np

from bench.peers.engines import ENGINES, Run


def peak_kib() -> int:
    """The largest resident set that this process has had, in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM")


def together(runs: list[Run], end: int) -> float:
    """Nanoseconds a run when all run at once until the given time, each in a thread of its own."""
    counts = [0] * len(runs)

    def repeat(index: int) -> None:
        while not counts[index] or time.perf_counter_ns() < end:
            runs[index]()
            counts[index] += 1

    threads = [threading.Thread(target=repeat, args=(index,)) for index in range(len(runs))]
    start = time.perf_counter_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter_ns() - start) / sum(counts)


def serve(
    channel: TextIO, engine: str, model: str, inputs: str, threads: int, sessions: int
) -> None:
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
    load_ns = time.perf_counter_ns() - start
    answer(version=version, load_ns=load_ns, peak_kib=peak_kib())
    runs = [run, *(open_model(path, feeds, threads) for _ in range(sessions - 1))]

    for line in sys.stdin:
        request = json.loads(line)
        if "seconds" in request:
            times: list[float] = []
            end = time.perf_counter_ns() + int(request["seconds"] * 1e9)
            for each in runs:
                each()  # wakes threads and warms caches that the other engines have taken
            if sessions > 1:
                times.append(together(runs, end))
            while not times or time.perf_counter_ns() < end:
                start = time.perf_counter_ns()
                outputs = run()
                times.append(time.perf_counter_ns() - start)
            answer(times=times)
        else:
            arrays = {f"{index:03}": np.array(value) for index, value in enumerate(outputs)}
            np.savez(request["save"], **arrays)
            answer()


def main() -> None:
    """Serve; a failure is an answer too."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    engine, model, inputs, threads, sessions = sys.argv[1:]
    try:
        serve(channel, engine, model, inputs, int(threads), int(sessions))
    except Exception as error:
        text = " ".join(str(error).partition("Stack backtrace")[0].split())
        channel.write(json.dumps({"error": f"{type(error).__name__}: {text}"}) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
