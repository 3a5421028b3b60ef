"""The processors that a benchmark runs on, and whether they are neighbouring cores just now.

The host of a virtual machine may run two of its processors on one core for seconds. Two threads
are then hardly faster than one, whatever they run, and nothing in the guest tells; so arithmetic on
all at once is timed against arithmetic on one. Or it may run them on cores that share no cache, one
of them beside other work: a model then takes 1.1 to 1.3 times as long with two threads, though
arithmetic in the first-level cache is as fast as ever; so it is timed how a line of the cache goes
from one to the other.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from bench.peers.machine import rates

APART = 1.35  # all at once take at most so many times as long as one; on one core it is about 2
FAR = 2.5  # a line may take so many times as long as it did at best; 26 ns were 165
PATIENCE = 300.0  # seconds of waiting, in all
LONGEST = 20.0  # seconds of waiting before one turn

#: Outcomes of `wait_until_apart`: "apart" at once, "later", and "never" within the patience.
checks: Counter[str] = Counter()
_waited = 0.0
_fastest = 0.0  # lines a second


def cores(threads: int) -> set[int]:
    """The first `threads` processors that this process may use, of different cores if possible."""
    allowed = sorted(os.sched_getaffinity(0))
    by_core: dict[str, int] = {}
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        by_core.setdefault(siblings.read_text() if siblings.exists() else str(cpu), cpu)
    chosen = list(by_core.values()) + [cpu for cpu in allowed if cpu not in by_core.values()]
    if len(chosen) < threads:
        raise SystemExit(f"{threads} threads asked for, but only {len(chosen)} processors allowed")
    return set(chosen[:threads])


def seconds(cpus: list[int]) -> float:
    """How long a fixed amount of arithmetic takes, done on each of the processors at once."""
    gate = threading.Barrier(len(cpus))
    taken = []

    def work(cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread alone
        values = np.linspace(-1, 1, 1 << 16, dtype=np.float32)
        result = np.exp(values)
        gate.wait()
        start = time.perf_counter()
        for _ in range(40):
            np.exp(values, out=result)
        taken.append(time.perf_counter() - start)

    threads = [threading.Thread(target=work, args=(cpu,)) for cpu in cpus]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(taken)


def are_apart(cpus: set[int]) -> bool:
    """Whether work on all of the processors at once takes no longer than on each alone."""
    every = sorted(cpus)
    alone = max(seconds([cpu]) for cpu in every)
    return seconds(every) <= APART * alone


def are_near(cpus: set[int]) -> bool:
    """Whether a line of the cache goes from one to the next about as fast as it ever did."""
    global _fastest
    rate = rates(f"HandOver/threads:{len(cpus)}/", cpus)["handover"]
    _fastest = max(rate, _fastest)
    return rate * FAR >= _fastest


def wait_until_apart(cpus: set[int]) -> None:
    """Return once the processors are cores of their own and near, or patience ends; `checks` counts
    both."""
    global _waited
    if len(cpus) < 2:
        return
    start = time.monotonic()
    limit = min(LONGEST, PATIENCE - _waited)
    outcome = "apart"
    while not (are_near(cpus) and are_apart(cpus)):
        outcome = "later"
        if time.monotonic() - start >= limit:
            outcome = "never"
            break
        time.sleep(0.25)
    if outcome != "apart":
        _waited += time.monotonic() - start
    checks[outcome] += 1
