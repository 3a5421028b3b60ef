"""The benchmark of scaling: its page, and several sessions at once."""

from __future__ import annotations

import sys
import time

from bench.models import cases, collection, ensure
from bench.peers.measure import Result, measure
from bench.peers.worker import together
from bench.scaling.__main__ import curves, page


def test_curves_run_models_of_the_collection():
    for curve in curves():
        assert curve.model in collection()
        assert [point.x for point in curve.points] == sorted({point.x for point in curve.points})


def test_the_page_has_a_table_a_curve():
    good = Result("1", rounds_ms=[2.0, 3.0, 4.0]).to_json()
    points = [
        {"x": 1000, "results": {"sardonyx": good, "onnxruntime": Result(error="no").to_json()}}
    ]
    raw = {
        "machine": {
            "processor": "P",
            "design": "Q",
            "cores": 2,
            "system": "S",
            "python": "3",
        },
        "date": "2026",
        "versions": {"sardonyx": "1"},
        "curves": [{"name": "rows", "model": "m", "axis": "rows", "points": points}],
    }
    lines = page(raw).splitlines()
    assert "| 1,000 | 3.00 | fails |" in lines
    assert "- Machine: P (Q), 2 cores allowed" in lines


def test_runs_together_share_their_time():
    runs = [lambda: time.sleep(0.02)] * 4
    each = together(runs, time.perf_counter_ns() + 100_000_000)
    assert 0.004e9 < each < 0.015e9


def test_several_sessions_in_one_process():
    feeds = cases("two_conv")["3x33x47"]
    settings = {"threads": 1, "loads": 1, "rounds": 2, "seconds": 0.01, "limit": 60}
    engines = {"onnxruntime": sys.executable, "sardonyx": sys.executable}
    results = measure(engines, "onnxruntime", ensure("two_conv"), feeds, sessions=2, **settings)
    for result in results.values():
        assert not result.error
        assert len(result.rounds_ms) == 2
        assert result.excess <= 1
