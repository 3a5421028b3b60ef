"""The backend suites of older releases of onnx, at their own tolerance.

Every case passes but those of `corrected.txt`: the standard itself corrected them later, or they
hold random draws. Each row says since when and why.
"""

from __future__ import annotations

import functools
import zipfile
from pathlib import Path

import pytest

import sardonyx
from tests.versions.children import in_children
from tests.versions.compare import difference
from tests.versions.older_suites import RELEASES, OldCase, new_cases, wheel_of

ROWS = [
    [part.strip() for part in line.split(" | ")]
    for line in Path(__file__).with_name("corrected.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
CORRECTED = {name for name, _, _ in ROWS}
# A few draws of ours may well be those that the case holds.
RANDOM = {name for name, _, why in ROWS if why.startswith("random draws")}

RTOL, ATOL = 1e-3, 1e-7  # of onnx.backend.test.runner


@functools.cache
def _open(release: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel_of(release))


def _run(case: OldCase) -> None:
    wheel = _open(case.release)
    session = sardonyx.load(case.model(wheel), threads=1)
    sets = list(case.data_sets(wheel))
    assert sets, "no data"
    for inputs, outputs in sets:
        results = list(session.run(inputs).values())
        for i, (actual, right) in enumerate(zip(results, outputs, strict=True)):
            if found := difference(actual, right, RTOL, ATOL, f"output {i}"):
                raise AssertionError(found)


@pytest.mark.parametrize("release", RELEASES)
def test_release(release: str):
    cases = new_cases(release)
    outcomes = in_children(cases, _run)
    _open.cache_clear()
    failures = {str(case): failure for case, (_, failure) in zip(cases, outcomes, strict=True)}
    broken = [f"{name}: {why}" for name, why in failures.items() if why and name not in CORRECTED]
    assert not broken, "\n".join(broken)
    mended = [name for name, why in failures.items() if not why and name in CORRECTED - RANDOM]
    assert not mended, f"these pass, remove them from corrected.txt: {', '.join(mended)}"
