"""Products whose batches lie in pieces: operands repeated along other dimensions, windows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import TensorProto, helper, numpy_helper

import sardonyx

TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.int32: TensorProto.INT32}


def numbers(shape, dtype):
    random = np.random.default_rng(len(shape))
    return random.integers(-4, 5, shape).astype(dtype)


COPIES, ITEMS = "gemm of copies", "gemm of items"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("left", "right", "way"),
    [
        ((4, 1, 3, 5, 6), (1, 5, 3, 6, 7), COPIES),
        ((2, 1, 3, 1, 5, 6), (2, 4, 1, 5, 6, 7), COPIES),
        ((2, 1, 3, 1, 2, 5, 1), (4, 1, 5, 1, 1, 3), COPIES),
        ((3, 1, 2, 1, 6), (1, 4, 2, 6, 1), COPIES),
        ((3, 1, 4, 40, 65), (1, 5, 4, 65, 41), ITEMS),
        ((1, 2, 1, 4, 70, 65), (5, 4, 65, 41), ITEMS),
        ((2, 1, 3, 1, 30, 64), (2, 4, 1, 5, 64, 30), COPIES),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_operands_repeated_by_turns(tmp_path, left, right, way, dtype, threads):
    kind = TYPES[dtype]
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"], "multiply"),
        helper.make_node("Add", ["p", "c"], ["y"], "shift"),
    ]
    columns = numbers((right[-1],), dtype)
    model = small.model(
        nodes,
        [small.value("a", left, kind), small.value("b", right, kind)],
        [small.value("y", None, kind)],
        [numpy_helper.from_array(columns, "c")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    session = sardonyx.load(path, threads=threads)
    a, b = numbers(left, dtype), numbers(right, dtype)
    for _ in range(2):
        np.testing.assert_array_equal(session.run({"a": a, "b": b})["y"], a @ b + columns)
    assert way in session.explain({"a": a.shape, "b": b.shape})


def test_windows_of_an_image(tmp_path):
    """As Twins-SVT multiplies them: the transpose stays, and one matrix is left."""
    weights = numbers((6, 8), np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], "cut", perm=[0, 1, 3, 2, 4, 5]),
        helper.make_node("MatMul", ["t", "w"], ["y"], "multiply"),
    ]
    model = small.model(
        nodes,
        [small.value("x", ("n", 4, 7, 4, 7, 6))],
        [small.value("y", None)],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    session = sardonyx.load(path)
    x = numbers((2, 4, 7, 4, 7, 6), np.float32)
    expected = x.transpose(0, 1, 3, 2, 4, 5) @ weights
    np.testing.assert_array_equal(session.run({"x": x})["y"], expected)
    assert "reference" not in session.explain({"x": x.shape}).split("passes")[0]


def test_results_of_no_elements_run_nothing():
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "empty",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
            [numpy_helper.from_array(np.ones((3, 4), np.float32), "w")],
        ),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    session = sardonyx.load(model)
    with session.profile() as profile:
        assert session.run({"x": np.zeros((0, 3), np.float32)})["y"].shape == (0, 4)
    assert {step.implementation for step in profile.steps()} == {"nothing"}
