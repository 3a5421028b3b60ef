"""Convolutions that write over what they add."""

from __future__ import annotations

import numpy as np
import pytest
import small_models as small
from onnx import helper, numpy_helper

import sardonyx

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(("kernel", "side"), [(1, 9), (3, 9), (3, 24)])
@pytest.mark.parametrize("read", ["r", "s"])
def test_what_is_added_is_read_before_it_is_written(kernel, side, read):
    """y = Relu(Conv(r) + s), whose s may be written over; and Conv(s) + s, whose s may not."""
    channels = 32
    weights = RANDOM.standard_normal((channels, channels, kernel, kernel), dtype=np.float32)
    pads = [kernel // 2] * 4
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["s"], pads=pads),
        helper.make_node("Conv", [read, "w"], ["c"], pads=pads),
        helper.make_node("Add", ["c", "s"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=pads),
    ]
    shape = (1, channels, side, side)
    model = small.model(
        nodes,
        [small.value("x", shape)],
        [small.value("y", None)],
        [numpy_helper.from_array(weights, "w")],
    )
    feeds = {"x": RANDOM.standard_normal(shape, dtype=np.float32)}
    plain = sardonyx.load(model, disabled_passes=["fuse_epilogues"]).run(feeds)["y"]
    for threads in (1, 2):
        y = sardonyx.load(model, threads=threads).run(feeds)["y"]
        np.testing.assert_allclose(y, plain, rtol=1e-6, atol=1e-6 * np.abs(plain).max())
