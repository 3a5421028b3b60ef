"""Bodies that use values from around them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

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


@pytest.mark.parametrize(("op_type", "opset"), [("Loop", 17), ("Scan", 17), ("Scan", 8)])
def test_more_states_than_the_body_gives(op_type, opset):
    loops = op_type == "Loop"
    goes_on = helper.make_tensor_value_info("goes_on", TensorProto.BOOL, [])
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    states, x = [info("a", [2]), info("b", [2]), info("c", [2])], info("x", [2])
    body = helper.make_graph(
        [],
        "body",
        [count, goes_on, *states] if loops else [*states, x],
        [goes_on, states[0]] if loops else states[:1],
    )
    before = ["", "goes_on"] if loops else [""] if opset == 8 else []
    names = [*before, "s", "s", "s", *([] if loops else ["z"])]
    scanned = {} if loops else {"num_scan_inputs": 1}
    node = helper.make_node(op_type, names, ["y"], body=body, **scanned)
    shape = [2, 2] if opset == 8 else [2]
    inputs = [goes_on, info("s", shape)] if loops else [info("s", shape), info("z", [2, *shape])]
    with pytest.raises(sardonyx.InvalidModelError, match="carries 3 values, but its body has"):
        run(node, inputs, [info("y", None)], {}, opset)


def test_states_that_are_handed_on(tmp_path):
    """Also from an engine file."""
    weights = np.float32([[1, 2], [3, 4]])
    nodes = [
        helper.make_node("MatMul", ["state", "w"], ["p"]),
        helper.make_node("Add", ["p", "bias"], ["next"]),
    ]
    goes_on = helper.make_tensor_value_info("goes_on", TensorProto.BOOL, [])
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    states = [info("state", [1, 2]), info("w", [2, 2]), info("bias", [2])]
    outputs = [goes_on, info("next", [1, 2]), *states[1:], info("p", [1, 2])]
    body = helper.make_graph(nodes, "body", [count, goes_on, *states], outputs)
    node = helper.make_node(
        "Loop", ["trips", "", "first", "weights", "b"], ["y", "v", "c", "all"], body=body
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info("trips", TensorProto.INT64, []),
            info("first", [1, 2]),
            info("b", [2]),
        ],
        [info(name, None) for name in ("y", "v", "c", "all")],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = sardonyx.load(model)
    onnx.save(model, tmp_path / "loop.onnx")
    sardonyx.compile(tmp_path / "loop.onnx", tmp_path / "loop.sdx")
    first, bias = np.float32([[1, -1]]), np.float32([1, 0])
    for loaded in (session, sardonyx.load(tmp_path / "loop.sdx")):
        for trips in (0, 1, 3):
            found = loaded.run({"trips": np.int64(trips), "first": first, "b": bias})
            state, products = first, []
            for _ in range(trips):
                products.append(state @ weights)
                state = products[-1] + bias
            np.testing.assert_array_equal(found["y"], state)
            np.testing.assert_array_equal(found["v"], weights)
            np.testing.assert_array_equal(found["c"], bias)
            np.testing.assert_array_equal(
                found["all"].reshape(-1, 2), np.reshape(products, (-1, 2))
            )
