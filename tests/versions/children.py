"""Work that may crash, done in child processes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import signal
import struct
import traceback
from collections.abc import Callable, Sequence
from typing import Any


def in_children(
    jobs: Sequence[Any],
    function: Callable[[Any], Any],
    *,
    seconds: int = 30,
    memory: int | None = None,
) -> list[tuple[Any, str]]:
    """Call a function for each job in a child process.

    One child does job after job; another takes over where it died.

    Returns
    -------
    list
        For each job what the function returned (None if it failed), and how it failed ("" if not).
    """
    results: list[tuple[Any, str]] = []
    while len(results) < len(jobs):
        results += _one_child(jobs[len(results) :], function, seconds, memory)
    return results


def _one_child(jobs, function, seconds: int, memory: int | None) -> list[tuple[Any, str]]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            _work(jobs, function, seconds, memory, os.fdopen(writer, "wb"))
        finally:
            os._exit(0)
    os.close(writer)
    results = []
    with os.fdopen(reader, "rb") as pipe:
        while len(head := pipe.read(8)) == 8:
            results.append(pickle.loads(pipe.read(struct.unpack("q", head)[0])))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if len(results) < len(jobs):
        hung = -code == signal.SIGALRM
        death = f"took over {seconds} s" if hung else f"the process died of signal {-code}"
        results.append((None, death))
    return results


def _work(jobs, function, seconds: int, memory: int | None, pipe) -> None:
    faulthandler.disable()  # a crash is an outcome here, told to the parent
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        with open("/proc/self/statm", encoding="ascii") as file:
            present = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (present + memory,) * 2)
    with open(os.devnull, "w") as null, contextlib.redirect_stderr(null):
        os.dup2(null.fileno(), 2)
        for job in jobs:
            signal.alarm(seconds)  # whose default is to end the process
            try:
                outcome = (function(job), "")
            except BaseException as error:
                outcome = (
                    None,
                    "".join(traceback.format_exception_only(error)).strip() or "failed",
                )
            signal.alarm(0)
            content = pickle.dumps(outcome)
            pipe.write(struct.pack("q", len(content)) + content)
            pipe.flush()
