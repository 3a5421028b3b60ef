"""Normalisations between convolutions, whose channels are last: nothing is turned for them."""

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

import sardonyx

CHANNELS = 12
EPSILON = 2.0**-10


def group_normalization(groups, scale, bias):
    """The operator since opset 21."""
    node = helper.make_node(
        "GroupNormalization", ["a", "scale", "bias"], ["b"], num_groups=groups, epsilon=EPSILON
    )
    return [node], {"scale": scale, "bias": bias}


def exported_group_norm(groups, scale, bias):
    """As exporters write it for older opsets."""
    nodes = [
        helper.make_node("Reshape", ["a", "rows"], ["r"]),
        helper.make_node("InstanceNormalization", ["r", "one", "zero"], ["i"], epsilon=EPSILON),
        helper.make_node("Shape", ["a"], ["dims"]),
        helper.make_node("Reshape", ["i", "dims"], ["j"]),
        helper.make_node("Mul", ["j", "scale"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["b"]),
    ]
    return nodes, {
        "rows": np.array([0, groups, -1], np.int64),
        "one": np.ones(groups, scale.dtype),
        "zero": np.zeros(groups, scale.dtype),
        "scale": scale.reshape(CHANNELS, 1, 1),
        "bias": bias.reshape(CHANNELS, 1, 1),
    }


def instance_normalization(groups, scale, bias):
    node = helper.make_node("InstanceNormalization", ["a", "scale", "bias"], ["b"], epsilon=EPSILON)
    return [node], {"scale": scale, "bias": bias}


def between_convolutions(normalization, groups, dims, dtype=np.float32):
    """x -> convolution -> normalisation -> SiLU -> convolution -> y, and the same by PyTorch."""
    random = np.random.default_rng(0)
    values = {
        "v": random.standard_normal((CHANNELS, 3, 3, 3)),
        "w": random.standard_normal((4, CHANNELS, 1, 1)),
        "scale": random.standard_normal(CHANNELS),
        "bias": random.standard_normal(CHANNELS),
    }
    values = {name: value.astype(dtype) for name, value in values.items()}
    nodes, constants = normalization(groups, values["scale"], values["bias"])
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
        *nodes,
        helper.make_node("Sigmoid", ["b"], ["s"]),
        helper.make_node("Mul", ["b", "s"], ["c"]),
        helper.make_node("Conv", ["c", "w"], ["y"]),
    ]
    constants |= {"v": values["v"], "w": values["w"]}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "normalised",
        [helper.make_tensor_value_info("x", element, dims)],
        [helper.make_tensor_value_info("y", element, [None] * 4)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])

    def expected(x):
        wide = {name: torch.from_numpy(value).double() for name, value in values.items()}
        a = torch.nn.functional.conv2d(torch.from_numpy(x).double(), wide["v"], padding=1)
        b = torch.nn.functional.group_norm(a, groups, wide["scale"], wide["bias"], eps=EPSILON)
        return torch.nn.functional.conv2d(torch.nn.functional.silu(b), wide["w"]).numpy()

    return model, expected


CASES = [
    (group_normalization, 4),
    (group_normalization, 1),
    (group_normalization, CHANNELS),
    (exported_group_norm, 4),
    (exported_group_norm, 1),
    (instance_normalization, CHANNELS),
]


@pytest.mark.parametrize("dims", [["n", 3, "h", "w"], [2, 3, 33, 20]], ids=["symbols", "sizes"])
@pytest.mark.parametrize(("normalization", "groups"), CASES)
def test_agrees_with_float64_and_turns_the_result_alone(normalization, groups, dims):
    model, expected = between_convolutions(normalization, groups, dims)
    session = sardonyx.load(model)
    x = np.random.default_rng(1).standard_normal((2, 3, 33, 20)).astype(np.float32)
    with session.profile() as profile:
        y = session.run({"x": x})["y"]
    np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=2e-5)
    steps = [step.core_op for step in profile.steps()]
    assert steps == ["conv", "group_moments", "fused", "conv", "transpose"]


@pytest.mark.parametrize(("normalization", "groups"), CASES)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_of_other_types(normalization, groups, dtype):
    model, expected = between_convolutions(normalization, groups, ["n", 3, "h", "w"], dtype)
    x = np.random.default_rng(1).standard_normal((3, 3, 17, 9)).astype(dtype)
    y = sardonyx.load(model).run({"x": x})["y"]
    bound = {"rtol": 1e-2, "atol": 5e-2} if dtype == np.float16 else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(y, expected(x), **bound)


def test_of_many_images_and_of_none():
    model, expected = between_convolutions(group_normalization, 3, ["n", 3, "h", "w"])
    session = sardonyx.load(model)
    x = np.random.default_rng(1).standard_normal((40, 3, 31, 18)).astype(np.float32)
    np.testing.assert_allclose(session.run({"x": x})["y"], expected(x), rtol=1e-5, atol=2e-5)
    assert session.run({"x": x[:0]})["y"].shape == (0, 4, 31, 18)
