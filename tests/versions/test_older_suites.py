"""The backend suites of older releases of onnx, at their own tolerance.

`older_suites_failing.txt` lists what does not pass yet and may only shrink; `corrected.txt` lists
cases whose results the standard itself corrected later, with what did.
"""

from __future__ import annotations

import functools
import json
import os
import zipfile
from pathlib import Path

import pytest

import sardonyx
from tests.versions.children import in_children
from tests.versions.compare import difference
from tests.versions.older_suites import RELEASES, OldCase, new_cases, wheel_of

LIST = Path(__file__).with_name("older_suites_failing.txt")
LISTED = set(LIST.read_text(encoding="utf-8").split())
CORRECTED = {
    line.split(" | ")[0].strip()
    for line in Path(__file__).with_name("corrected.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
}
RECORD = os.environ.get("SARDONYX_RECORD_VERSIONS")

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
    if RECORD:
        Path(RECORD, f"suite-{release}.json").write_text(json.dumps(failures), encoding="utf-8")
        return
    fresh = [f"{name}: {why}" for name, why in failures.items() if why]
    fresh = [line for line in fresh if line.split(": ")[0] not in LISTED | CORRECTED]
    mended = [name for name, why in failures.items() if not why and name in LISTED | CORRECTED]
    assert not fresh, "\n".join(fresh)
    assert not mended, f"these pass, remove them from the lists: {', '.join(mended)}"


def test_list_is_sorted():
    lines = LIST.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
