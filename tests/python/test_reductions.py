"""Reductions over axes between which others are kept, of several groups."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import TensorProto, helper, numpy_helper

import sardonyx

KINDS = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceL2": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
}


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *((kind, dtype) for kind in KINDS for dtype in (np.float32, np.float64)),
        ("ReduceSum", np.int64),
        ("ReduceMax", np.int64),
    ],
)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((6, 2, 6, 2, 5), (1, 3)),
        ((3, 1, 4, 2, 5, 2), (0, 2, 4)),
        ((2, 3, 4, 5, 2, 3), (-6, -4, -1)),
        ((2, 3, 2, 3, 2, 3, 2), (1, 2, 4, 6)),
    ],
)
@pytest.mark.parametrize("keep", [False, True])
def test_groups(tmp_path, kind, dtype, shape, axes, keep):
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node(kind, ["x", "axes"], ["y"], "reduce", keepdims=int(keep))
    model = small.model(
        [node],
        [small.value("x", shape, element)],
        [small.value("y", None, element)],
        [numpy_helper.from_array(np.array(axes, np.int64), "axes")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    session = sardonyx.load(path, threads=2)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    expected = KINDS[kind](x, axis=axes, keepdims=keep)
    np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-6)
    assert "axes of a copy" in session.explain({"x": shape})


def test_booleans(tmp_path):
    node = helper.make_node("ReduceMax", ["x", "axes"], ["y"], "any", keepdims=0)
    model = small.model(
        [node],
        [small.value("x", (4, 3, 4, 3, 2), TensorProto.BOOL)],
        [small.value("y", None, TensorProto.BOOL)],
        [numpy_helper.from_array(np.array([1, 3]), "axes")],
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    x = np.random.default_rng(1).random((4, 3, 4, 3, 2)) > 0.9
    np.testing.assert_array_equal(sardonyx.load(path).run({"x": x})["y"], x.any((1, 3)))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("kind", "numbers"),
    [("ReduceProd", [2**40 + 1, 2**40, 3]), ("ReduceSum", [2**62, 2**62 + 5]),
     ("ReduceProd", [2**20] * 4)],
)  # fmt: skip
def test_integers_that_wrap(kind, numbers, known):
    """Elements that could be sizes of a shape, but are too large, are integers like others."""
    x = np.array(numbers, np.int64)
    node = helper.make_node(kind, ["x"], ["y"])
    inputs = [] if known else [helper.make_tensor_value_info("x", TensorProto.INT64, x.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, [1])]
    constants = [numpy_helper.from_array(x, "x")] if known else []
    graph = helper.make_graph([node], "graph", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    y = sardonyx.load(model).run({} if known else {"x": x})["y"]
    with np.errstate(over="ignore"):
        wanted = np.prod(x) if kind == "ReduceProd" else np.sum(x)
    assert y.tolist() == [wanted]


def test_an_int32_that_wraps_is_the_size_it_wraps_to():
    """2^30 * 2^20 of a shape's int32 elements is 0, also where the shape is known."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=TensorProto.INT32),
        helper.make_node("Mul", ["sizes", "factors"], ["large"]),
        helper.make_node("ReduceProd", ["large"], ["product"]),
        helper.make_node("Cast", ["product"], ["size"], to=TensorProto.INT64),
        helper.make_node("ConstantOfShape", ["size"], ["y"]),
    ]
    factors = numpy_helper.from_array(np.full(2, 2**20, np.int32), "factors")
    model = small.model(nodes, [small.value("x", (1024, 1))], [small.value("y", None)], [factors])
    x = np.zeros((1024, 1), np.float32)
    assert sardonyx.load(model).run({"x": x})["y"].shape == (0,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    ("kind", "value"),
    [("ReduceSum", 0), ("ReduceProd", 1), ("ReduceL1", 0), ("ReduceL2", 0), ("ReduceSumSquare", 0)],
)
def test_of_nothing(kind, value, dtype):
    """Of as many rows as a run finds, as bags of embeddings are summed: none, some, none again."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Compress", ["x", "which"], ["rows"], axis=0),
        helper.make_node(kind, ["rows", "axes"], ["y"], keepdims=0),
        helper.make_node(kind, ["rows"], ["all"], keepdims=1),
    ]
    inputs = [small.value("x", (4, 3), element), small.value("which", (4,), TensorProto.BOOL)]
    axes = numpy_helper.from_array(np.array([0]), "axes")
    outputs = [small.value("y", None, element), small.value("all", None, element)]
    session = sardonyx.load(small.model(nodes, inputs, outputs, [axes]), threads=1)
    x = np.ones((4, 3), dtype)
    for rows in (0, 2, 0):
        given = {"x": x, "which": np.arange(4) < rows}
        results = session.run(given)
        if rows == 0:
            np.testing.assert_array_equal(results["y"], np.full(3, value, dtype), strict=True)
            np.testing.assert_array_equal(
                results["all"], np.full((1, 1), value, dtype), strict=True
            )
        elif kind == "ReduceSum":
            np.testing.assert_array_equal(results["y"], np.full(3, rows, dtype), strict=True)
