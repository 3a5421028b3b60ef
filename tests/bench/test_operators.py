"""The operator sweep: its first row of every operator agrees with ONNX Runtime, and its page."""

from __future__ import annotations

import pytest
from onnxruntime.capi import onnxruntime_pybind11_state

from bench.operators.cases import WITHOUT, all_cases
from bench.operators.measure import check
from bench.operators.report import markdown

FIRST = {(case.domain, case.op): case for case in reversed(all_cases())}
DOMAINS = ("", "ai.onnx.ml", "com.microsoft")


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda case: case.name)
def test_results_agree(case):
    row, _, _ = check(case)
    assert "skipped" not in row and "error" not in row, row
    assert row["excess"] <= 1


def test_names_are_unique():
    names = [case.name for case in all_cases()]
    assert sorted(set(names)) == sorted(names)


def test_every_operator_has_a_row():
    kernels = {
        (kernel.domain, kernel.op_name)
        for kernel in onnxruntime_pybind11_state.get_all_opkernel_def()
        if "CPU" in kernel.provider and kernel.domain in DOMAINS
    }
    without = {op for ops in WITHOUT.values() for op in ops.split()}
    assert not {op for domain, op in kernels - FIRST.keys()} - without


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
    machine = {"processor": "P", "design": "", "cores": 1, "simd": []}
    page = markdown({"rows": rows, "machine": machine, "version": "1"})
    assert "at most 1.00: **50.0 %**; above 1.5: **1**" in page
    assert "| b | 1.000 | 1.000 | 1.60 |" in page
    assert "no kernel for 1 further" in page
