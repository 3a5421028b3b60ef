"""`sardonyx.backend` as the interface of onnx wants it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import helper
from onnx.backend.base import Backend, BackendRep

import sardonyx
import sardonyx.backend as backend

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([1, 10, 100], np.float32)


def test_is_a_backend():
    assert issubclass(backend.SardonyxBackend, Backend)
    rep = backend.prepare(small.add())
    assert isinstance(rep, BackendRep)


@pytest.mark.parametrize(
    ("device", "there"),
    [
        ("CPU", True),
        ("CPU:0", True),
        ("CPU:1", False),
        ("CUDA", False),
        ("CUDA:0", False),
        ("TPU", False),
        ("CPU:x", False),
        ("", False),
    ],
)
def test_devices(device, there):
    assert backend.supports_device(device) is there
    if not there:
        with pytest.raises(sardonyx.UnsupportedError):
            backend.prepare(small.add(), device)
        assert not backend.is_compatible(small.add(), device)


def test_runs_a_model():
    rep = backend.prepare(small.add(), "CPU", threads=1, something_of_another_backend=3)
    outputs = rep.run([A, B], anything=True)
    assert isinstance(outputs, tuple)
    np.testing.assert_array_equal(outputs[0], A + B)
    np.testing.assert_array_equal(outputs["y"], A + B)
    np.testing.assert_array_equal(rep.run({"b": B, "a": A})[0], A + B)
    np.testing.assert_array_equal(backend.run_model(small.add(), (A, B))[0], A + B)
    np.testing.assert_array_equal(backend.run_model(small.relu(), -B)[0], [0, 0, 0])


def test_is_compatible():
    assert backend.is_compatible(small.add())
    unknown = small.of_nodes(helper.make_node("Fancy", ["x"], ["y"]))
    assert not backend.is_compatible(unknown)
    with pytest.raises(sardonyx.InvalidModelError):
        backend.is_compatible(small.of_nodes(helper.make_node("Relu", ["ghost"], ["y"])))


def test_runs_a_node():
    node = helper.make_node("Add", ["a", "b"], ["y"])
    np.testing.assert_array_equal(backend.run_node(node, [A, B])["y"], A + B)
    np.testing.assert_array_equal(backend.run_node(node, {"a": A, "b": B})[0], A + B)
    doubled = helper.make_node("Add", ["a", "a"], ["y"])
    np.testing.assert_array_equal(backend.run_node(doubled, [A])[0], A + A)
    np.testing.assert_array_equal(backend.run_node(doubled, [A, A])[0], A + A)
    with pytest.raises(sardonyx.InvalidArgumentError, match="2 inputs, 1"):
        backend.run_node(node, [A])


def test_runs_a_node_with_parts_left_out():
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    x, high = np.array([-5, 5], np.float32), np.float32(1)
    np.testing.assert_array_equal(backend.run_node(node, [x, high])[0], [-5, 1])
    np.testing.assert_array_equal(backend.run_node(node, [x, None, high])[0], [-5, 1])
    unit = helper.make_node("GRU", ["x", "w", "r"], ["", "state"], hidden_size=2)
    sizes = [(4, 1, 3), (1, 6, 3), (1, 6, 2)]
    outputs = backend.run_node(unit, [np.ones(size, np.float32) for size in sizes])
    assert [output.shape for output in outputs] == [(1, 1, 2)]


def test_runs_a_node_of_an_older_opset():
    node = helper.make_node("Softmax", ["x"], ["y"])
    x = np.zeros((2, 2, 2), np.float32)
    newest = backend.run_node(node, [x])[0]
    older = backend.run_node(node, [x], opset_version=9)[0]
    same = backend.run_node(node, [x], opset_imports=[helper.make_opsetid("", 9)])[0]
    assert newest[0, 0, 0] == 0.5
    assert older[0, 0, 0] == 0.25
    np.testing.assert_array_equal(older, same)


def test_runs_a_node_on_sequences():
    node = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    np.testing.assert_array_equal(backend.run_node(node, [[B, B]])[0], [*B, *B])


def test_runs_a_node_whose_outputs_are_described():
    node = helper.make_node("Relu", ["x"], ["y"])
    info = [(np.dtype(np.float32), (3,))]
    np.testing.assert_array_equal(backend.run_node(node, [B], outputs_info=info)[0], B)


def test_agrees_with_the_reference_evaluator():
    from onnx.reference import ReferenceEvaluator

    model = onnx.shape_inference.infer_shapes(small.add())
    expected = ReferenceEvaluator(model).run(None, {"a": A, "b": B})
    np.testing.assert_array_equal(backend.run_model(model, [A, B])[0], expected[0])
