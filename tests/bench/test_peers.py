"""The peer benchmark's own arithmetic, and a whole small run of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.models import cases, ensure
from bench.peers import __main__ as program
from bench.peers import cores as apart
from bench.peers import goals, machine, processor, report, roofline
from bench.peers.measure import ROOT, Failure, Result, compare, measure, measure_side_by_side
from bench.peers.outcome import machine as machine_facts
from bench.peers.work import Work


def _entry(ours: Result, reference: Result) -> dict:
    results = {"sardonyx": ours.to_json(), "onnxruntime": reference.to_json()}
    return {"model": "m", "case": "1", "threads": 1, "results": results}


def _result(*rounds: float) -> Result:
    return Result("1", load_ms=[4.0, 2.0, 3.0], peak_mib=[10.0], rounds_ms=list(rounds))


def _raw(*entries: dict, runs: int = 1) -> dict:
    engines = ["sardonyx", "onnxruntime"]
    raw = {"engines": engines, "entries": list(entries), "options": {"runs": runs}}
    return raw | {"machine": {"simd": ["avx2"]}}


def test_ratio_is_taken_turn_by_turn():
    # The machine was twice as slow in the second turn, for both.
    entry = _entry(_result(1.0, 2.0, 1.0), _result(2.0, 4.0, 2.0))
    assert report.ratio(entry, "sardonyx", "onnxruntime", report.latency) == 0.5
    assert report.ratio(entry, "sardonyx", "onnxruntime", report.load) == 1.0


def test_a_failing_peer_is_shown_with_its_message():
    entry = _entry(_result(1.0), Result(error="TypeError: no `such` operator"))
    engines = ["sardonyx", "onnxruntime"]
    lines = report.table([entry], engines, report.latency, "ms")
    assert "| m | 1 | 1.00 | fails |  |  |" in lines
    assert report.failures([entry], engines) == [
        "- ONNX Runtime, m: `TypeError: no 'such' operator`"
    ]


def test_the_best_peer_counts():
    entry = _entry(_result(1.0), _result(2.0))
    entry["results"]["ncnn"] = _result(1.25).to_json()
    engines = ["sardonyx", "onnxruntime", "openvino", "ncnn"]
    assert report.best(entry, engines, report.latency) == (0.8, "ncnn")
    lines = report.table([entry], engines, report.latency, "ms")
    assert "| m | 1 | 1.00 | 2.00 |  | 1.25 | 0.50 |  | 0.80 | **0.80** |" in lines


def test_what_is_converted_ahead_is_compared_with_an_engine_file():
    entry = _entry(_result(1.0), _result(2.0))
    entry["results"]["ncnn"] = _result(1.25).to_json()
    compiled = Result("1", load_ms=[1.5], peak_mib=[5.0])
    entry["results"]["engine_file"] = compiled.to_json()
    engines = ["sardonyx", "engine_file", "onnxruntime", "ncnn"]
    assert report.best(entry, engines, report.load) == (1.0, "onnxruntime")
    assert report.best(entry, [*engines[:2], "ncnn"], report.load) == (0.5, "ncnn")
    lines = report.table([entry], engines, report.peak, "MiB")
    assert "| Sardonyx / ONNX Runtime | Sardonyx's engine file / ncnn |" in lines[0]
    assert "| m | 1 | 10.0 | 5.00 | 10.0 | 10.0 | 1.00 | 0.50 | **1.00** |" in lines
    assert report.timed(engines) == ["sardonyx", "onnxruntime", "ncnn"]
    assert report.ratio(entry, "sardonyx", "ncnn", report.latency) == 0.8


def test_goals():
    entry = _entry(_result(1.0), _result(2.0))
    entry["model"] = "resnet50"
    other = _entry(_result(3.0), _result(2.0))
    lines = report.verdicts(_raw(entry, other), 1)
    assert "| ResNet-50 | 0.80 | 0.50 | resnet50 1 0.50 | 1 of 1 |" in lines
    assert "| no model slower | 1.00 | 0.87 | m 1 1.50 | 1 of 2 |" in lines
    assert goals.goal("resnet50_int8").group == "int8"


@pytest.mark.parametrize(
    ("share", "simd", "reached"),
    [
        (0.92, ["avx2"], "0 of 1"),
        (0.94, ["avx2"], "0 of 1 and 1 at the limit"),
        (0.94, ["avx2", "amx_bf16"], "0 of 1"),  # tiles multiply more than vectors
    ],
)
def test_a_goal_beyond_the_machine_is_met_at_its_limit(share, simd, reached):
    entry = _entry(_result(10.0), _result(10.0)) | {"model": "vit_s"}
    work = Work(operations=2e7, fewest=share * 1e7, constants=0)
    raw = _raw(entry | {"work": work._asdict(), "limits": [{"arithmetic": 1e9}]})
    raw["limits"] = {"1": {"reading": 1e9}}
    raw["machine"]["simd"] = simd
    assert f"| transformers | 0.92 | 1.00 | vit_s 1 1.00 | {reached} |" in report.verdicts(raw, 1)


def test_several_runs_are_one_result_and_shown_apart():
    ours, reference = _result(1.0, 1.0), _result(2.0, 2.0)
    ours.extend(_result(4.0, 4.0))
    reference.extend(_result(2.0, 2.0))
    entry = _entry(ours, reference)
    assert entry["results"]["sardonyx"]["rounds_ms"] == [1.0, 1.0, 4.0, 4.0]
    lines = report.verdicts(_raw(entry, runs=2), 1)
    assert "| no model slower | 1.00 | 1.25 (0.50, 2.00) | m 1 1.25 | 0 of 1 |" in lines
    ours.extend(Result(error="out of memory"))
    assert ours.error == "out of memory"


def test_twins_and_threads():
    single, twin, double = (_entry(_result(30.0), _result(1.0)) for _ in range(3))
    twin |= {"model": "m_f16", "beside_twin": [1.1, 2.0, 0.9]}
    double |= {"threads": 2, "results": {"sardonyx": _result(20.0).to_json()}}
    entries = [single, twin, double]
    assert report.twins(entries)[2:] == ["| m_f16 | 1 | 1.10 |"]
    assert report.threading(_raw(*entries))[2:] == ["| m | 1 | 1.50 |  |"]
    single["work"] = double["work"] = Work(10**9, 10**9, 10**9)._asdict()
    single["limits"], double["limits"] = [{"arithmetic": 1e11}], [{"arithmetic": 2e11}]
    raw = _raw(*entries) | {"limits": {"1": {"reading": 1e10}, "2": {"reading": 1.2e10}}}
    assert report.threading(raw)[2:] == ["| m | 1 | 1.50 | 1.20 |"]  # memory alone counts


@pytest.mark.parametrize(
    ("kernel", "attributes", "saves"),
    [
        ((3, 3), {}, 4),
        ((3, 3, 3), {}, 4),
        ((3, 3), {"dilations": [2, 2]}, 2),
        ((3, 3), {"strides": [2, 2]}, 1),
        ((3, 3), {"group": 2}, 1),
        ((7, 1), {}, 2),
        ((3,), {}, 2),
        ((5, 2), {}, 1),
        ((1, 1), {}, 1),
    ],
)
def test_what_winograd_saves(kernel, attributes, saves):
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    assert roofline.winograd_saves(node, [(1, 8), (16, 8, *kernel)]) == saves


def test_work_of_the_direct_algorithm_and_the_limits():
    floor = roofline.work(ensure("two_conv"), cases("two_conv")["3x33x47"])
    first, second = 3 * 16 * 33 * 47 * (3 * 9), 3 * 8 * 17 * 24 * (16 * 9)  # 3 of 33x47, halved
    fewest = 2 * (first // 4 + second)  # the second has strides of 2
    assert floor == Work(2 * (first + second), fewest, 4 * (16 * 28 + 8 * 145))
    entry = _entry(_result(20.0), _result(30.0)) | {"work": floor._asdict()}
    entry["limits"] = [{"arithmetic": 1e9}]
    raw = {"entries": [entry], "limits": {"1": {"reading": 1e9}}}
    row = "| m | 0.00684 | 0.00643 | 6.84 | 0.00643 | 0 | 20.0 | 34% |"
    assert row in report.beside_limits(raw, 1)


def test_the_limits_are_those_of_each_turn():
    # The machine was twice as slow in the second turn, and so were we.
    entry = _entry(_result(10.0, 20.0, 10.0), _result(9.0, 18.0, 9.0))
    entry |= {"work": Work(5e6, 5e6, 0)._asdict()}
    entry["limits"] = [{"arithmetic": rate} for rate in (1e9, 0.5e9, 1e9)]
    raw = {"entries": [entry], "limits": {"1": {"reading": 1e9}}}
    assert report.beside_limit(raw, entry, Work(**entry["work"])) == 0.5
    assert report.beside_limits(raw, 1)[-1].endswith("| 5.00 | 0 | 0 | 10.0 | 50% |")


def test_constants_behind_nodes_are_read_too(tmp_path):
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]> g (float[2,6] x) => (float[2,5] y)
    <int64[2] s = {6, 5}> {
      c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0]> ()
      w = Expand(c, s)
      y = MatMul(x, w)
    }
    """)
    onnx.save(model, tmp_path / "m.onnx")
    floor = roofline.work(tmp_path / "m.onnx", {"x": np.ones((2, 6), np.float32)})
    count = 2 * 2 * 5 * 6
    assert floor == Work(count, count, constants=4 * 6 * 5)


def test_products_of_one_row_read_their_weights():
    floor = roofline.work(ensure("gpt2_decode"), cases("gpt2_decode")["1x1x128"])
    assert floor.narrow == pytest.approx(floor.narrow_constants / 2, rel=0.01)  # 2 for 4 bytes
    assert floor.narrow_constants == floor.constants
    times = report.least(floor, {"arithmetic": 1e15, "reading": 1e10})
    assert times[0] == pytest.approx(times[1], rel=0.01)


def test_recurrent_steps_read_their_weights_again():
    floor = roofline.work(ensure("gru"), cases("gru")["1x100"])
    recurrent = 3 * 256 * 256  # of each of two layers
    assert floor.of_steps == 2 * 100 * 2 * recurrent
    assert (floor.small, floor.large) == (4 * 100 * 2 * recurrent, 0)
    entry = _entry(_result(20.0), _result(30.0)) | {"work": floor._asdict()}
    entry["limits"] = [{"arithmetic": 1e11, "smallsteps": 1e11}]
    raw = {"entries": [entry], "limits": {"1": {"reading": 1e10}}}
    least = 1e3 * (floor.operations - floor.of_steps + floor.small) / 1e11
    assert report.beside_limits(raw, 1)[-1].endswith(f"| 20.0 | {least / 20:.0%} |")


@pytest.mark.parametrize("form", ["QDQ", "QLinearConv"])
def test_work_on_bytes(tmp_path, form):
    """A convolution of bytes in both forms: 3x3, 4 channels to 8 over 5x6 pixels."""
    text = """
    <ir_version: 8, opset_import: ["" : 17]> g (uint8[1,4,5,6] x) => (%s y)
    <float s = {0.5}, uint8 z = {3}, int8 zw = {0}> {%s}
    """
    qdq = "f = DequantizeLinear(x, s, z) v = DequantizeLinear(w, s, zw) y = Conv(f, v)"
    linear = "y = QLinearConv(x, s, z, w, s, zw, s, z)"
    model = onnx.parser.parse_model(
        text % (("float[1,8,3,4]", qdq) if form == "QDQ" else ("uint8[1,8,3,4]", linear))
    )
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.ones((8, 4, 3, 3), np.int8), "w")
    )
    onnx.save(model, tmp_path / "m.onnx")
    floor = roofline.work(tmp_path / "m.onnx", {"x": np.ones((1, 4, 5, 6), np.uint8)})
    count = 2 * 8 * 3 * 4 * 4 * 9
    fewest = count // 2  # a quarter of the products, of int16
    assert floor == Work(count, fewest, constants=8 * 4 * 9, on_bytes=count, fewest_on_bytes=fewest)
    limit = {"arithmetic": 1e6, "bytes": 4e6, "reading": 1e9}
    assert report.least(floor, limit)[0] == pytest.approx(1e3 * count / 4e6)


def test_work_inside_branches_is_not_counted():
    assert roofline.work(ensure("nested_if"), cases("nested_if")["1000"]) is None


def test_wrong_numbers_are_marked():
    ours = _result(1.0)
    compare(ours, [np.array([1.0, 2.5])], [np.array([1.0, 2.0])])
    assert ours.deviation == 0.5
    entry = _entry(ours, _result(1.0))
    assert "1.00 (!)" in report.table([entry], ["sardonyx"], report.latency, "ms")[2]


@pytest.mark.parametrize("outputs", [[np.zeros((2, 1))], [np.array([1.0, np.nan])], []])
def test_outputs_of_another_kind_are_an_error(outputs):
    result = _result(1.0)
    compare(result, outputs, [np.zeros(2)])
    assert result.error


@pytest.mark.parametrize(
    ("value", "text"), [(0.00123, "0.00123"), (1.234, "1.23"), (45.67, "45.7"), (1234.5, "1234")]
)
def test_three_digits(value, text):
    assert report.number(value) == text


def test_cores_are_among_the_allowed():
    assert apart.cores(1) <= os.sched_getaffinity(0)


def test_turns_wait_until_processors_are_cores_of_their_own(monkeypatch):
    answers = iter([True, False, True, False])
    monkeypatch.setattr(apart, "checks", Counter())
    monkeypatch.setattr(apart, "are_apart", lambda cpus: next(answers))
    monkeypatch.setattr(apart, "are_near", lambda cpus: True)
    apart.wait_until_apart({0})  # alone: nothing to ask
    apart.wait_until_apart({0, 1})
    apart.wait_until_apart({0, 1})
    monkeypatch.setattr(apart, "LONGEST", 0.0)
    apart.wait_until_apart({0, 1})
    assert apart.checks == {"apart": 1, "later": 1, "never": 1}
    told = report.apart(apart.checks)
    assert "each of 3 turns" in told
    assert "1 waited" in told
    assert "1 were measured all the same" in told


@pytest.mark.parametrize(("both", "are_apart"), [(1.1, True), (1.9, False)])
def test_processors_are_apart_if_both_take_as_long_as_one(monkeypatch, both, are_apart):
    monkeypatch.setattr(apart, "seconds", lambda cpus: both if len(cpus) == 2 else 1.0)
    assert apart.are_apart({0, 1}) == are_apart


def test_processors_are_near_if_a_line_goes_as_fast_as_ever(monkeypatch):
    rates = iter([30e6, 40e6, 10e6, 35e6])
    monkeypatch.setattr(apart, "_fastest", 0.0)
    monkeypatch.setattr(apart, "rates", lambda benchmarks, cpus: {"handover": next(rates)})
    assert [apart.are_near({0, 1}) for _ in range(4)] == [True, True, False, True]


def test_rates_of_the_machine():
    cpus = apart.cores(1)
    found = machine.rates("^(Arithmetic/threads:1|HandOver/threads:2)/", cpus)
    assert found.keys() == {"arithmetic"}  # one processor has nobody to hand over to
    assert found["arithmetic"] > 1e8


def test_limits_are_those_that_the_work_needs():
    cpus = apart.cores(1)
    assert machine.limits(Work(1, 1, 1), cpus).keys() == {"arithmetic"}
    work = Work(1, 1, 1, of_steps=1, small=1, on_bytes=1)
    assert machine.limits(work, cpus).keys() == {"arithmetic", "bytes", "smallsteps"}


def test_arithmetic_takes_time():
    assert apart.seconds([min(os.sched_getaffinity(0))]) > 0


def test_measures_in_turns():
    engines = dict.fromkeys(("sardonyx", "engine_file", "onnxruntime"), sys.executable)
    feeds = cases("two_conv")["3x33x47"]
    settings = {"threads": 1, "loads": 2, "rounds": 2, "seconds": 0.01, "limit": 60}
    beside: list[set[int]] = []
    settings["beside"] = beside.append
    results = measure(engines, "onnxruntime", ensure("two_conv"), feeds, **settings)
    assert [len(cpus) for cpus in beside] == [1, 1]
    for engine, result in results.items():
        is_timed = engine != "engine_file"
        assert not result.error
        assert len(result.load_ms) == 2
        assert len(result.rounds_ms) == 2 * is_timed
        assert result.runs >= 2 * is_timed
        assert result.peak_mib[0] > 10
        assert result.excess <= 1
        json.dumps(result.to_json())


def test_plot_needs_nothing_that_the_peers_environment_lacks():
    code = "import sys; sys.modules.update(onnx=None, onnxruntime=None); import bench.peers.report"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_two_models_side_by_side():
    models = [ensure("mobilenet_v2_f16"), ensure("mobilenet_v2")]
    feeds = cases("mobilenet_v2")["1"]
    settings = {"threads": 1, "rounds": 2, "seconds": 0.01, "limit": 60}
    turns = measure_side_by_side(sys.executable, "sardonyx", models, feeds, **settings)
    assert [len(of_one) for of_one in turns] == [2, 2]
    assert all(time > 0 for of_one in turns for time in of_one)
    with pytest.raises(Failure, match=r"none\.onnx"):
        measure_side_by_side(sys.executable, "sardonyx", [Path("none.onnx")], feeds, **settings)


def test_a_run_broken_off_leaves_those_before_it(monkeypatch, tmp_path):
    counts = iter(range(2))

    def measured(*args, beside, **kwargs):
        if next(counts):
            raise KeyboardInterrupt
        beside({0})
        return {"sardonyx": _result(1.0), "onnxruntime": _result(2.0)}

    monkeypatch.setattr(program, "measure", measured)
    monkeypatch.setattr(program, "interpreters", lambda engines: dict.fromkeys(engines, ""))
    monkeypatch.setattr(program.machine, "limits", lambda work, cpus: {"arithmetic": 1e11})
    monkeypatch.setattr(program.machine, "reading", lambda threads: {"reading": 1e10})
    pages = []
    monkeypatch.setattr(program, "publish", lambda raw, target, page, plot: pages.append(page))
    options = "--models two_conv --engines sardonyx,onnxruntime --threads 1 --runs 2 --quick"
    monkeypatch.setattr(sys, "argv", ["peers", *options.split(), "--out", str(tmp_path)])
    with pytest.raises(KeyboardInterrupt):
        program.main()
    (page,) = pages
    assert "(1 run with 3 turns" in page
    assert "| two_conv | 1x128x128 | 1.00 | 2.00 | 0.50 | **0.50** |" in page


def test_the_overview_shows_every_kind_of_machine(tmp_path):
    for kind, share in (("wide", 0.5), ("narrow", 0.7)):
        raw = _raw(_entry(_result(share), _result(1.0)))
        raw |= {
            "machine": machine_facts() | {"processor": f"P {kind}", "design": ""},
            "date": "2026-11-24T10:00",
        }
        raw["threads"] = [1]
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "benchmarks.json").write_text(json.dumps(raw))
    program.write_overview(tmp_path)
    narrow, wide = (tmp_path / "benchmarks.md").read_text().split("\n## ")[1:]
    for text, kind, share in ((narrow, "narrow", "0.70"), (wide, "wide", "0.50")):
        assert text.startswith(f"P {kind}")
        assert f"({kind}/benchmarks.svg)" in text
        assert f"| others | 1.00 | {share} | m 1 {share} | 1 of 1 |" in text


@pytest.mark.parametrize(
    ("vendor", "family", "model", "design"),
    [
        ("AuthenticAMD", "25", "1", "Zen 3"),
        ("AuthenticAMD", "25", "17", "Zen 4"),
        ("GenuineIntel", "6", "207", "Emerald Rapids"),
        ("GenuineIntel", "6", "1", ""),
        ("another", "6", "207", ""),
    ],
)
def test_a_processor_is_known_by_its_numbers(vendor, family, model, design):
    facts = {"vendor_id": vendor, "cpu family": family, "model": model}
    assert processor.design(facts) == design
    assert processor.design({}) == ""


def test_a_processor_behind_another_number_is_known_by_its_tiles():
    facts = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "167"}
    assert processor.design(facts) == ""
    facts |= {"flags": "avx512f amx_tile", "instruction cache": "64K"}
    assert processor.design(facts) == "Granite Rapids"
    assert processor.design(facts | {"instruction cache": "32K"}) == ""
    assert processor.design(facts | {"model": "207"}) == "Emerald Rapids"


def test_a_crash_is_a_result():
    engines = {"onnxruntime": "/bin/false"}
    settings = {"threads": 1, "loads": 1, "rounds": 1, "seconds": 0.01, "limit": 60}
    results = measure(engines, "onnxruntime", ensure("two_conv"), {}, **settings)
    assert results["onnxruntime"].error == "crashed (exit code 1): no message"


def test_what_a_silent_worker_has_started_ends_with_it(tmp_path):
    script, child = tmp_path / "python", tmp_path / "child"
    script.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {child}\nwait\n")
    script.chmod(0o755)
    settings = {"threads": 1, "loads": 1, "rounds": 1, "seconds": 0.01, "limit": 1}
    results = measure(
        {"onnxruntime": str(script)}, "onnxruntime", ensure("two_conv"), {}, **settings
    )
    assert results["onnxruntime"].error == "no answer within 1 s"
    status = Path(f"/proc/{int(child.read_text())}/status")
    for _ in range(100):
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.05)
    pytest.fail("it still runs")
