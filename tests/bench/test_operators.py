"""The operator sweep: its first row of every operator agrees with ONNX Runtime, and its page."""

from __future__ import annotations

import pytest

from bench.operators.cases import all_cases
from bench.operators.measure import check
from bench.operators.report import markdown

FIRST = {case.op: case for case in reversed(all_cases())}


@pytest.mark.parametrize("op", FIRST)
def test_results_agree(op):
    row, _, _ = check(FIRST[op])
    assert "skipped" not in row and "error" not in row, row
    assert row["excess"] <= 1


def test_names_are_unique():
    names = [case.name for case in all_cases()]
    assert sorted(set(names)) == sorted(names)


def test_page_counts_rows():
    def row(name: str, ratio: float) -> dict:
        return {
            "name": name,
            "op": "Abs",
            "ratio": ratio,
            "ours_ms": 1,
            "theirs_ms": 1,
            "excess": 0,
        }

    rows = {"1": {"a": row("a", 0.5), "b": row("b", 1.6), "c": {"name": "c", "skipped": "no"}}}
    machine = {"processor": "P", "cores": 1, "simd": []}
    page = markdown({"rows": rows, "machine": machine, "version": "1"})
    assert "at most 1.00: **50.0 %**; above 1.5: **1**" in page
    assert "| b | 1.000 | 1.000 | 1.60 |" in page
    assert "no kernel for 1 further" in page
