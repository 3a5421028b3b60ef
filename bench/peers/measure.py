"""Runs all engines on one model in turn, and collects what they answer."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.cores import cores, wait_until_apart
from bench.peers.engines import ENGINES
from bench.peers.machine import ROOT

REST = 0.06  # seconds between turns: threads of the engine before spin, ONNX Runtime's for 40 ms


@dataclass
class Result:
    """What one engine did with one model; nothing but `error` and `version` if it failed."""

    version: str = ""
    error: str = ""
    load_ms: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)
    rounds_ms: list[float] = field(default_factory=list)  # the median of each round
    best_ms: float = 0.0
    runs: int = 0
    deviation: float = 0.0  # largest absolute difference from the reference's outputs
    excess: float = 0.0  # largest |difference| / (1e-5 + 1e-4 |reference|)

    @property
    def median_ms(self) -> float:
        """The median latency of a run."""
        return statistics.median(self.rounds_ms)

    def extend(self, later: Result) -> None:
        """Take in what the same engine did in a later run; a failure of either is the result."""
        if self.error or later.error:
            self.error = self.error or later.error
            return
        for name in ("load_ms", "peak_mib", "rounds_ms"):
            getattr(self, name).extend(getattr(later, name))
        self.best_ms = min(self.best_ms, later.best_ms)
        self.runs += later.runs
        self.deviation = max(self.deviation, later.deviation)
        self.excess = max(self.excess, later.excess)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the file of raw numbers."""
        return asdict(self)


class Failure(Exception):
    """A worker's own message, or how it ended."""


class Worker:
    """A process that holds one engine with one model."""

    def __init__(
        self,
        python: str,
        engine: str,
        model: Path,
        inputs: Path,
        threads: int,
        sessions: int,
        mask: set[int],
        limit: float,
    ) -> None:
        self._limit = limit
        self._log = tempfile.TemporaryFile("w+")
        command = [python, "-m", "bench.peers.worker", engine, str(model), str(inputs)]
        self._process = subprocess.Popen(
            [*command, str(threads), str(sessions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": str(threads)},
            preexec_fn=lambda: os.sched_setaffinity(0, mask),
            start_new_session=True,
        )

    def answer(self) -> dict[str, Any]:
        """The next answer.

        Raises
        ------
        Failure
            If the worker reports an error, dies, or takes longer than its limit.
        """
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], self._limit)[0]:
            self.close()
            raise Failure(f"no answer within {self._limit:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._log.seek(0)
            last = (self._log.read().strip().splitlines() or ["no message"])[-1]
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise Failure(f"crashed ({how}): {last}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(answer["error"])
        return answer

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer tells why
        return self.answer()

    def close(self) -> None:
        """End the process, and the converter that it may have started."""
        with contextlib.suppress(ProcessLookupError):  # it has ended, and so has its converter
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def turn(worker: Worker, seconds: float, mask: set[int]) -> list[float]:
    """The times of the runs of one turn in nanoseconds; then the machine rests."""
    wait_until_apart(mask)
    times = worker.ask(seconds=seconds)["times"]
    time.sleep(REST)
    return times


def measure(
    pythons: Mapping[str, str],
    reference: str,
    model: Path,
    feeds: Mapping[str, np.ndarray],
    *,
    threads: int,
    loads: int,
    rounds: int,
    seconds: float,
    limit: float,
    sessions: int = 1,
    beside: Callable[[set[int]], None] | None = None,
) -> dict[str, Result]:
    """Measure one model with all engines in turns: A B C D A B C D ...

    Parameters
    ----------
    pythons
        The interpreter to use by engine. An engine that does not take such inputs is left out.
    reference
        The engine whose outputs the others are compared with.
    loads
        How often each engine loads the model, each time in a fresh process, right after another one
        that is not counted.
    rounds, seconds
        Turns per engine and length of a turn; each turn has one run at least.
    limit
        Seconds until a worker that does not answer is given up.
    sessions
        Sessions of one process that run at the same time, with `threads` threads each; the latency
        is then the time a run takes of all.
    beside
        Called at the beginning of each round of turns with the processors that these run on.
    """
    results = {engine: Result() for engine in pythons if ENGINES[engine].takes(feeds)}
    mask = cores(min(threads * sessions, len(os.sched_getaffinity(0))))
    workers: dict[str, Worker] = {}
    outputs: dict[str, list[np.ndarray]] = {}

    def working() -> list[str]:
        return [engine for engine, result in results.items() if not result.error]

    def fail(engine: str, failure: Failure) -> None:
        results[engine] = Result(version=results[engine].version, error=str(failure))

    with tempfile.TemporaryDirectory() as scratch:
        inputs = Path(scratch) / "inputs.npz"
        np.savez(inputs, **feeds)
        try:
            for _, engine, is_counted in itertools.product(range(loads), pythons, (False, True)):
                # The load before the one that counts lets the system find the memory: pages that
                # nothing has used for seconds may come from outside of a virtual machine.
                if engine not in working():
                    continue
                if engine in workers:
                    workers.pop(engine).close()
                wait_until_apart(mask)
                workers[engine] = Worker(
                    pythons[engine], engine, model, inputs, threads, sessions, mask, limit
                )
                try:
                    answer = workers[engine].answer()
                    results[engine].version = answer["version"]
                    if is_counted:
                        results[engine].load_ms.append(answer["load_ns"] / 1e6)
                        results[engine].peak_mib.append(answer["peak_kib"] / 1024)
                except Failure as failure:
                    fail(engine, failure)
                time.sleep(REST)
            for _ in range(rounds):
                if beside is not None:
                    wait_until_apart(mask)
                    beside(mask)
                for engine in filter(lambda name: ENGINES[name].is_timed, working()):
                    try:
                        times = turn(workers[engine], seconds, mask)
                    except Failure as failure:
                        fail(engine, failure)
                        continue
                    result = results[engine]
                    result.rounds_ms.append(statistics.median(times) / 1e6)
                    result.best_ms = min([*times, result.best_ms * 1e6 or times[0]]) / 1e6
                    result.runs += len(times)
            for engine in working():
                path = Path(scratch) / f"{engine}.npz"
                try:
                    workers[engine].ask(save=str(path))
                except Failure as failure:
                    fail(engine, failure)
                    continue
                with np.load(path) as archive:
                    outputs[engine] = [archive[name] for name in sorted(archive.files)]
        finally:
            for worker in workers.values():
                worker.close()
    for engine, arrays in outputs.items():
        if reference in outputs:
            compare(results[engine], arrays, outputs[reference])
    return results


def measure_side_by_side(
    python: str,
    engine: str,
    models: Sequence[Path],
    feeds: Mapping[str, np.ndarray],
    *,
    threads: int,
    rounds: int,
    seconds: float,
    limit: float,
) -> list[list[float]]:
    """Measure models that take the same inputs with one engine in turns, as `measure` does engines.

    Returns
    -------
    list of lists of float
        By model the median latency of each turn in milliseconds.

    Raises
    ------
    Failure
        If the engine fails on one of them.
    """
    mask = cores(threads)
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as ending:
        inputs = Path(scratch) / "inputs.npz"
        np.savez(inputs, **feeds)
        workers = []
        for model in models:
            workers.append(Worker(python, engine, model, inputs, threads, 1, mask, limit))
            ending.callback(workers[-1].close)
            workers[-1].answer()
        turns = [[turn(worker, seconds, mask) for worker in workers] for _ in range(rounds)]
    by_model = zip(*turns, strict=True)
    return [[statistics.median(times) / 1e6 for times in of_one] for of_one in by_model]


def compare(result: Result, outputs: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Note how far the outputs are from those expected; other shapes or NaNs are an error."""
    if [array.shape for array in outputs] != [array.shape for array in expected]:
        result.error = "outputs have other shapes than the reference's"
        return
    for array, good in zip(outputs, expected, strict=True):
        difference = np.abs(array.astype(np.float64) - good)
        if not np.isfinite(difference).all():
            result.error = "outputs are not finite where the reference's are"
            return
        result.deviation = max(result.deviation, float(difference.max(initial=0)))
        excess = difference / (1e-5 + 1e-4 * np.abs(good.astype(np.float64)))
        result.excess = max(result.excess, float(excess.max(initial=0)))
