"""Runs both engines on one case in turns, in one process."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime

import sardonyx
from bench.operators.case import Case, Value
from bench.peers.cores import wait_until_apart

Run = Callable[[], list[Any]]
REST = 0.06  # seconds between turns of several threads: ONNX Runtime's spin for 40 ms


def open_ours(model: bytes, feeds: dict[str, Value], threads: int) -> Run:
    """Sardonyx: a function that runs the model."""
    session = sardonyx.load(model, threads=threads)
    return lambda: list(session.run(feeds).values())


def open_theirs(model: bytes, feeds: dict[str, Value], threads: int) -> Run:
    """ONNX Runtime: a function that runs the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def excess(actual: Any, wanted: Any) -> float:
    """Largest difference in units of the type's tolerance; infinite where kinds differ."""
    if isinstance(wanted, dict):
        same = isinstance(actual, dict) and actual.keys() == wanted.keys()
        return excess([actual[key] for key in wanted], [*wanted.values()]) if same else np.inf
    if isinstance(wanted, list):
        same = isinstance(actual, list) and len(actual) == len(wanted)
        return max(map(excess, actual, wanted), default=0.0) if same else np.inf
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    if actual.shape != wanted.shape or actual.dtype.kind != wanted.dtype.kind:
        return np.inf
    if not wanted.size:
        return 0.0
    if wanted.dtype.kind in "OUSb":
        return 0.0 if np.array_equal(actual, wanted) else np.inf
    one, other = actual.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        if not np.array_equal(np.isnan(one), np.isnan(other)):
            return np.inf
        gap = np.where(one == other, 0, np.abs(one - other))
        if wanted.dtype.kind in "iu":  # quantised results may fall on the other side of a half
            return float(np.nanmax(gap)) / (1 if wanted.dtype.itemsize == 1 else 0.5)
        scale = max(float(np.nanmax(np.where(np.isinf(other), 0, np.abs(other)))), 1e-6)
        step = {2: 2e-3, 4: 1e-4, 8: 1e-9}[wanted.dtype.itemsize]
        return float(np.nanmax(gap)) / (step * scale)


def compare(case: Case, ours: list[Any], theirs: list[Any]) -> float:
    """How far the results are apart, in tolerances."""
    if not case.exact:
        return 0.0
    return max(excess(one, other) for one, other in zip(ours, theirs, strict=True))


def turn(run: Run, seconds: float) -> float:
    """Median milliseconds of a run over a turn of this length."""
    times: list[int] = []
    run()  # warms what the other engine has taken
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while not times or time.perf_counter_ns() < end:
        start = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e6


def check(case: Case, threads: int = 1) -> tuple[dict[str, Any], Run | None, Run | None]:
    """Run both once. Keys of the row: name, op, skipped (ONNX Runtime cannot), error, excess."""
    row: dict[str, Any] = {"name": case.name, "op": case.op, "threads": threads}
    values = case.values()
    model, feeds = case.model(values), case.feeds(values)
    try:
        theirs = open_theirs(model, feeds, threads)
        wanted = theirs()
    except Exception as error:
        return row | {"skipped": " ".join(str(error).split())}, None, None
    try:
        ours = open_ours(model, feeds, threads)
        row["excess"] = compare(case, ours(), wanted)
    except Exception as error:
        return row | {"error": " ".join(str(error).split())}, None, None
    return row, ours, theirs


def measure(case: Case, threads: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Time both in turns; the ratio is taken turn by turn, its median counts."""
    row, ours, theirs = check(case, threads)
    if ours is None or theirs is None:
        return row
    pairs = []
    for _ in range(rounds):
        pair = []
        for run in (ours, theirs):
            if threads > 1:
                time.sleep(REST)
                wait_until_apart(os.sched_getaffinity(0))
            pair.append(turn(run, seconds))
        pairs.append(pair)
    row["ours_ms"], row["theirs_ms"] = (
        statistics.median(side) for side in zip(*pairs, strict=True)
    )
    row["ratio"] = statistics.median(one / other for one, other in pairs)
    return row
