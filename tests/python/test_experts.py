"""Mixtures of experts as exporters write them: a matrix is gathered for each row."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx

EXPERTS, N, K = 5, 40, 24


def model(
    on_left: bool, rows: object, slots: int = 0, shared: bool = False, kind: type = np.float32
) -> bytes:
    """y [rows, N]: each row of x by the matrix of its expert; with slots y [rows, slots, N]."""
    rng = np.random.default_rng(3)
    shape = (EXPERTS, N, K) if on_left else (EXPERTS, K, N)
    weights = rng.normal(size=shape).astype(kind)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    choice = [rows, slots] if slots else [rows]
    axes = ([1, 3] if on_left else [1, 2]) if slots else [2 if on_left else 1]
    out = (3 if on_left else 2) if slots else axes[0]
    operands = ["m", "v"] if on_left else ["v", "m"]
    nodes = [
        helper.make_node("Gather", ["w", "e"], ["m"], axis=0),
        helper.make_node("Unsqueeze", ["x", "axes"], ["v"]),
        helper.make_node("MatMul", operands, ["p"], name="product"),
        helper.make_node("Squeeze", ["p", "out"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "experts",
        [
            helper.make_tensor_value_info("x", element, [1 if shared else rows, K]),
            helper.make_tensor_value_info("e", TensorProto.INT64, choice),
        ],
        [helper.make_tensor_value_info("y", element, None)],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.array(axes), "axes"),
            numpy_helper.from_array(np.array([out]), "out"),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("on_left", [True, False], ids=["matrix by row", "row by matrix"])
@pytest.mark.parametrize("slots", [0, 2])
@pytest.mark.parametrize("shared", [False, True], ids=["", "one row for all"])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_rows_by_their_experts(on_left, slots, shared, kind):
    built = model(on_left, "rows", slots, shared, kind)
    ours, theirs = sardonyx.load(built, threads=2), onnxruntime.InferenceSession(built)
    rng = np.random.default_rng(4)
    for rows in (1, 2, 90):  # one session: few rows read the weights as they lie
        feeds = {
            "x": rng.normal(size=(1 if shared else rows, K)).astype(kind),
            "e": rng.integers(-EXPERTS, EXPERTS, (rows, slots) if slots else rows),
        }
        with ours.profile() as profile:
            found = ours.run(feeds)["y"]
        assert "expert_matmul" in [step.core_op for step in profile.steps()]
        (wanted,) = theirs.run(None, feeds)
        assert found.shape == wanted.shape
        assert found.dtype == kind
        bound = 1e-5 if kind == np.float32 else 1e-2
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


def test_an_expert_that_is_not_there_is_named():
    session = sardonyx.load(model(True, 3))
    feeds = {"x": np.zeros((3, K), np.float32), "e": np.array([0, 5, 1])}
    with pytest.raises(sardonyx.InvalidArgumentError, match=r"'product'.*expert 5.*of 5"):
        session.run(feeds)
