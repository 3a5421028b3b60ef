"""Report of coverage of the ONNX backend suite, printed at the end of a run that had it.

The suite's own plugin counts within one process; this one also adds up what the processes of
pytest-xdist counted. SARDONYX_RECORD_SUITE names a file that receives the outcome of every case and
the report, for `tools/write_coverage.py`.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SUITE = "tests/backend/test_suite.py::"

# Bucket ("loaded", "passed") -> operator -> domain and, by attribute, the values that it had.
Counts = dict[str, dict[str, dict[str, Any]]]


class Recorder:
    def __init__(self) -> None:
        self.marks: dict[str, Any] = {}
        self.passed: set[str] = set()
        self.outcomes: dict[str, dict[str, str]] = {}
        self.workers: list[Counts] = []


def _recorder(config: pytest.Config) -> Recorder:
    return config.stash[RECORDER]


RECORDER = pytest.StashKey[Recorder]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "onnx_coverage(model, category): case of the ONNX suite")
    config.stash[RECORDER] = Recorder()
    config.pluginmanager.register(Hooks(_recorder(config)), "sardonyx-coverage")


class Hooks:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        mark = item.get_closest_marker("onnx_coverage")
        if mark is not None:
            self.recorder.marks[item.nodeid] = mark

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.nodeid.startswith(SUITE):
            return
        if report.when == "call" and report.outcome == "passed":
            self.recorder.passed.add(report.nodeid)
        name = report.nodeid.split("::")[-1]
        if name.endswith("_cpu") and (report.when == "call" or report.outcome == "failed"):
            message = getattr(report, "wasxfail", "") or report.longreprtext
            self.recorder.outcomes[name] = {"outcome": report.outcome, "message": message}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["onnx_coverage"] = _count(self.recorder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        counts = getattr(node, "workeroutput", {}).get("onnx_coverage")
        if counts:
            self.recorder.workers.append(counts)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        counts = [*self.recorder.workers, _count(self.recorder)]
        if not any(count["loaded"] for count in counts):
            return
        text = _report(counts)
        terminalreporter.write_line(text)
        target = os.environ.get("SARDONYX_RECORD_SUITE")
        if target:
            record = {"outcomes": self.recorder.outcomes, "report": text}
            Path(target).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _count(recorder: Recorder) -> Counts:
    """Count the operators and attributes of the cases that this process ran."""
    if not recorder.marks:
        return {"loaded": {}, "passed": {}}
    from onnx.backend.test.report.coverage import Coverage

    coverage = Coverage()
    for nodeid, mark in recorder.marks.items():
        model = mark.args[0][0] if isinstance(mark.args[0], list) else mark.args[0]
        if model is None:
            continue
        coverage.add_proto(model, "loaded", False)
        if nodeid in recorder.passed:
            coverage.add_proto(model, "passed", False)
    return {
        bucket: {
            name: {
                "domain": node.schema.domain,
                "attributes": {
                    attribute: sorted(found.values)
                    for attribute, found in node.attr_coverages.items()
                },
            }
            for name, node in nodes.items()
        }
        for bucket, nodes in coverage.buckets.items()
    }


def _report(counts: list[Counts]) -> str:
    """Add up the counts and let the suite's own report print them."""
    from onnx import defs
    from onnx.backend.test.report.coverage import Coverage

    coverage = Coverage()
    for count in counts:
        for bucket, nodes in count.items():
            for name, found in nodes.items():
                _merge(coverage.buckets[bucket][name], name, found, defs)
    for bucket, nodes in coverage.buckets.items():
        coverage.buckets[bucket] = dict(sorted(nodes.items()))
    writer = io.StringIO()
    coverage.report_text(writer)
    return writer.getvalue().rstrip()


def _merge(node: Any, name: str, found: Mapping[str, Any], defs: Any) -> None:
    if node.op_type is None:
        node.op_type = name
        node.schema = defs.get_schema(name, domain=found["domain"])
    for attribute, values in found["attributes"].items():
        node.attr_coverages[attribute].name = attribute
        node.attr_coverages[attribute].values.update(values)
