"""Operators that ONNX 1.0 to 1.4 had as experiments, which the onnx package no longer knows.

ONNX Runtime still runs some of them and is the oracle there; for the others the formulas stand in
the cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import sardonyx

RNG = np.random.default_rng(7)
FLOATS = [np.float16, np.float32, np.float64]


def model_of(op: str, inputs: list[np.ndarray], attributes: dict[str, Any], opset: int, sizes=True):
    def info(name, array):
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        shape = array.shape if sizes else [f"{name}_{axis}" for axis in range(array.ndim)]
        return helper.make_tensor_value_info(name, dtype, shape)

    names = [f"x{position}" for position in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attributes)
    infos = [info(*pair) for pair in zip(names, inputs, strict=True)]
    kind = attributes.get("dtype") if op == "ConstantFill" else None
    if kind is None:
        is_float = inputs and inputs[0].dtype.kind == "f"
        kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype) if is_float else 1
    output = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "graph", infos, [output])
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=3)
    return model, dict(zip(names, inputs, strict=True))


def run(op: str, inputs: list[np.ndarray], opset: int = 6, sizes=True, **attributes) -> np.ndarray:
    model, values = model_of(op, inputs, attributes, opset, sizes)
    return sardonyx.load(model).run(values)["y"]


def check(op: str, inputs: list[np.ndarray], expected: np.ndarray, **attributes) -> None:
    tolerance = 2e-3 if expected.dtype == np.float16 else 1e-6
    for opset in (1, 6, 9):
        for sizes in (True, False):
            found = run(op, inputs, opset, sizes, **attributes)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def softplus(x):
    return np.log1p(np.exp(x))


IMAGE = RNG.uniform(-2, 2, (2, 3, 5, 6))
BIAS = [0.5, -1.0, 2.0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("op", "attributes", "formula"),
    [
        ("Affine", {}, lambda x: x),
        ("Affine", {"alpha": 2.0, "beta": -0.5}, lambda x: 2 * x - 0.5),
        ("Scale", {}, lambda x: x),
        ("Scale", {"scale": 0.25}, lambda x: x / 4),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}, lambda x: 2 * np.tanh(x / 2)),
        ("ScaledTanh", {}, np.tanh),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}, lambda x: 2 * softplus(x / 2)),
        ("ParametricSoftplus", {}, softplus),
        ("ThresholdedRelu", {"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
        ("ImageScaler", {"scale": 2.0}, lambda x: 2 * x),
        (
            "ImageScaler",
            {"scale": 2.0, "bias": BIAS},
            lambda x: 2 * x + np.reshape(np.array(BIAS, x.dtype), (3, 1, 1)),
        ),
        ("Crop", {"border": [1, 2, 2, 0]}, lambda x: x[:, :, 2:5, 1:4]),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [2, 3]}, lambda x: x[:, :, 2:4, 1:4]),
    ],
)
def test_images_and_elements(op, attributes, formula, dtype):
    x = IMAGE.astype(dtype)
    check(op, [x], formula(x).astype(dtype), **attributes)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("variance", [0, 1])
def test_mean_variance_normalization(dtype, across, variance):
    x = IMAGE.astype(dtype)
    axes = (0, 1, 2, 3) if across else (0, 2, 3)
    wide = x.astype(np.float64)
    expected = wide - wide.mean(axes, keepdims=True)
    if variance:
        expected /= wide.std(axes, keepdims=True)
    attributes = {"across_channels": across, "normalize_variance": variance}
    tolerance = 2e-3 if dtype == np.float16 else 1e-5
    found = run("MeanVarianceNormalization", [x], 8, **attributes)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Affine", {"alpha": 2.0, "beta": -0.5}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
        ("Scale", {"scale": 0.25}),
        ("ImageScaler", {"scale": 2.0, "bias": BIAS}),
        ("Crop", {"border": [1, 2, 2, 0]}),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [2, 3]}),
        ("MeanVarianceNormalization", {"across_channels": 0}),
        ("MeanVarianceNormalization", {"across_channels": 1}),
        ("MeanVarianceNormalization", {"across_channels": 1, "normalize_variance": 0}),
    ],
)
def test_as_onnxruntime(op, attributes):
    x = IMAGE.astype(np.float32)
    model, values = model_of(op, [x], attributes, 7)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    [expected] = session.run(None, values)
    np.testing.assert_allclose(run(op, [x], 7, **attributes), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.bool_])
def test_constant_fill(dtype):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    full = {"dtype": code, "value": 1.0}
    check("ConstantFill", [], np.ones((2, 3), dtype), shape=[2, 3], **full)
    x = np.zeros((3, 1), dtype)
    check("ConstantFill", [x], np.ones((3, 1), dtype), **full)
    check("ConstantFill", [x], np.ones((3, 1, 2), dtype), extra_shape=[2], **full)
    sizes = np.array([2, 4], np.int64)
    check("ConstantFill", [sizes], np.ones((2, 4), dtype), input_as_shape=1, **full)
    check(
        "ConstantFill",
        [sizes],
        np.ones((2, 4, 5), dtype),
        input_as_shape=1,
        extra_shape=[5],
        **full,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_given_tensor_fill(dtype):
    values = [float(value) for value in range(6)]
    grid = np.array(values).reshape(2, 3)
    x = np.zeros((2, 3), dtype)
    check("GivenTensorFill", [x], grid.astype(dtype), values=values)
    column = x[:, 0].copy()
    check("GivenTensorFill", [column], grid.astype(dtype), values=values, extra_shape=[3])
    check("GivenTensorFill", [], grid.astype(np.float32), values=values, shape=[2, 3])
    sizes = np.array([3, 2], np.int64)
    expected = grid.reshape(3, 2).astype(np.float32)
    check("GivenTensorFill", [sizes], expected, values=values, input_as_shape=1)


@pytest.mark.parametrize("drop", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gru_unit(dtype, drop):
    hidden = RNG.uniform(-1, 1, (1, 3, 4)).astype(dtype)
    gates = RNG.uniform(-1, 1, (1, 3, 12)).astype(dtype)
    lengths, step = np.array([2, 5, 3], np.int32), np.array([2], np.int32)
    update = 1 / (1 + np.exp(-gates[..., 4:8].astype(np.float64)))
    output = np.tanh(gates[..., 8:].astype(np.float64))
    expected = hidden * update + output * (1 - update)
    expected[0, 0] = 0 if drop else hidden[0, 0]
    inputs = [hidden, gates, lengths, step]
    check("GRUUnit", inputs, expected.astype(dtype), drop_states=drop)


def test_dynamic_slice():
    x = np.arange(20).reshape(4, 5)
    starts, ends = np.array([1, -3], np.int64), np.array([3, 1000], np.int64)
    check("DynamicSlice", [x, starts, ends], x[1:3, -3:])
    check("DynamicSlice", [x, starts, ends, np.array([1, 0])], x[-3:, 1:3])


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Crop", [IMAGE], {"border": [1, 2, 3]}, "four elements"),
        ("Crop", [IMAGE], {"border": [4, 0, 4, 0]}, "beyond"),
        ("Crop", [IMAGE[0]], {"border": [0, 0, 0, 0]}, "rank 3"),
        ("ImageScaler", [IMAGE], {"bias": [1.0]}, "1 biases"),
        ("ConstantFill", [], {}, "shape"),
        ("ConstantFill", [], {"shape": [2], "dtype": 8}, "dtype"),
        ("GivenTensorFill", [], {"values": [1.0, 2.0], "shape": [3]}, "3"),
        ("Affine", [np.zeros(2, np.int64)], {}, "int64"),
    ],
)
def test_errors(op, inputs, attributes, message):
    with pytest.raises(sardonyx.Error, match=message):
        run(op, inputs, **attributes)


def test_gone_since_opset_10():
    with pytest.raises(sardonyx.Error, match="deprecated since opset 10"):
        run("Affine", [IMAGE], 10)
