"""Convolutions between transposes that stay: what conv_planes leaves is run by a kernel."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import sardonyx

CASES = {
    "pointwise": ([20, 30], [9, 5, 1, 1], {}),
    "pointwise, of one axis": ([600], [9, 5, 1], {}),
    "pointwise, to one channel": ([20, 30], [1, 5, 1, 1], {}),
    "depthwise": ([33, 40], [5, 1, 3, 3], {"group": 5, "pads": [1, 1, 1, 1]}),
    "the widest window": ([100, 100], [5, 1, 64, 64], {"group": 5}),
    "the widest of two taps": ([100, 100], [5, 1, 2, 2], {"group": 5, "dilations": [63, 63]}),
    "the longest stride": ([99, 120], [5, 1, 3, 3], {"group": 5, "strides": [4, 4]}),
    "one tap, dilated": ([30, 30], [5, 1, 1, 1], {"group": 5, "dilations": [99, 99]}),
    "depthwise, of three axes": ([9, 20, 30], [5, 1, 3, 3, 3], {"group": 5, "pads": [1] * 6}),
    "two results of a channel": ([20, 30], [10, 1, 3, 3], {"group": 5}),
    "one group": ([20, 30], [3, 5, 3, 3], {"pads": [1] * 4}),
    "one tap of each line": ([40, 30], [5, 1, 9, 1], {"group": 5, "strides": [2, 1]}),
    "depthwise, of one axis": ([700], [5, 1, 9], {"group": 5, "strides": [1], "pads": [4, 4]}),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_float64_and_runs_on_a_kernel(case):
    spatial, dims, attributes = CASES[case]
    random = np.random.default_rng(0)
    weights = random.standard_normal(dims).astype(np.float32)
    bias = random.standard_normal(dims[0]).astype(np.float32)
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes),
                helper.make_node("Relu", ["c"], ["y"]),
            ],
            "planes",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5, *spatial])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(dims))],
            [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.checker.check_model(model)
    session = sardonyx.load(model)
    assert session.run({"x": np.zeros((0, 5, *spatial), np.float32)})["y"].shape[0] == 0
    x = random.standard_normal((2, 5, *spatial)).astype(np.float32)
    with session.profile() as profile:
        y = session.run({"x": x})["y"]
    kernels = {step.implementation for step in profile.steps()}
    assert kernels == ({"gemm"} if "to one channel" in case else {"planes"})
    convolve = getattr(torch.nn.functional, f"conv{len(spatial)}d")
    expected = convolve(
        torch.from_numpy(x).double(),
        torch.from_numpy(weights).double(),
        torch.from_numpy(bias).double(),
        stride=attributes.get("strides", 1),
        padding=attributes.get("pads", [0] * 2)[0],
        dilation=attributes.get("dilations", 1),
        groups=attributes.get("group", 1),
    ).relu()
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-4)


TRANSPOSED = {
    "depthwise": ([20, 30], [5, 1, 4, 4], {"group": 5, "strides": [2, 2], "pads": [1] * 4}),
    "long steps": ([6, 7], [5, 1, 32, 32], {"group": 5, "strides": [16, 16], "pads": [8] * 4}),
    "groups": ([20, 30], [10, 3, 3, 3], {"group": 5, "strides": [2, 3]}),
    "three axes": ([6, 7, 20], [5, 2, 2, 2, 2], {"strides": [2, 2, 2]}),
    "of one axis": ([300], [5, 1, 9], {"group": 5, "strides": [4]}),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_agrees_with_float64_and_runs_on_a_kernel(case):
    spatial, dims, attributes = TRANSPOSED[case]
    random = np.random.default_rng(0)
    weights = random.standard_normal(dims).astype(np.float32)
    x = random.standard_normal((2, dims[0], *spatial)).astype(np.float32)
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)],
            "planes",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(dims))],
            [numpy_helper.from_array(weights, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    session = sardonyx.load(model)
    with session.profile() as profile:
        y = session.run({"x": x})["y"]
    assert {step.implementation for step in profile.steps()} == {"planes"}
    convolve = getattr(torch.nn.functional, f"conv_transpose{len(spatial)}d")
    expected = convolve(
        torch.from_numpy(x).double(),
        torch.from_numpy(weights).double(),
        stride=attributes["strides"],
        padding=attributes.get("pads", [0])[0],
        groups=attributes.get("group", 1),
    )
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_halves_of_few_channels_run_on_the_same_kernel(op):
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 3, 20, 30)).astype(np.float16)
    weights = random.standard_normal((3, 1, 4, 4)).astype(np.float16)
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(op, ["x", "w"], ["y"], group=3, strides=[2, 2])],
            "halves",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT16, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [None] * 4)],
            [numpy_helper.from_array(weights, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    session = sardonyx.load(model)
    with session.profile() as profile:
        y = session.run({"x": x})["y"]
    assert "planes" in {step.implementation for step in profile.steps()}
    convolve = {"Conv": torch.conv2d, "ConvTranspose": torch.conv_transpose2d}[op]
    wide = [torch.from_numpy(a.astype(np.float64)) for a in (x, weights)]
    expected = convolve(*wide, stride=2, groups=3).numpy()
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)
