"""Convolutions whose filters have one weight each give the input's numbers, not sums near them."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx


@pytest.mark.parametrize("kernel", [3, 4, 5])
@pytest.mark.parametrize("channels", [3, 8, 32])
def test_patches(channels: int, kernel: int) -> None:
    """As a root behind them shows, which is NaN of what is a little less than 0."""
    taps = channels * kernel * kernel
    filters = np.eye(taps, dtype=np.float32)[:: max(1, taps // 96)]
    weights = filters.reshape(-1, channels, kernel, kernel)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Sqrt", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 40, 44])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "graph", [x], [y], [numpy_helper.from_array(weights, "w")])
    opsets = [helper.make_opsetid("", 21)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    rng = np.random.default_rng(3)
    image = rng.random((1, channels, 40, 44), np.float32)
    feeds = {"x": np.where(image < 0.5, np.float32(0), image)}
    got = sardonyx.load(data).run(feeds)["y"]
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(got, session.run(None, feeds)[0])
