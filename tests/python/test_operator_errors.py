"""What schemas cannot say: wrong sizes and attributes."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import sardonyx
from tests.python.one_node import one_node

Q, K = np.zeros((2, 4, 3, 8), np.float32), np.zeros((2, 2, 5, 8), np.float32)
FLAT = np.zeros((2, 3, 8), np.float32)
GATES = np.zeros((2, 3, 2), np.float32)
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}


def body(outputs: int, rank: int = 4) -> Any:
    def info(name: str, dims: int = rank) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * dims)

    names = [f"out{position}" for position in range(outputs)]
    nodes = [helper.make_node("Identity", ["in"], [name]) for name in names]
    return helper.make_graph(nodes, "body", [info("in")], [info(name) for name in names])


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "names"])
@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Attention", [Q, K[:, :, :, :6], K], {}, "8|6"),
        ("Attention", [Q[:, :3], K, K], {}, "3 query heads cannot share 2"),
        ("Attention", [Q, K, K, None, K], {}, "come together"),
        ("Attention", [Q, K, K], {"qk_matmul_output_mode": 4}, "mode is 4"),
        ("Attention", [Q, K, K], {"left_window_size": -2}, "left_window_size is -2"),
        ("Attention", [Q, K, K], {"softmax_precision": 7}, "softmax_precision is 7"),
        ("Attention", [Q, K, K], HEADS, "inputs of rank 3"),
        ("Attention", [FLAT, FLAT, FLAT], {}, "q_num_heads is needed"),
        ("Attention", [Q[0, 0], K[0, 0], K[0, 0]], {}, "rank 3 or 4, not 2"),
        ("LinearAttention", [FLAT, FLAT, FLAT], HEADS | {"q_num_heads": 3}, "3 query heads"),
        ("LinearAttention", [FLAT, FLAT, FLAT], HEADS, "needs the input 'decay'"),
        ("LinearAttention", [FLAT] * 3, HEADS | {"update_rule": "none"}, "update_rule 'none'"),
        ("LinearAttention", [FLAT] * 3, HEADS | {"update_rule": "linear"}, "key is"),
        (
            "LinearAttention",
            [FLAT, FLAT[:, :, :4], FLAT, None, GATES],
            HEADS | {"update_rule": "linear"},
            "has no use for the input 'decay'",
        ),
        ("CausalConvWithState", [FLAT, FLAT], {}, "."),
        ("CausalConvWithState", [FLAT[0], FLAT], {}, "rank 3, not 2"),
        ("CausalConvWithState", [FLAT, FLAT[0, :, None]], {"activation": "relu"}, "'relu'"),
        ("FlexAttention", [Q, K, K], {"score_mod": body(2)}, "must have one output"),
        ("FlexAttention", [Q[0], K[0], K[0]], {}, "rank 4"),
        ("FlexAttention", [Q, K, K], {"softmax_precision": 6}, "softmax_precision is 6"),
    ],
)
def test_wrong_attention(op, inputs, attributes, message, named):
    domain = "ai.onnx.preview" if op == "FlexAttention" else ""
    outputs = 2 if op in ("LinearAttention", "CausalConvWithState") else 1
    model, values = one_node(
        op, inputs, attributes, outputs=outputs, named=named, domain=domain, opset=28
    )
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.load(model).run(values)


def test_body_of_a_sequence_map_with_too_few_inputs():
    names = ["s", "x"]
    infos = [
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
    ]
    node = helper.make_node("SequenceMap", names, ["y"], body=body(1, 1))
    y = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "graph", infos, [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(sardonyx.Error, match="takes 1 inputs, given 2"):
        sardonyx.load(model)


IMAGE = np.zeros((1, 4, 6, 6), np.float32)
PLACES = np.zeros((1, 4, 6, 6), np.int64)
LARGE = 2**62


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Pad", [IMAGE, np.ones(8, np.int64), IMAGE[0, 0, 0, :0]], {}, "value of shape .0.: it mu"),
        ("DepthToSpace", [IMAGE], {"blocksize": LARGE}, "blocksize is 4611686018427387904"),
        ("SpaceToDepth", [IMAGE], {"blocksize": LARGE}, "blocksize is 4611686018427387904"),
        ("LRN", [IMAGE], {"size": -(2**63)}, "size is -9223372036854775808"),
        (
            "MaxUnpool",
            [IMAGE, PLACES],
            {"kernel_shape": [2, 2], "pads": [0, -(2**63), 0, 0]},
            "pads has the value -9223372036854775808",
        ),
        ("MaxPool", [IMAGE], {"kernel_shape": [2, LARGE]}, "kernel_shape has the value 4611"),
        (
            "TfIdfVectorizer",
            [np.zeros((1, 3), np.int64)],
            {
                "mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
                "ngram_counts": [0], "ngram_indexes": [0, 2**63 - 1], "pool_int64s": [1, 2],
            },
            "ngram_indexes is 9223372036854775807, not from 0",
        ),
    ],
)  # fmt: skip
def test_sizes_beyond_all_reason(op, inputs, attributes, message):
    names = [f"x{position}" for position in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], "wrong", **attributes)
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in zip(names, inputs, strict=True)
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", infos, [y]))
    with pytest.raises(sardonyx.Error, match=rf"'wrong' \({op}-\d+\).*{message}"):
        sardonyx.load(model).run(dict(zip(names, inputs, strict=True)))
