"""Bodies that use values from around them."""

import numpy as np
from onnx import TensorProto, helper

import sardonyx

FLOAT = TensorProto.FLOAT


def info(name, shape):
    return helper.make_tensor_value_info(name, FLOAT, shape)


def run(node, inputs, outputs, values, opset):
    graph = helper.make_graph([node], "graph", inputs, outputs)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.preview", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return list(sardonyx.load(model).run(values).values())


def test_flex_attention():
    def body(name, captured):
        nodes = [helper.make_node("Mul", ["x", captured], [name])]
        return helper.make_graph(nodes, name, [info("x", [None] * 4)], [info(name, [None] * 4)])

    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, 2, 3, 4)).astype(np.float32) for _ in range(3))
    values = {"q": q, "k": k, "v": v, "a": np.float32([0.5]), "b": np.float32([2])}
    node = helper.make_node(
        "FlexAttention",
        ["q", "k", "v"],
        ["y"],
        domain="ai.onnx.preview",
        score_mod=body("scores", "a"),
        prob_mod=body("probs", "b"),
    )
    inputs = [info(name, value.shape) for name, value in values.items()]
    [y] = run(node, inputs, [info("y", None)], values, 25)
    scores = np.exp(q @ k.swapaxes(2, 3) / 2 * 0.5)
    expected = 2 * (scores / scores.sum(-1, keepdims=True)) @ v
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_sequence_map():
    nodes = [helper.make_node("Add", ["x", "outside"], ["z"])]
    body = helper.make_graph(nodes, "body", [info("x", None)], [info("z", None)])
    inputs = [helper.make_tensor_sequence_value_info("s", FLOAT, None), info("outside", [2])]
    output = helper.make_tensor_sequence_value_info("y", FLOAT, None)
    node = helper.make_node("SequenceMap", ["s"], ["y"], body=body)
    for count in (0, 1, 3):
        items = [np.full((size + 1, 2), size, np.float32) for size in range(count)]
        values = {"s": items, "outside": np.array([1, 2], np.float32)}
        [y] = run(node, inputs, [output], values, 17)
        assert len(y) == count
        for found, item in zip(y, items, strict=True):
            np.testing.assert_array_equal(found, np.add(item, [1, 2]))


def test_scan_of_opset_8():
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("Add", ["state", "scaled"], ["next"]),
        helper.make_node("Identity", ["next"], ["each"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("state", [2]), info("x", [2])],
        [info("next", [2]), info("each", [2])],
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    values = {"first": np.ones((2, 2), np.float32), "x": x, "factor": np.float32([3])}
    node = helper.make_node("Scan", ["", "first", "x"], ["y", "ys"], body=body, num_scan_inputs=1)
    for shapes in (True, False):
        inputs = [
            info(name, value.shape if shapes else [f"{name}{i}" for i in range(value.ndim)])
            for name, value in values.items()
        ]
        y, ys = run(node, inputs, [info("y", None), info("ys", None)], values, 8)
        np.testing.assert_array_equal(ys, 1 + 3 * x.cumsum(1))
        np.testing.assert_array_equal(y, ys[:, -1])
