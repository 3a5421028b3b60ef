"""What the engine itself takes, ONNX Runtime beside it where it can do the same.

`python -m bench.overhead [TABLE...]` prints tables: `call`, a model of one Add; `iterations` of
Loop, Scan and If; `shapes`, a new one in every run; `callers`, several of one session against as
many sessions. Engines and variants take turns; figures are medians of turns.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import onnxruntime

import sardonyx
from bench.models import cases, collection, ensure
from bench.models.table import masked_tokens, tokens
from sardonyx.onnxruntime import InferenceSession

Run = Callable[[], object]

ROUNDS = 15
TURN = 0.02  # seconds


def main() -> None:
    """Print the tables asked for, or all."""
    tables = {"call": call, "iterations": iterations, "shapes": shapes, "callers": callers}
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(tables))
    parser.add_argument("--threads", type=int, default=1, help="of each session (%(default)s)")
    options = parser.parse_args()
    for name in options.tables or tables:
        tables[name](options.threads)


def call(threads: int) -> None:
    """One Add of one element: microseconds a call."""
    path, feeds = str(ensure("one_add")), _first("one_add")
    native = sardonyx.load(path, threads=threads)
    like = InferenceSession(path)
    peer = _peer(path, threads)
    times = in_turns(
        {
            "session.run(feeds)": lambda: native.run(feeds),
            "session.run(feeds), interface of onnxruntime": lambda: like.run(None, feeds),
            "ONNX Runtime": lambda: peer.run(None, feeds),
        }
    )
    print(f"\n{'one Add of one element, from Python':<48} {'us':>7} {'ratio':>6}")
    for name, took in times.items():
        print(f"{name:<48} {took * 1e6:7.2f} {took / times['ONNX Runtime']:6.2f}")


def iterations(threads: int) -> None:
    """Microseconds an iteration, and beyond what the body takes where the model is unrolled."""
    print(f"\n{'iterations':<24} {'us each':>8} {'beyond':>8} {'ONNX Runtime':>13} {'ratio':>6}")
    feeds = _first("mamba_unrolled")
    unrolled = sardonyx.load(ensure("mamba_unrolled"), threads=threads)
    body = in_turns({"": lambda: unrolled.run(feeds)})[""]
    for name in ("mamba_loop", "mamba_scan", "nested_if"):
        path, feeds = str(ensure(name)), _first(name)
        native, peer = sardonyx.load(path, threads=threads), _peer(path, threads)
        times = in_turns(
            {"own": partial(native.run, feeds), "peer": partial(peer.run, None, feeds)}
        )
        own, other = times["own"] * 1e3, times["peer"] * 1e3  # a run has 1,000 iterations
        beyond = "" if name == "nested_if" else f"{(times['own'] - body) * 1e3:8.2f}"
        print(f"{name:<24} {own:8.2f} {beyond:>8} {other:13.2f} {own / other:6.2f}")
    print(f"{'mamba_unrolled':<24} {body * 1e3:8.2f}")


def shapes(threads: int) -> None:
    """What a run of a new shape takes beyond one of a known shape."""
    print(f"\n{'a new shape every run':<24} {'known, ms':>10} {'new, ms':>9} {'beyond':>7}")
    rng = np.random.default_rng(1)
    makers = {"bert_base": partial(masked_tokens, rng, 1), "gpt2": partial(tokens, rng, 1)}
    if "gpt2_decode" in collection():
        makers["gpt2_decode"] = _decode(rng)
    for name, make in makers.items():
        session = sardonyx.load(ensure(name), threads=threads)
        session.run(make(100))
        news, knowns = [], []
        for length in range(101, 131):
            run = partial(session.run, make(length))
            news.append(_time(run))
            knowns.append(min(_time(run) for _ in range(2 if name == "gpt2_decode" else 1)))
        extra = statistics.median(new - known for new, known in zip(news, knowns, strict=True))
        known = statistics.median(knowns)
        print(f"{name:<24} {known * 1e3:10.2f} {(known + extra) * 1e3:9.2f} {extra / known:7.1%}")


def _decode(rng: np.random.Generator) -> Callable[[int], dict[str, np.ndarray]]:
    """One token after a past of some length."""
    first = _first("gpt2_decode")

    def make(past: int) -> dict[str, np.ndarray]:
        def grown(array: np.ndarray) -> np.ndarray:
            shape = (*array.shape[:2], past, *array.shape[3:])
            return rng.standard_normal(shape, dtype=np.float32)

        return {name: grown(x) if x.ndim == 4 else x for name, x in first.items()}

    return make


def callers(threads: int, count: int = 4) -> None:
    """Runs a second of `count` threads: of one session, and of a session each."""
    heads = f"one session  {count} sessions  ratio   ONNX Runtime"
    print(f"\n{count} callers, runs a second    {heads}")
    for name in ("one_add", "silero_vad", "two_conv", "mobilenet_v2"):
        path, feeds = str(ensure(name)), _first(name)
        one = sardonyx.load(path, threads=threads)
        many = [sardonyx.load(path, threads=threads) for _ in range(count)]
        peer = _peer(path, threads)
        rates: dict[str, list[float]] = {"one": [], "many": [], "peer": []}
        for _ in range(7):
            rates["one"].append(_rate([partial(one.run, feeds)] * count))
            rates["many"].append(_rate([partial(session.run, feeds) for session in many]))
            rates["peer"].append(_rate([partial(peer.run, None, feeds)] * count))
        single, several, other = (statistics.median(rates[key]) for key in rates)
        print(f"{name:<28} {single:11.0f} {several:11.0f} {single / several:6.2f} {other:14.0f}")


def in_turns(runs: Mapping[str, Run]) -> dict[str, float]:
    """Seconds a run by name: the median over turns that follow one another."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            run()
            count, start = 0, time.perf_counter()
            while (now := time.perf_counter()) < start + TURN:
                for _ in range(8):
                    run()
                count += 8
            times[name].append((now - start) / count)
    return {name: statistics.median(values) for name, values in times.items()}


def _rate(runs: list[Run], seconds: float = 0.15) -> float:
    """Runs a second of all threads together, each repeating one of `runs`."""
    counts = [0] * len(runs)
    end = time.perf_counter() + seconds

    def repeat(index: int) -> None:
        while time.perf_counter() < end:
            runs[index]()
            counts[index] += 1

    threads = [threading.Thread(target=repeat, args=(index,)) for index in range(len(runs))]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def _time(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _first(name: str) -> dict[str, np.ndarray]:
    return dict(next(iter(cases(name).values())))


def _peer(path: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
