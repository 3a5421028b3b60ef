"""The ONNX backend test suite, at its own tolerances, with nothing left out.

Seven cases cannot be passed honestly, for the reasons in `IMPOSSIBLE`; what they are about is
proved elsewhere, as said there. With SARDONYX_REMOTE the cases run in another process (remote.py).
"""

from __future__ import annotations

import faulthandler
import functools
import os
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import pytest

RANDOM = (
    "expects particular random draws, which the case itself calls informational; "
    "tests/python/test_random.py proves distribution, type, shape and repetition by seed"
)
IMPOSSIBLE = {
    **{
        f"test_bernoulli{variant}_cpu": RANDOM
        for variant in ("", "_double", "_double_expanded", "_expanded", "_seed", "_seed_expanded")
    },
    "test_loop16_seq_none_cpu": "the suite's own comparison raises for any result; "
    "tests/python/test_loop_of_optional.py proves the values",
}
PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
REMOTE = "SARDONYX_REMOTE" in os.environ
SECONDS = 1200 if REMOTE else 120  # for one case: most take milliseconds, an emulator is slow

# The suite keeps inputs that it makes for its own models; they must not land in a user's home.
os.environ.setdefault("ONNX_MODELS", os.path.join(tempfile.gettempdir(), "sardonyx-onnx-models"))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the suite divides by zero on purpose while it makes its cases
    import onnx.backend.test

    if REMOTE:
        from tests.backend.remote import Remote as backend
    else:
        from sardonyx import backend

    SUITE = onnx.backend.test.BackendTest(backend, __name__).enable_report()
    CASES = SUITE.test_cases


def _guarded(name: str, function):
    """Make a case end in time; one that is impossible has to fail."""

    @functools.wraps(function)
    def run(self):
        # A case that hangs ends the process, which pytest-xdist reports and replaces.
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
        try:
            function(self)
        except unittest.SkipTest as skip:
            pytest.fail(f"{name} was skipped: {skip}", pytrace=False)
        except Exception:
            if name in IMPOSSIBLE:
                pytest.xfail(IMPOSSIBLE[name])
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
        if IMPOSSIBLE.get(name) == RANDOM:
            pytest.xfail(RANDOM)  # our draws were those of the case, by chance
        if name in IMPOSSIBLE:
            pytest.fail(f"{name} passes: it is not impossible", pytrace=False)

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


def test_impossible_cases_exist():
    names = {name for case in TESTS.values() for name in vars(case) if name.startswith("test_")}
    assert sorted(IMPOSSIBLE.keys() - names) == []


def test_coverage_page_is_current():
    page = PAGE.read_text(encoding="utf-8")
    cases = sum(name.startswith("test_") for case in TESTS.values() for name in vars(case))
    assert f"- Cases that pass: {cases - len(IMPOSSIBLE)}\n" in page
