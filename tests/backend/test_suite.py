"""The ONNX backend test suite, at its own tolerances.

`failing.txt` names the cases that do not pass yet. A listed case that passes is an error, so the
list only shrinks; `./dev coverage` writes it anew, with the page of coverage.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import pickle
import signal
import sys
import tempfile
import traceback
import unittest
import warnings
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("failing.txt")
LISTED = set(LIST.read_text(encoding="utf-8").split())
RECORDING = (
    "SARDONYX_RECORD_SUITE" in os.environ
)  # every outcome is wanted, the list does not count
SECONDS = 120  # for one case: most take milliseconds

# The suite keeps inputs that it makes for its own models; they must not land in a user's home.
os.environ.setdefault("ONNX_MODELS", os.path.join(tempfile.gettempdir(), "sardonyx-onnx-models"))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the suite divides by zero on purpose while it makes its cases
    import onnx.backend.test

    import sardonyx.backend

    SUITE = onnx.backend.test.BackendTest(sardonyx.backend, __name__).enable_report()
    CASES = SUITE.test_cases


def _fails_in_child(function, *arguments) -> str:
    """Run a case in a forked process, where it may crash; return how it fails, or nothing."""
    holder = next(mark.args[0] for mark in function.pytestmark if mark.name == "onnx_coverage")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status, message = 1, ""
        try:
            faulthandler.disable()  # a crash is an outcome here, told to the parent
            signal.alarm(SECONDS)  # whose default is to end the process
            os.close(reader)
            function(*arguments)
            status = 0
        except BaseException as error:
            message = "".join(traceback.format_exception_only(error)).strip()
        finally:
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump((message[:60_000], holder[0] and holder[0].SerializeToString()), pipe)
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"the process died of signal {-code}"
    message, model = pickle.loads(content)
    holder[0] = model and onnx.load_from_string(model)  # which the report of coverage counts
    return message or "failed" if code else ""


def _guarded(name: str, function):
    """Make a case obey the list and end in time."""

    @functools.wraps(function)
    def run(self):
        if name in LISTED or RECORDING:
            failure = _fails_in_child(function, self)
            if failure:
                pytest.xfail(failure)
            if not RECORDING:
                pytest.fail(f"{name} passes: remove it from {LIST.name}", pytrace=False)
        # A case that hangs ends the process, which pytest-xdist reports and replaces.
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
        try:
            function(self)
        except unittest.SkipTest as skip:
            pytest.fail(f"{name} was skipped: {skip}", pytrace=False)
        finally:
            faulthandler.cancel_dump_traceback_later()

    return run


def _on_cpu(case: type[unittest.TestCase]) -> type[unittest.TestCase]:
    """The tests of a case for the device that there is."""
    functions = {
        name: _guarded(name, function)
        for name, function in vars(case).items()
        if name.startswith("test_") and name.endswith("_cpu")
    }
    return type(case.__name__, (unittest.TestCase,), {"__module__": __name__, **functions})


TESTS = {name: _on_cpu(case) for name, case in CASES.items()}
globals().update(TESTS)


def test_every_listed_case_exists():
    names = {name for case in TESTS.values() for name in vars(case) if name.startswith("test_")}
    assert sorted(LISTED - names) == []


def test_list_is_sorted():
    lines = LIST.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))


def test_coverage_page_tells_the_length_of_the_list():
    page = LIST.parents[2] / "docs" / "coverage.md"
    assert f"Cases that do not pass yet: {len(LISTED)}" in page.read_text(encoding="utf-8")
