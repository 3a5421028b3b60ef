"""`sardonyx.load` and sessions."""

from __future__ import annotations

import io
import json
import pickle
import threading
import time

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import TensorProto, helper, numpy_helper

import sardonyx


@pytest.fixture
def path(tmp_path):
    onnx.save(small.add(), tmp_path / "add.onnx")
    return tmp_path / "add.onnx"


A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, 10, 100], np.float32)


def test_loads_path_text_bytes_file_and_proto(path):
    with path.open("rb") as file:
        sources = [path, str(path), path.read_bytes(), bytearray(path.read_bytes()), file]
        sources += [io.BytesIO(path.read_bytes()), memoryview(path.read_bytes()), small.add()]
        for source in sources:
            session = sardonyx.load(source)
            np.testing.assert_array_equal(session.run({"a": A, "b": B})["y"], A + B)


def test_a_text_file_or_a_number_is_no_model(path):
    with path.open(encoding="latin-1") as file, pytest.raises(ValueError, match="binary mode"):
        sardonyx.load(file)
    with pytest.raises(sardonyx.InvalidArgumentError, match="not int"):
        sardonyx.load(3)


def test_tells_inputs_outputs_and_metadata(path):
    model = onnx.load(path)
    model.producer_name = "tests"
    helper.set_model_props(model, {"key": " with space ", "größe": "1\n2"})
    session = sardonyx.load(model, threads=1)
    a, b = session.inputs
    assert (a.name, a.type, a.dtype, a.shape) == ("a", "tensor(float)", "float32", ["batch", 3])
    assert b.shape == [3]
    assert [output.name for output in session.outputs] == ["y"]
    assert session.metadata["producer_name"] == "tests"
    assert session.metadata["key"] == " with space "
    assert session.metadata["größe"] == "1\n2"
    assert session.threads == 1
    assert "add" in session.graph_text()
    assert "a: tensor(float)" in repr(session)


def test_runs_by_name_and_by_position(path):
    session = sardonyx.load(path)
    expected = A + B
    for inputs in ({"b": B, "a": A}, [A, B], (A, B)):
        result = session.run(inputs)
        assert list(result) == ["y"]
        np.testing.assert_array_equal(result["y"], expected)


def test_any_value_of_the_graph_can_be_asked_for():
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Sqrt", ["positive"], ["root"]),
        helper.make_node("Neg", ["root"], ["y"]),
    ]
    session = sardonyx.load(small.of_nodes(*nodes))
    x = np.array([-1, 4, 9], np.float32)
    result = session.run({"x": x}, outputs=["root", "y", "positive"])
    assert list(result) == ["root", "y", "positive"]
    np.testing.assert_array_equal(result["root"], [0, 2, 3])
    np.testing.assert_array_equal(result["positive"], [0, 4, 9])
    assert list(session.run({"x": x}, outputs="root")) == ["root"]
    assert session.run({"x": x}, outputs=[]) == {}
    with pytest.raises(sardonyx.Error, match="nowhere"):
        session.run({"x": x}, outputs=["nowhere"])


def test_a_default_may_be_overridden():
    default = numpy_helper.from_array(np.float32(2).reshape(1), "factor")
    model = small.model(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        [small.value("x"), small.value("factor", [1])],
        [small.value("y")],
        [default],
    )
    session = sardonyx.load(model)
    assert [info.name for info in session.inputs] == ["x"]
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(session.run({"x": x})["y"], [2, 2, 2])
    changed = session.run({"x": x, "factor": np.array([5], np.float32)})
    np.testing.assert_array_equal(changed["y"], [5, 5, 5])


def test_profile(path):
    session = sardonyx.load(path)
    with session.profile() as profile:
        session.run([A, B])
        session.run([A, B])
    session.run([A, B])
    steps = profile.steps()
    assert len(steps) == 2
    assert steps[0].op_type == "Add"
    assert steps[0].duration_ns > 0
    assert "Add" in profile.summary()
    events = json.loads(profile.trace())["traceEvents"]
    assert any(event.get("ph") == "X" for event in events)
    with session.profile() as later:
        pass
    assert later.steps() == []
    assert len(profile.steps()) == 2


def test_explain(path):
    session = sardonyx.load(path)
    assert "add" in session.explain({"a": [2, 3]}).lower()
    with pytest.raises(sardonyx.InvalidArgumentError, match="'a'"):
        session.explain()


def test_passes_can_be_traced_and_left_out(path):
    names = [name for name, _ in sardonyx.passes()]
    assert "fold_constants" in names
    seen = []
    sardonyx.load(path, trace_passes=lambda name, text: seen.append((name, text)))
    assert seen[0][0] == ""
    assert "add" in seen[0][1]
    session = sardonyx.load(path, disabled_passes=names)
    np.testing.assert_array_equal(session.run([A, B])["y"], A + B)
    with pytest.raises(sardonyx.InvalidArgumentError, match="no pass 'nonsense'"):
        sardonyx.load(path, disabled_passes=["nonsense"])


def test_an_exception_of_the_tracer_reaches_the_caller(path):
    def fail(name, text):
        raise KeyError(name)

    with pytest.raises(KeyError):
        sardonyx.load(path, trace_passes=fail)


def test_supports_inspect_and_the_rest(path):
    assert sardonyx.supports("Conv")
    assert sardonyx.supports("Add", "ai.onnx", 7)
    assert not sardonyx.supports("Nonsense")
    assert not sardonyx.supports("Gelu", version=10)
    summary = sardonyx.inspect(path)
    assert summary.operators == {"Add": 1}
    assert summary.opsets == {"ai.onnx": small.OPSET}
    assert summary.inputs[0].shape == ["batch", 3]
    assert summary.unsupported == []
    assert sardonyx.target()
    assert sardonyx.__version__.count(".") == 2


def test_threads_run_one_session_at_once():
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model = small.model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w"], ["y"]),
        ],
        [small.value("x", ["n", 64])],
        [small.value("y", ["n", 64])],
        [numpy_helper.from_array(weights, "w")],
    )
    session = sardonyx.load(model, threads=2)
    problems = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.standard_normal((int(rng.integers(1, 20)), 64)).astype(np.float32)
            expected = np.maximum(x @ weights, 0) @ weights
            result = session.run({"x": x})["y"]
            if not np.allclose(result, expected, rtol=1e-4, atol=1e-3):
                problems.append(float(np.abs(result - expected).max()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_the_interpreter_goes_on_while_a_model_runs():
    size = 768
    nodes = [
        helper.make_node("MatMul", [f"x{i}" if i else "x", "x"], [f"x{i + 1}" if i < 19 else "y"])
        for i in range(20)
    ]
    session = sardonyx.load(
        small.model(nodes, [small.value("x", [size, size])], [small.value("y")]), threads=1
    )
    x = np.eye(size, dtype=np.float32)
    session.run([x])
    turns, running = 0, True

    def run() -> None:
        nonlocal running
        session.run([x])
        running = False

    thread = threading.Thread(target=run)
    thread.start()
    while running:
        turns += 1
        time.sleep(0.0005)
    thread.join()
    assert turns > 5


def test_sessions_cannot_be_pickled_but_say_so(path):
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(sardonyx.load(path))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 7, 131073, 999983])
def test_outputs_that_are_parts_of_an_input_are_copies_of_their_own(size, threads):
    made = helper.make_graph(
        [
            helper.make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2),
            helper.make_node("Identity", ["x"], ["c"]),
        ],
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, size])],
        [helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in "abc"],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)])
    x = np.random.default_rng(5).integers(0, 255, (2, size), dtype=np.uint8)
    kept = x.copy()
    outputs = sardonyx.load(model.SerializeToString(), threads=threads).run({"x": x})
    x[:] = 0
    for name, wanted in (("a", kept[:1]), ("b", kept[1:]), ("c", kept)):
        np.testing.assert_array_equal(outputs[name], wanted)
