"""ONNX Gradient: against central differences of the model itself in float64, and torch.autograd."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import sardonyx

TRAINING = "ai.onnx.preview.training"
OPSETS = [helper.make_opsetid("", 22), helper.make_opsetid(TRAINING, 1)]


def differentiated(nodes, inputs, xs, y, *, constants=None, symbolic=(), opsets=OPSETS):
    """A model of these nodes with outputs y and the gradients of y by xs, taken at xs."""
    constants = constants or {}
    names = [f"d_{x}" for x in xs]
    gradient = helper.make_node(
        "Gradient", xs, names, domain=TRAINING, xs=xs or [""], y=y, name="gradient"
    )
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(value.dtype),
            [f"{name}_{i}" for i in range(value.ndim)] if name in symbolic else value.shape,
        )
        for name, value in inputs.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in (y, *names)]
    graph = helper.make_graph(
        [*nodes, gradient] if xs else nodes,
        "graph",
        infos,
        outputs,
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return sardonyx.load(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def central_difference(session, inputs, x, y, step=1e-5):
    """Derivative of the sum of y by each element of x."""
    result = np.zeros_like(inputs[x])
    for at in np.ndindex(result.shape):
        sums = []
        for sign in (1, -1):
            moved = inputs[x].copy()
            moved[at] += sign * step
            sums.append(session.run({**inputs, x: moved}, [y])[y].sum())
        result[at] = (sums[0] - sums[1]) / (2 * step)
    return result


def uniform(*shape, low=-2.0, high=2.0, seed=0):
    """Distinct values: nothing lies at a kink, and no two are equal."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.uniform(low, high, shape))


def ints(*values):
    """An int64 vector, or scalar."""
    return np.array(values if len(values) != 1 else values[0], np.int64)


X = uniform(2, 3)
IMAGE = uniform(2, 2, 5, 6)
POSITIVE = uniform(2, 3, low=0.3, high=3)
SMALL = uniform(2, 3, low=-0.9, high=0.9)


def unary(*names, value=X, **attributes):
    return [(name, [value], attributes, 1) for name in names]


# operator, inputs, attributes, number of inputs (from the first) to differentiate by
CASES = [
    *unary("Abs", "Neg", "Exp", "Sin", "Cos", "Sinh", "Cosh", "Tanh", "Asinh", "Atan", "Erf"),
    *unary("Sigmoid", "Relu", "Softplus", "Softsign", "Elu", "Selu", "LeakyRelu", "Gelu"),
    *unary("HardSigmoid", "HardSwish", "Mish", "ThresholdedRelu", "Identity", "Floor", "Round"),
    *unary("Tan", "Asin", "Acos", "Atanh", value=SMALL),
    *unary("Log", "Sqrt", "Reciprocal", value=POSITIVE),
    *unary("Acosh", value=POSITIVE + 1),
    *unary("Shrink", lambd=0.5, bias=0.25),
    *[(op, [X, uniform(3, seed=1)], {}, 2) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")],
    ("Add", [X, uniform(4, 1, 1, seed=1)], {}, 2),
    ("Pow", [POSITIVE, X], {}, 2),
    ("Pow", [X, np.array(3.0)], {}, 1),
    ("Mod", [X, POSITIVE], {"fmod": 1}, 2),
    ("PRelu", [X, uniform(3, seed=1)], {}, 2),
    ("Clip", [X, np.array(-1.0), np.array(0.75)], {}, 1),
    ("Where", [X > 0, X, uniform(3, seed=1)], {}, 3),
    ("Sum", [X, uniform(1, 3, seed=1), uniform(2, 1, seed=2)], {}, 3),
    ("Cast", [X], {"to": onnx.TensorProto.DOUBLE}, 1),
    ("MatMul", [X, uniform(3, 4, seed=1)], {}, 2),
    ("MatMul", [uniform(2, 2, 3), uniform(3, seed=1)], {}, 2),
    ("MatMul", [uniform(2, 3), uniform(4, 3, 2, seed=1)], {}, 2),
    ("Gemm", [X, uniform(4, 3, seed=1), uniform(4, seed=2)], {"transB": 1, "alpha": 0.5}, 3),
    ("Gemm", [X, uniform(4, 2, seed=1)], {"transA": 1, "transB": 1}, 2),
    ("Einsum", [X, uniform(3, 4, seed=1)], {"equation": "ij,jk->ki"}, 2),
    *[
        (op, [uniform(2, 3, 2, low=0.2), ints(1)[None]], {"keepdims": keep}, 1)
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1")
        for keep in (0, 1)
    ],
    *[
        (op, [uniform(2, 3, 2, low=0.2), ints(0, 2)], {"keepdims": keep}, 1)
        for op in ("ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd")
        for keep in (0, 1)
    ],
    ("ReduceProd", [uniform(2, 3) * np.array([0, 1, 1])], {}, 1),
    ("ReduceMean", [X], {}, 1),
    ("CumSum", [X, ints(1)], {"exclusive": 1}, 1),
    ("CumSum", [X, ints(0)], {"reverse": 1}, 1),
    *[
        ("CumProd", [uniform(2, 4, 2) * np.array([[[1], [0], [1], [0.5]]]), ints(1)], flags, 1)
        for flags in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1})
    ],
    ("Softmax", [X], {"axis": 0}, 1),
    ("LogSoftmax", [X], {}, 1),
    ("LayerNormalization", [X, uniform(3, seed=1), uniform(3, seed=2)], {}, 3),
    ("RMSNormalization", [X, uniform(3, seed=1)], {}, 2),
    ("InstanceNormalization", [IMAGE, uniform(2, seed=1), uniform(2, seed=2)], {}, 3),
    ("LpNormalization", [X], {}, 1),
    ("Reshape", [X, ints(3, 2)], {}, 1),
    ("Flatten", [uniform(2, 3, 2)], {}, 1),
    ("Squeeze", [uniform(2, 1, 3), ints(1)[None]], {}, 1),
    ("Unsqueeze", [X, ints(0, 3)], {}, 1),
    ("Transpose", [uniform(2, 3, 4)], {"perm": [2, 0, 1]}, 1),
    ("Expand", [uniform(3, 1), ints(2, 3, 4)], {}, 1),
    ("Concat", [X, uniform(2, 2, seed=1)], {"axis": 1}, 2),
    ("Slice", [uniform(5, 4), ints(4, 1), ints(-9, 3), ints(0, 1), ints(-2, 1)], {}, 1),
    ("Gather", [X, ints(0, 2, 2)], {"axis": 1}, 1),
    ("GatherElements", [X, np.array([[0, 1, 1]])], {}, 1),
    ("GatherND", [X, np.array([[0, 1], [0, 1], [1, 2]])], {}, 1),
    ("ScatterElements", [X, np.array([[0, 1]]), uniform(1, 2, seed=1)], {}, None),
    ("ScatterND", [X, np.array([[1]]), uniform(1, 3, seed=1)], {"reduction": "add"}, None),
    ("TensorScatter", [uniform(2, 4, 3), uniform(2, 2, 3, seed=1), ints(1, 0)], {}, 2),
    ("TensorScatter", [uniform(2, 2, 4, 3), uniform(2, 2, 3, 3, seed=1), ints(2, 3)],
     {"mode": "circular"}, 2),
    ("Tile", [X, ints(2, 3)], {}, 1),
    ("Pad", [X, ints(1, -1, 0, 2), np.array(0.5)], {}, 1),
    ("Pad", [X, ints(1, 2, 1, 0)], {"mode": "reflect"}, 1),
    ("Pad", [X, ints(1, 2, 1, 0)], {"mode": "edge"}, 1),
    ("Trilu", [uniform(3, 3)], {"upper": 0}, 1),
    ("Compress", [X, np.array([True, False, True])], {"axis": 1}, 1),
    ("DepthToSpace", [uniform(1, 4, 2, 2)], {"blocksize": 2}, 1),
    ("Conv", [IMAGE, uniform(4, 1, 3, 3, seed=1), uniform(4, seed=2)],
     {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1], "dilations": [1, 2]}, 3),
    ("Conv", [uniform(1, 2, 7), uniform(3, 2, 3, seed=1)], {"auto_pad": "SAME_UPPER"}, 2),
    ("ConvTranspose", [uniform(1, 2, 3, 2), uniform(2, 2, 3, 3, seed=1)],
     {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]}, 2),
    ("ConvTranspose", [uniform(1, 4, 4), uniform(4, 1, 2, seed=1)],
     {"group": 2, "strides": [3], "output_shape": [14]}, 2),
    ("MaxPool", [IMAGE], {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]}, 1),
    ("AveragePool", [IMAGE], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2]}, 1),
    ("AveragePool", [IMAGE],
     {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1, "ceil_mode": 1}, 1),
    ("LpPool", [IMAGE], {"kernel_shape": [2, 2], "p": 3}, 1),
    ("GlobalAveragePool", [IMAGE], {}, 1),
    ("GlobalMaxPool", [IMAGE], {}, 1),
    ("SoftmaxCrossEntropyLoss", [X, ints(0, 2)], {}, 1),
]  # fmt: skip


@pytest.mark.parametrize("symbolic", [False, True], ids=["sizes", "symbols"])
@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_central_differences(case, symbolic):
    op, values, attributes, count = case
    positions = [0, 2] if count is None else range(count)
    float64 = [i for i in positions if values[i].dtype == np.float64]
    opset = {"RMSNormalization": 23, "TensorScatter": 24, "CumProd": 26}.get(op, 22)
    if "output_shape" in attributes:
        symbolic = False  # refused: the pads follow from the sizes
    names = [f"x{i}" for i in range(len(values))]
    inputs = {names[i]: values[i] for i in float64}
    constants = {names[i]: values[i] for i in range(len(values)) if i not in float64}
    node = helper.make_node(op, names, ["result"], **attributes)
    opsets = [helper.make_opsetid("", opset), OPSETS[1]]
    shape_of = (
        differentiated([node], inputs, [], "result", constants=constants, opsets=opsets)
        .run(inputs)["result"]
        .shape
    )
    constants["weights"] = uniform(*shape_of, seed=9)
    nodes = [node, helper.make_node("Mul", ["result", "weights"], ["y"])]
    xs = list(inputs)
    session = differentiated(
        nodes, inputs, xs, "y", constants=constants, symbolic=names[:symbolic], opsets=opsets
    )
    found = session.run(inputs)
    for x in xs:
        wanted = central_difference(session, inputs, x, "y")
        np.testing.assert_allclose(found[f"d_{x}"], wanted, rtol=1e-5, atol=1e-7, err_msg=x)


def torch_cases() -> list[tuple[str, dict, list[np.ndarray], Callable]]:
    """Operator, attributes, inputs, the same in torch."""
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    image, weights = uniform(2, 3, 8, 7), uniform(4, 3, 3, 3, seed=1)
    return [
        ("Conv", {"pads": [1, 1, 1, 1], "strides": [2, 2]}, [image, weights],
         lambda x, w: f.conv2d(x, w, padding=1, stride=2)),
        ("ConvTranspose", {"strides": [2, 2]}, [uniform(1, 4, 3, 3), weights],
         lambda x, w: f.conv_transpose2d(x, w, stride=2)),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2]}, [image],
         lambda x: f.max_pool2d(x, 3, 2)),
        ("AveragePool", {"kernel_shape": [2, 2]}, [image], lambda x: f.avg_pool2d(x, 2, 1)),
        ("LayerNormalization", {}, [image, uniform(7, seed=2), uniform(7, seed=3)],
         lambda x, s, b: f.layer_norm(x, (7,), s, b)),
        ("Softmax", {"axis": 1}, [image], lambda x: f.softmax(x, 1)),
        ("Gelu", {}, [image], f.gelu),
        ("Relu", {}, [np.array([-1.0, 0.0, 2.0])], torch.relu),
        ("Abs", {}, [np.array([-1.0, 0.0, 2.0])], torch.abs),
        ("Max", {}, [np.array([1.0, 2.0]), np.array([1.0, 3.0])], torch.maximum),
        ("ReduceMax", {"keepdims": 0}, [np.array([[2.0, 1.0], [2.0, 0.0]])], torch.amax),
        ("ReduceProd", {"keepdims": 0}, [np.array([0.0, 2.0, 3.0])], torch.prod),
        ("MatMul", {}, [uniform(2, 3, 4), uniform(4, 5, seed=1)], torch.matmul),
        ("Pow", {}, [np.array([0.0, 2.0, 3.0]), np.array([2.0, 0.0, -1.0])], torch.pow),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("at", range(14))
def test_torch(at, dtype):
    torch = pytest.importorskip("torch")
    op, attributes, values, function = torch_cases()[at]
    inputs = {f"x{i}": value.astype(dtype) for i, value in enumerate(values)}
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    found = differentiated([node], inputs, list(inputs), "y").run(inputs)
    tensors = [torch.tensor(value, requires_grad=True) for value in inputs.values()]
    function(*tensors).sum().backward()
    tolerance = 1e-5 if dtype == np.float32 else 1e-11
    for name, tensor in zip(inputs, tensors, strict=True):
        np.testing.assert_allclose(
            found[f"d_{name}"], tensor.grad.numpy(), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 6)).astype(np.float32)
    cosine, sine = rng.standard_normal((2, 2, 4, 2)).astype(np.float32)
    weights = rng.standard_normal(x.shape).astype(np.float32)
    nodes = [
        helper.make_node(
            "RotaryEmbedding",
            ["x", "cosine", "sine"],
            ["result"],
            rotary_embedding_dim=4,
            interleaved=interleaved,
        ),
        helper.make_node("Mul", ["result", "weights"], ["y"]),
    ]
    inputs = {"x": x, "cosine": cosine, "sine": sine}
    opsets = [helper.make_opsetid("", 23), OPSETS[1]]
    constants = {"weights": weights}
    session = differentiated(nodes, inputs, list(inputs), "y", constants=constants, opsets=opsets)
    found = session.run(inputs)
    first, second = (slice(0, 4, 2), slice(1, 4, 2)) if interleaved else (slice(2), slice(2, 4))
    a, b, g, h = x[..., first], x[..., second], weights[..., first], weights[..., second]
    c, s = cosine[:, None], sine[:, None]
    wanted = weights.copy()
    wanted[..., first], wanted[..., second] = g * c + h * s, h * c - g * s
    close = dict(rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["d_x"], wanted, **close)
    np.testing.assert_allclose(found["d_cosine"], (g * a + h * b).sum(1), **close)
    np.testing.assert_allclose(found["d_sine"], (h * a - g * b).sum(1), **close)


def test_several_paths_and_the_second_derivative():
    # y = x * x * w; dy/dx = 2 x w; d(dy/dx)/dw = 2 x.
    x, w = uniform(3), uniform(3, seed=1)
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("Mul", ["square", "w"], ["y"]),
        helper.make_node("Gradient", ["x", "w"], ["first"], domain=TRAINING, xs=["x", "w"], y="y"),
    ]
    found = differentiated(nodes, {"x": x, "w": w}, ["x", "w"], "first").run({"x": x, "w": w})
    np.testing.assert_allclose(found["first"], 2 * x * w)
    np.testing.assert_allclose(found["d_x"], 2 * w)
    np.testing.assert_allclose(found["d_w"], 2 * x)


def test_second_derivative_of_a_convolution():
    x, w = uniform(1, 1, 4, 4), uniform(1, 1, 2, 2, seed=1)
    inputs = {"x": x, "w": w}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Mul", ["c", "c"], ["y"]),
        helper.make_node("Gradient", ["x"], ["first"], domain=TRAINING, xs=["x"], y="y"),
        helper.make_node("Mul", ["first", "first"], ["z"]),
    ]
    session = differentiated(nodes, inputs, ["x", "w"], "z")
    found = session.run(inputs)
    for name in inputs:
        wanted = central_difference(session, inputs, name, "z")
        np.testing.assert_allclose(found[f"d_{name}"], wanted, rtol=1e-7, atol=1e-8)


def test_other_values_intermediate_variables_and_skipped_outputs():
    # y = exp(h) * z with h = 3 x, differentiated by h at 0.5, where z is 4.
    nodes = [
        helper.make_node("Mul", ["x", "three"], ["h"]),
        helper.make_node("Exp", ["h"], ["e"]),
        helper.make_node("Mul", ["e", "z"], ["y"]),
        helper.make_node(
            "Gradient", ["half", "z", "four"], ["", "dz"], domain=TRAINING, xs=["h", "z"], zs=["k"],
            y="y"
        ),
        helper.make_node(
            "Gradient", ["half", "four"], ["dh"], domain=TRAINING, xs=["h"], zs=["z"], y="y"
        ),
    ]  # fmt: skip
    constants = {"three": np.array(3.0), "half": np.array(0.5), "four": np.array(4.0)}
    inputs = {"x": np.array(1.0), "z": np.array(2.0)}
    session = differentiated(nodes, inputs, ["x"], "y", constants=constants)
    found = session.run(inputs, ["dz", "dh", "d_x"])
    np.testing.assert_allclose(found["dz"], np.exp(0.5))
    np.testing.assert_allclose(found["dh"], 4 * np.exp(0.5))
    np.testing.assert_allclose(found["d_x"], 6 * np.exp(3))


def test_weights_that_are_constants_of_the_model():
    nodes = [helper.make_node("Mul", ["w", "w"], ["s"]), helper.make_node("Add", ["s", "x"], ["y"])]
    w = uniform(3)
    session = differentiated(nodes, {"x": X}, ["w"], "y", constants={"w": w})
    np.testing.assert_allclose(session.run({"x": X})["d_w"], 4 * w)


def test_a_variable_that_does_not_matter():
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Exp", ["w"], ["z"])]
    inputs = {"x": X, "w": uniform(3)}
    found = differentiated(nodes, inputs, ["x", "w"], "y").run(inputs)
    np.testing.assert_array_equal(found["d_x"], np.ones_like(X))
    np.testing.assert_array_equal(found["d_w"], np.zeros(3))


def test_integers_stop_gradients():
    nodes = [
        helper.make_node("ArgMax", ["x"], ["i"], keepdims=1, axis=1),
        helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1),
    ]
    found = differentiated(nodes, {"x": X}, ["x"], "y").run({"x": X})
    np.testing.assert_array_equal(found["d_x"], (X == X.max(1, keepdims=True)).astype(float))


def test_dropout_is_differentiated_at_the_mask_it_drew():
    x = np.ones((64, 64), np.float32)
    constants = {"ratio": np.array(0.5, np.float32), "train": np.array(True)}
    nodes = [helper.make_node("Dropout", ["x", "ratio", "train"], ["y"], name="drop")]
    session = differentiated(nodes, {"x": x}, ["x"], "y", constants=constants)
    first, second = session.run({"x": x}), session.run({"x": x})
    np.testing.assert_array_equal(first["d_x"], first["y"])
    assert (first["y"] != second["y"]).any()


def test_what_gradients_cannot_pass_is_named():
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="cell", hidden_size=2)]
    inputs = {"x": uniform(2, 1, 3)}
    constants = {"w": uniform(1, 8, 3), "r": uniform(1, 8, 2)}
    with pytest.raises(sardonyx.Error, match=r"Gradient cannot pass node 'cell' \(LSTM-22\)"):
        differentiated(nodes, inputs, ["x"], "y", constants=constants)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"xs": ["x"], "y": "missing"}, "y is 'missing', which is not defined"),
        ({"xs": ["x", "y"], "y": "y"}, "1 inputs and 1 outputs for 2 xs and 0 zs"),
    ],
)
def test_faults_of_the_node_are_named(attributes, message):
    nodes = [
        helper.make_node("Exp", ["x"], ["y"]),
        helper.make_node("Gradient", ["x"], ["g"], domain=TRAINING, **attributes),
    ]
    with pytest.raises(sardonyx.Error, match=message):
        differentiated(nodes, {"x": X}, ["x"], "y")
