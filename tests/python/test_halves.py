"""Products of float32 whose results leave as halves, as ONNX Runtime's saved models have them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
import small_models as small
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import sardonyx

HALVES = {TensorProto.FLOAT16: np.float16, TensorProto.BFLOAT16: ml_dtypes.bfloat16}
PRODUCTS = [
    ("MatMul", {}, (2, 3, 64), (64, 32)),
    ("MatMul", {}, (4, 30, 8), (4, 8, 5)),
    ("Gemm", {"transB": 1}, (6, 64), (32, 64)),
    ("Conv", {"pads": [1, 1, 1, 1]}, (1, 8, 20, 20), (16, 8, 3, 3)),
    ("Conv", {"pads": [1, 1, 1, 1], "group": 8}, (1, 8, 20, 20), (8, 1, 3, 3)),
    ("ConvTranspose", {"strides": [2, 2]}, (1, 8, 10, 10), (8, 16, 2, 2)),
]


@pytest.mark.parametrize("half", HALVES, ids=["float16", "bfloat16"])
@pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])
@pytest.mark.parametrize(("op", "attributes", "left", "right"), PRODUCTS)
def test_products(op, attributes, left, right, relu, half):
    random = np.random.default_rng(1)
    x = random.integers(-4, 5, left).astype(np.float32)
    w = random.integers(-4, 5, right).astype(np.float32)
    nodes = [helper.make_node(op, ["x", "w"], ["p"], **attributes)]
    if relu:
        nodes.append(helper.make_node("Relu", ["p"], ["r"]))
    nodes.append(helper.make_node("Cast", ["r" if relu else "p"], ["y"], to=half))
    model = small.model(
        nodes,
        [small.value("x", left)],
        [small.value("y", None, half)],
        [numpy_helper.from_array(w, "w")],
    )
    session = sardonyx.load(model, threads=1, winograd=False)
    with session.profile() as profile:
        y = session.run({"x": x})["y"]
    assert all(step.implementation != "reference" for step in profile.steps())
    # Sums of few small integers, which float32 has exactly: only the cast rounds.
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    wide.graph.node.pop()
    wide.graph.output[0].CopyFrom(small.value("r" if relu else "p", None))
    expected = ReferenceEvaluator(wide).run(None, {"x": x})[0]
    np.testing.assert_array_equal(y, expected.astype(HALVES[half]))
