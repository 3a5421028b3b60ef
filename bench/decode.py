"""`python -m bench.decode`: tokens of GPT-2 one by one, the past growing with each.

Every step has shapes that the engine has not seen: keys and values that one step returns are inputs
of the next. Each engine runs in a process of its own, pinned to the same cores; they take turns,
some tokens each, and ratios are taken turn by turn. Beside it stand steps of one shape again and
again, so the difference is what a new shape costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bench.models import collection, ensure
from bench.peers.cores import cores, wait_until_apart

MODEL = "gpt2_decode"
Step = dict[str, np.ndarray]


def opener(engine: str, threads: int):
    """A function from inputs to outputs, both by name."""
    path = ensure(MODEL)
    if engine == "sardonyx":
        import sardonyx

        session = sardonyx.load(path, threads=threads)
        return lambda feeds: dict(session.run(feeds))
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, feeds), strict=True))


def following(outputs: Step) -> Step:
    """The inputs of the next step: the likeliest token, and the present as past."""
    feeds = {name.replace("present", "past"): x for name, x in outputs.items() if name != "logits"}
    feeds["input_ids"] = outputs["logits"][:, -1:].argmax(-1)
    return feeds


def serve(engine: str, threads: int) -> None:
    """Answer requests {past, tokens, grows} with the nanoseconds of each step."""
    run = opener(engine, threads)
    for line in sys.stdin:
        request = json.loads(line)
        feeds = collection()[MODEL].inputs(np.random.default_rng(0), 1, 1, request["past"])
        feeds = following(run(feeds))
        times = []
        for _ in range(request["tokens"]):
            start = time.perf_counter_ns()
            outputs = run(feeds)
            times.append(time.perf_counter_ns() - start)
            if request["grows"]:
                feeds = following(outputs)
        chosen = int(outputs["logits"][0, -1].argmax())
        print(json.dumps({"times": times, "token": chosen}), flush=True)


def start(engine: str, threads: int, mask: set[int]) -> subprocess.Popen[str]:
    """A process that serves one engine."""
    return subprocess.Popen(
        [sys.executable, "-m", "bench.decode", "--serve", engine, "--threads", str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[1],
        preexec_fn=lambda: os.sched_setaffinity(0, mask),
    )


def main() -> int:
    """Measure both engines in turns and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.decode", description=__doc__)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--past", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--tokens", type=int, default=16, help="of a turn (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.threads)
        return 0
    engines = ("sardonyx", "onnxruntime")
    mask = cores(arguments.threads)
    workers = {engine: start(engine, arguments.threads, mask) for engine in engines}

    def ask(engine: str, **request: object) -> dict[str, list[int]]:
        worker = workers[engine]
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
        return json.loads(worker.stdout.readline())

    print(
        f"{arguments.threads} thread(s); milliseconds a token: median of {arguments.rounds} turns"
    )
    print(
        "past    growing: sardonyx  onnxruntime  ratio    one shape: sardonyx  onnxruntime  ratio"
    )
    for past in arguments.past:
        cells = []
        for grows in (True, False):
            turns: dict[str, list[float]] = {engine: [] for engine in engines}
            for _ in range(arguments.rounds):
                for engine in engines:
                    wait_until_apart(mask)
                    answer = ask(engine, past=past, tokens=arguments.tokens, grows=grows)
                    turns[engine].append(statistics.median(answer["times"]) / 1e6)
            ours, theirs = (statistics.median(turns[engine]) for engine in engines)
            ratio = statistics.median(a / b for a, b in zip(*turns.values(), strict=True))
            cells.append(f"{ours:8.2f}     {theirs:8.2f}    {ratio:5.3f}")
        print(f"{past:4} |         {cells[0]} |           {cells[1]}", flush=True)
    for worker in workers.values():
        worker.kill()
        worker.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
