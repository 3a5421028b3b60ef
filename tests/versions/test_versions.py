"""Every type of every version of every operator, driven from the standard's table of schemas.

There is no list of exceptions: an operator without cases, or an entry that fails, is an error.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import onnx
import pytest

import sardonyx
from tests.versions.case import Case, Entry, cases_of, operator_of, twice
from tests.versions.children import in_children
from tests.versions.compare import difference
from tests.versions.model import build, output_types
from tests.versions.oracle import wanted
from tests.versions.page import entries_of, notes_of, text
from tests.versions.schemas import FUNCTIONS, SCHEMAS

# A folder for the outcomes, for tools/write_operators.py.
RECORD = os.environ.get("SARDONYX_RECORD_VERSIONS")


def run_entry(entry: Entry) -> list[str]:
    """Run all cases of an entry; return their notes."""
    found = cases_of(entry)
    for case in found:
        try:
            _run_case(entry, case)
        except Exception as error:
            label = f"case '{case.name}': " if case.name else ""
            message = f"{label}{type(error).__name__}: {error}"
            raise AssertionError(message) from error
    return [case.note for case in found if case.note]


def _run_case(entry: Entry, case: Case) -> None:
    model, values = build(entry, case, shapes=True)
    types = output_types(entry, case)
    # GroupNormalization-18 is what exporters wrote for years, so it runs all the same.
    if entry.schema.deprecated and entry.schema.name != "GroupNormalization":
        with pytest.raises(sardonyx.Error):
            sardonyx.load(model)
        return
    if case.refused:
        with pytest.raises(sardonyx.Error, match=case.refused):
            sardonyx.load(model).run(values)
        return
    oracle = None
    for shapes in (True, False):
        if not shapes:
            model, values = build(entry, case, shapes=False)
        results = list(sardonyx.load(model, threads=1).run(values).values())
        oracle = oracle or wanted(case, model, values, types)
        known = "" if shapes else "without sizes: "
        for position, (actual, right) in enumerate(zip(results, oracle, strict=True)):
            found = difference(actual, right, case.rtol, case.atol, f"{known}output {position}")
            if found:
                raise AssertionError(found)


def _name(schema: onnx.defs.OpSchema) -> str:
    return f"{operator_of(schema)}-{schema.since_version}"


@pytest.mark.parametrize("schema", SCHEMAS, ids=_name)
def test_every_type(schema: onnx.defs.OpSchema):
    assert (schema.domain, schema.name) in FUNCTIONS, f"{operator_of(schema)} has no cases"
    entries = entries_of(schema)
    outcomes = in_children(entries, run_entry)
    rows = {str(entry): outcome for entry, outcome in zip(entries, outcomes, strict=True)}
    if RECORD:
        path = Path(RECORD) / f"{_name(schema).replace('::', '.')}.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
    broken = [f"{entry}: {failure}" for entry, (_, failure) in rows.items() if failure]
    assert not broken, "\n".join(broken)


def test_every_case_function_has_an_operator_of_its_own():
    known = {(schema.domain, schema.name) for schema in SCHEMAS}
    assert sorted(key for key in FUNCTIONS if key not in known) == []
    assert twice == []


def test_page_is_current():
    page = Path(__file__).parents[2] / "docs" / "operators.md"
    now = text(SCHEMAS, notes_of(SCHEMAS, FUNCTIONS))
    assert page.read_text(encoding="utf-8") == now, "run ./dev coverage"
