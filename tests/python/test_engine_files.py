"""`sardonyx.compile` and engine files: the same results, refusals, recompiling, tuning."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import helper, numpy_helper

import sardonyx

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((1, 8, 12, 12), dtype=np.float32)


def convolutions(size: int | str = 12) -> onnx.ModelProto:
    """x -> Conv -> Relu (r) -> Conv -> + b (default 0) -> y."""
    weights = [
        numpy_helper.from_array(
            RANDOM.standard_normal((64, channels, 3, 3), dtype=np.float32), f"w{i}"
        )
        for i, channels in enumerate((8, 64))
    ]
    weights.append(numpy_helper.from_array(np.zeros((1, 64, 1, 1), np.float32), "b"))
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "rectify"),
        helper.make_node("Conv", ["r", "w1"], ["s"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["s", "b"], ["y"], "bias"),
        helper.make_node("Neg", ["x"], ["z"], "negate"),
    ]
    inputs = [small.value("x", ("n", 8, size, size)), small.value("b", (1, 64, 1, 1))]
    outputs = [small.value("y", None), small.value("z", None)]
    return small.model(nodes, inputs, outputs, weights)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "models" / "model.onnx"
    path.parent.mkdir()
    onnx.save(convolutions(), path)
    return path


@pytest.fixture
def engine(model, tmp_path):
    path = tmp_path / "model.sdx"
    sardonyx.compile(model, path, shapes={"x": [1, 8, 12, 12]})
    return path


def test_the_same_session_as_the_model(model, engine):
    from_model = sardonyx.load(model)
    from_engine = sardonyx.load(engine)
    assert from_engine.inputs == from_model.inputs
    assert from_engine.outputs == from_model.outputs
    assert from_engine.metadata == from_model.metadata
    assert from_engine.graph_text() == from_model.graph_text()
    for batch in (1, 3, 1):
        x = np.repeat(X, batch, axis=0)
        expected = from_model.run({"x": x})
        for name, value in from_engine.run({"x": x}).items():
            np.testing.assert_array_equal(value, expected[name])


def test_needs_no_model_for_its_outputs(model, engine):
    expected = sardonyx.load(model).run({"x": X})
    model.unlink()
    session = sardonyx.load(engine)
    outputs = session.run({"x": X}, ["z", "y"])
    assert list(outputs) == ["z", "y"]
    np.testing.assert_array_equal(outputs["y"], expected["y"])


def test_other_values_come_from_the_model(model, engine):
    b = np.full((1, 64, 1, 1), 5, np.float32)
    from_model = sardonyx.load(model)
    session = sardonyx.load(engine)
    for given, names in (({"x": X}, ["r"]), ({"x": X, "b": b}, None)):
        expected = from_model.run(given, names)
        for name, value in session.run(given, names).items():
            np.testing.assert_array_equal(value, expected[name])
    model.write_bytes(convolutions().SerializeToString())
    with pytest.raises(sardonyx.NotFoundError, match=r"model\.onnx has changed since"):
        sardonyx.load(engine).run({"x": X}, ["r"])
    model.unlink()
    with pytest.raises(sardonyx.NotFoundError, match="needs the model it was compiled from"):
        sardonyx.load(engine).run({"x": X}, ["r"])


def test_compact_leaves_packed_weights_out(model, tmp_path, engine):
    compact = tmp_path / "compact.sdx"
    sardonyx.compile(model, compact, shapes={"x": [1, 8, 12, 12]}, compact=True)
    assert compact.stat().st_size < engine.stat().st_size
    session = sardonyx.load(compact)
    expected = sardonyx.load(model).run({"x": X})
    np.testing.assert_array_equal(session.run({"x": X})["y"], expected["y"])


@pytest.mark.parametrize("channels", [63, 64, 65])
def test_packed_weights_of_all_sizes(tmp_path, channels):
    """Large ones leave memory once packed, small ones stand within the graph: 16 KiB are small."""
    sizes = [8, 64, channels, 64, channels, 64, channels]
    nodes, weights, value = [], [], "x"
    for i, shape in enumerate(zip(sizes[1:], sizes[:-1], strict=True)):
        array = RANDOM.standard_normal((*shape, 1, 1), dtype=np.float32) / 8
        weights.append(numpy_helper.from_array(array, f"w{i}"))
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        value = f"r{i}"
    x = RANDOM.standard_normal((3, 8, 14, 14), dtype=np.float32)
    path, engine = tmp_path / "packed.onnx", tmp_path / "packed.sdx"
    inputs, outputs = [small.value("x", x.shape)], [small.value(value, None)]
    onnx.save(small.model(nodes, inputs, outputs, weights), path)
    sardonyx.compile(path, engine)
    of_model, of_engine = (sardonyx.load(file).run({"x": x})[value] for file in (path, engine))
    assert of_model.tobytes() == of_engine.tobytes()


def changed(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.unlink()
    path.write_bytes(content)


def test_changed_bytes_are_refused(engine):
    changed(engine, -1)
    with pytest.raises(sardonyx.InvalidModelError, match="engine file was changed"):
        sardonyx.load(engine)


def test_changed_weights_are_refused_or_recompiled(model, engine):
    expected = sardonyx.load(model).run({"x": X})
    whole = engine.read_bytes()
    refused = 0
    for at in range(64, len(whole) * 9 // 10, len(whole) // 12):
        engine.write_bytes(whole)
        changed(engine, at)
        try:
            output = sardonyx.load(engine).run({"x": X})
        except sardonyx.InvalidModelError as error:
            assert "weights at byte" in str(error)
            refused += 1
        else:
            np.testing.assert_array_equal(output["y"], expected["y"])
        session = sardonyx.load(engine, recompile=True)
        np.testing.assert_array_equal(session.run({"x": X})["y"], expected["y"])
    assert refused > 0


SCRIPT = """
import sys, numpy, sardonyx
session = sardonyx.load(sys.argv[1], recompile=sys.argv[2] == "recompile")
print(float(numpy.abs(session.run({"x": numpy.load(sys.argv[3])})["y"]).sum()))
"""


@pytest.mark.skipif(sardonyx.target() in ("baseline", "neon"), reason="has one target alone")
def test_another_machine(engine, tmp_path):
    np.save(tmp_path / "x.npy", X)

    def run(how):
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, engine, how, tmp_path / "x.npy"],
            env={**os.environ, "SARDONYX_TARGET": "baseline"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = run("refuse")
    assert "the engine was compiled for" in done.stderr
    assert "x86-64 baseline" in done.stderr
    done = run("recompile")
    expected = np.abs(sardonyx.load(engine.parent / "models/model.onnx").run({"x": X})["y"]).sum()
    assert float(done.stdout) == pytest.approx(float(expected), rel=1e-4)
    with pytest.raises(sardonyx.UnsupportedError, match="this machine is"):
        sardonyx.load(engine)


def test_tuning_measures_and_the_engine_remembers(model, tmp_path):
    lines = []
    session = sardonyx.load(model, tuning="measure", progress=lines.append)
    expected = sardonyx.load(model).run({"x": X})
    np.testing.assert_allclose(session.run({"x": X})["y"], expected["y"], rtol=1e-4, atol=1e-3)
    assert [line.split(" ")[0] for line in lines] == ["first", "second"]
    assert all("(chosen)" in line and "gemm" in line for line in lines)
    engine = tmp_path / "model.sdx"
    lines.clear()
    shapes = {"x": [1, 8, 12, 12]}
    sardonyx.compile(model, engine, shapes=shapes, tuning="measure", progress=lines.append)
    chosen = [line.split(" (chosen)")[0].split(" ")[-3] for line in lines]
    explained = sardonyx.load(engine).explain(shapes)
    for name, implementation in zip(("first", "second"), chosen, strict=True):
        row = next(row for row in explained.splitlines() if f" {name} " in row and " conv " in row)
        assert implementation in row
    assert "was measured to be faster" in explained
    with pytest.raises(sardonyx.InvalidArgumentError, match="'estimate' or 'measure'"):
        sardonyx.load(model, tuning="guess")


def implementation(session, name):
    rows = session.explain({"x": [1, 8, 12, 12]}).splitlines()
    return next(row for row in rows if f" {name} " in row and " conv " in row)


def test_without_winograd(model, tmp_path):
    with_it, direct = sardonyx.load(model), sardonyx.load(model, winograd=False)
    assert "winograd" in implementation(with_it, "second")
    for name in ("first", "second"):
        assert "gemm" in implementation(direct, name)
    assert "winograd4: Winograd is turned off" in direct.explain({"x": [1, 8, 12, 12]})
    direct_only = sardonyx.load(model, winograd=False, tuning="measure")
    expected = direct.run({"x": X})["y"]
    np.testing.assert_array_equal(direct_only.run({"x": X})["y"], expected)
    difference = np.abs(with_it.run({"x": X})["y"] - expected).max()
    assert 0 < difference < 1e-5 * np.abs(expected).max()
    engine = tmp_path / "model.sdx"
    shapes = {"x": [1, 8, 12, 12]}
    sardonyx.compile(model, engine, shapes=shapes, winograd=False)
    np.testing.assert_array_equal(sardonyx.load(engine).run({"x": X})["y"], expected)
    sardonyx.compile(model, engine, shapes=shapes)
    without = sardonyx.load(engine, winograd=False)
    np.testing.assert_array_equal(without.run({"x": X})["y"], expected)


def test_control_flow_and_strings(tmp_path):
    """A body, a capture, text: all that is no float tensor."""
    body = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["t"])], "then", [], [small.value("t", None)]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["t"])], "else", [], [small.value("t", None)]
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other),
        helper.make_node("StringConcat", ["text", "tail"], ["z"]),
    ]
    text = onnx.TensorProto.STRING
    graph = small.model(
        nodes,
        [small.value("x", ("n",)), small.value("text", ("m",), text)],
        [small.value("y", None), small.value("z", None, text)],
        [
            numpy_helper.from_array(np.float32(1), "one"),
            numpy_helper.from_array(np.float32(0), "zero"),
            helper.make_tensor("tail", text, [1], [b"!"]),
        ],
    )
    onnx.save(graph, tmp_path / "model.onnx")
    sardonyx.compile(tmp_path / "model.onnx", tmp_path / "model.sdx")
    session = sardonyx.load(tmp_path / "model.sdx")
    for x in (np.array([1, 2], np.float32), np.array([-4, 2, 1], np.float32)):
        outputs = session.run({"x": x, "text": np.array(["a", "b"])})
        np.testing.assert_array_equal(outputs["y"], x + 1 if x.sum() > 0 else -x)
        assert list(outputs["z"]) == ["a!", "b!"]


def test_wrong_uses(model, engine, tmp_path):
    with pytest.raises(sardonyx.InvalidArgumentError, match="is an engine file already"):
        sardonyx.compile(engine, tmp_path / "again.sdx")
    with pytest.raises(sardonyx.NotFoundError, match="cannot write the engine file"):
        sardonyx.compile(model, tmp_path / "no" / "folder.sdx")
    with pytest.raises(sardonyx.InvalidArgumentError, match="no input 'q'"):
        sardonyx.compile(model, tmp_path / "q.sdx", shapes={"q": [1]})
    with pytest.raises(sardonyx.InvalidArgumentError, match="load it from its path"):
        sardonyx.load(engine.read_bytes())
    with pytest.raises(sardonyx.InvalidArgumentError, match="is an engine file"):
        sardonyx.inspect(engine)
    assert [path.name for path in tmp_path.iterdir() if ".sdx." in path.name] == []


def test_open_sizes_that_cannot_be_one(tmp_path):
    """Without shapes compiling plans for sizes of 1, and says so where these do not fit."""
    weights = numpy_helper.from_array(np.ones((4, 8, 3, 3), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "first")]
    inputs = [small.value("x", ("n", 8, "height", 12))]
    path = tmp_path / "open.onnx"
    onnx.save(small.model(nodes, inputs, [small.value("y", None)], [weights]), path)
    with pytest.raises(
        sardonyx.Error,
        match=r"'first' .*window of 3 .*; the shape of input 'x' is not fixed, \[1,8,1,12\] was "
        "planned: give one",
    ):
        sardonyx.compile(path, tmp_path / "open.sdx")
    sardonyx.compile(path, tmp_path / "open.sdx", shapes={"x": [1, 8, 9, 12]})
