"""`sardonyx.onnxruntime` as code written for ONNX Runtime uses it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import TensorProto, helper

import sardonyx
import sardonyx.onnxruntime as ort

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, 10, 100], np.float32)


@pytest.fixture
def path(tmp_path):
    model = small.add()
    model.model_version = 7
    model.producer_name = "tests"
    helper.set_model_props(model, {"character": " \na\n字\n "})
    onnx.save(model, tmp_path / "add.onnx")
    return tmp_path / "add.onnx"


def test_as_the_pipeline_of_the_demo_calls_it(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = 2
    options.inter_op_num_threads = 1
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert ort.get_device() == "CPU"
    providers = [("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})]
    session = ort.InferenceSession(str(path), sess_options=options, providers=providers)
    assert session.get_providers()[0] == "CPUExecutionProvider"
    assert [info.name for info in session.get_inputs()] == ["a", "b"]
    assert session.get_inputs()[0].shape == ["batch", 3]
    assert session.get_inputs()[0].type == "tensor(float)"
    names = [info.name for info in session.get_outputs()]
    np.testing.assert_array_equal(session.run(names, {"a": A, "b": B})[0], A + B)
    meta = session.get_modelmeta()
    assert meta.custom_metadata_map == {"character": " \na\n字\n "}
    assert (meta.version, meta.producer_name, meta.graph_name) == (7, "tests", "small")


def test_other_ways_to_call_it(path):
    session = ort.InferenceSession(
        path.read_bytes(), ort.SessionOptions(), ["CPUExecutionProvider"]
    )
    feeds = {"a": A, "b": B}
    for result in (
        session.run(None, feeds),
        session.run([], feeds),
        session.run(["y"], feeds, ort.RunOptions()),
        session.run(["y"], feeds, run_options=None),
    ):
        np.testing.assert_array_equal(result[0], A + B)
    value = ort.OrtValue.ortvalue_from_numpy(A)
    assert value.shape() == [2, 3]
    assert value.data_type() == "tensor(float)"
    np.testing.assert_array_equal(session.run(None, {"a": value, "b": B})[0], A + B)
    values = session.run_with_ort_values(
        None, {"a": value, "b": ort.OrtValue.ortvalue_from_numpy(B)}
    )
    np.testing.assert_array_equal(values[0].numpy(), A + B)
    assert ort.__version__
    ort.set_default_logger_severity(3)
    assert session.get_overridable_initializers() == []


def test_outputs_that_stand_twice():
    """As torch.onnx.export of Flava lists them."""
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])]
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xyz")
    graph = helper.make_graph(nodes, "twice", [x], [y, y, z])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    feed = {"x": np.array([1, -2], np.float32)}
    session = ort.InferenceSession(model)
    assert [output.name for output in session.get_outputs()] == ["y", "y", "z"]
    for names, wanted in ((None, "yyz"), (["z", "z"], "zz"), (["z", "y"], "zy")):
        found = session.run(names, feed)
        assert [value[0] for value in found] == [-1 if name == "y" else 1 for name in wanted]


def test_no_optimisation(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(path, options)
    np.testing.assert_array_equal(session.run(None, {"a": A, "b": B})[0], A + B)


def test_profiling(path, tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile_")
    session = ort.InferenceSession(path, options)
    session.run(None, {"a": A, "b": B})
    with open(session.end_profiling(), encoding="utf-8") as file:
        assert json.load(file)["traceEvents"]


def test_exceptions(path, tmp_path):
    with pytest.raises(ort.exceptions.NoSuchFile) as caught:
        ort.InferenceSession(tmp_path / "absent.onnx")
    assert isinstance(caught.value, FileNotFoundError | sardonyx.Error)
    with pytest.raises(ort.exceptions.InvalidGraph):
        ort.InferenceSession(b"no model")
    with pytest.raises(ort.exceptions.NotSupported, match="Fancy"):
        model = small.of_nodes(helper.make_node("Fancy", ["x"], ["y"]))
        ort.InferenceSession(model.SerializeToString())
    session = ort.InferenceSession(path)
    with pytest.raises(ort.exceptions.InvalidArgument, match="'b'"):
        session.run(None, {"a": A})
    with pytest.raises(ValueError):
        session.run(None, {"a": A.astype(np.int64), "b": B})
    with pytest.raises(ort.exceptions.InvalidArgument, match="dict from input names, not list"):
        session.run(None, [A, B])


def test_what_is_not_there_says_so(path):
    options = ort.SessionOptions()
    with pytest.raises(NotImplementedError, match="nonsense"):
        options.nonsense = 3
    with pytest.raises(NotImplementedError, match="custom operators"):
        options.register_custom_ops_library("lib.so")
    session = ort.InferenceSession(path)
    for call in (session.io_binding, session.run_async):
        with pytest.raises(NotImplementedError, match="not supported"):
            call()
    with pytest.raises(AttributeError, match="training"):
        _ = ort.training
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        ort.InferenceSession(path, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(ValueError, match="sess_options"):
        ort.InferenceSession(path, sess_options={"threads": 1})


def run_script(script: str, *arguments: object) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_install(path):
    script = """
import importlib.util, sys
import sardonyx.onnxruntime
module = sardonyx.onnxruntime.install()
assert sardonyx.onnxruntime.install() is module
import onnxruntime
import onnxruntime as ort
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, NoSuchFile
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, InvalidProtobuf
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented
from onnxruntime.capi import _pybind_state
import onnxruntime.capi.onnxruntime_pybind11_state as state
assert onnxruntime is sardonyx.onnxruntime and ort.capi._pybind_state is _pybind_state
assert importlib.util.find_spec("onnxruntime") is not None
try:
    InferenceSession("absent.onnx")
except state.NoSuchFile as error:
    print("absent.onnx" in str(error), ort.__version__)
class Own(InferenceSession):
    pass
sys.modules["onnxruntime"].InferenceSession = Own
from onnxruntime import InferenceSession as Changed
print(Changed is Own, Own(sys.argv[1], providers=["CPUExecutionProvider"]).get_inputs()[0].name)
"""
    first, second = run_script(script, path).splitlines()
    assert first == f"True {ort.__version__}"
    assert second == "True a"


def test_install_after_onnxruntime_was_imported():
    pytest.importorskip("onnxruntime")
    script = """
import onnxruntime as real
import sardonyx.onnxruntime
try:
    sardonyx.onnxruntime.install()
except ImportError as error:
    print("imported already" in str(error))
sardonyx.onnxruntime.install(replace=True)
import onnxruntime
print(onnxruntime is sardonyx.onnxruntime and onnxruntime is not real)
"""
    assert run_script(script).split() == ["True", "True"]
