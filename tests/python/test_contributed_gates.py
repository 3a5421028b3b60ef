"""What schemas cannot say of gates, states, streams and hashes: wrong sizes and attributes."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import sardonyx
from tests.python.one_node import one_node

DOMAIN = "com.microsoft"
X, GATE = np.zeros((2, 3, 8), np.float32), np.zeros((2, 3, 1), np.float32)
STREAMS = np.zeros((2, 3, 4, 8), np.float32)
EIGHT, FOUR = np.zeros(8, np.float32), np.zeros(4, np.float32)
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
LINEAR = {**HEADS, "update_rule": "linear"}
Q, K, STATE = X, X[:, :, :4], np.zeros((2, 2, 2, 2), np.float32)
KERNEL, ROWS = np.zeros((3, 1, 4), np.float32), np.zeros((2, 8, 3), np.float32)
POSITIONS = np.zeros((3, 2, 3), np.int64)
TABLE = np.zeros((5, 4), np.float32)
SECTIONS = {"mrope_section": [2, 1, 1], "num_heads": 1}
HEAD_SCALE = np.zeros((4, 8), np.float32)
IDS, NUMBERS = np.zeros((2, 3), np.int64), np.ones(4, np.int64)
HASHES = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 0}
BOUNDS, COUNTS = np.array([0, 2, 3], np.int32), np.zeros(2, np.int32)
TWICE = np.zeros(2, np.int64)


def model_of(op: str, inputs: list[Any], attributes: dict[str, Any], outputs: int, named: bool):
    dtype = inputs[0].dtype
    return one_node(op, inputs, attributes, outputs=outputs, named=named, dtype=dtype)


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "names"])
@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("GatedRMSNorm", [X, EIGHT, X], {"activation": "relu"}, "'relu', not silu"),
        ("GatedRMSNorm", [X, EIGHT[:3], X], {}, "8 features of X are no multiple of the 3"),
        ("GatedRMSNorm", [X, EIGHT[:0], X], {}, "no multiple of the 0"),
        ("GatedRMSNorm", [X, EIGHT, X[:, :2]], {}, r"gate is \[2,2,8\], expected \[2,3,8\]|size"),
        ("GatedRMSNorm", [X[0, 0, 0], EIGHT, X[0, 0, 0]], {}, "X is a scalar"),
        ("GatedAdd", [X, X, X], {}, "gate is"),
        ("GatedAdd", [X, X[0], GATE], {}, r"Y is \[.*\], expected"),
        ("GatedAdd", [X[0, 0, 0], X[0, 0, 0], X[0, 0, 0]], {}, "X is a scalar"),
        ("ScaledSiLU", [X, EIGHT], {}, r"scale is \[8\], expected one|8 elements|reshape"),
        ("BranchwiseRMSNorm", [X], {"num_branches": 3}, "8 features, which 3 branches"),
        ("BranchwiseRMSNorm", [X], {"num_branches": -1}, "num_branches is -1"),
        ("BranchwiseRMSNorm", [EIGHT], {}, "at least rank 2, not 1"),
        ("BranchwiseRMSNorm", [X, EIGHT[:3]], {}, r"scale is \[3\], expected \[8\]"),
        ("BranchwiseRMSNorm", [X, GATE], {}, "scale has rank 3, not 1"),
        ("LinearAttentionGate", [X, FOUR, EIGHT], {}, "dt_bias|8|4"),
        ("LinearAttentionGate", [X, EIGHT, EIGHT, X[0]], {}, r"b is \["),
        ("LinearAttention", [Q, K, K], {**LINEAR, "state_window": 9}, "state_window is 9"),
        ("LinearAttention", [Q, K, K], {**LINEAR, "q_num_heads": 3}, "neither divides"),
        ("LinearAttention", [Q, K, K], {**LINEAR, "kv_num_heads": 0}, "neither divides"),
        ("LinearAttention", [Q, K, K], HEADS, "needs the input 'decay'"),
        ("LinearAttention", [Q, K, K], {**HEADS, "update_rule": "none"}, "update_rule 'none'"),
        ("LinearAttention", [Q[0], K, K], LINEAR, "query has rank 2"),
        ("LinearAttention", [Q[..., :6], K, K], LINEAR, "6 features, which 4 heads do not divide"),
        ("LinearAttention", [Q, K[..., :3], K], LINEAR, "key"),
        (
            "LinearAttention",
            [Q, K, K, STATE[None]],
            {**LINEAR, "state_window": 2},
            "1 states, not state_window = 2",
        ),
        ("LinearAttention", [Q, K, K, STATE], {**LINEAR, "state_window": 2}, "rank 4, not 5"),
        ("CausalConvWithState", [X, KERNEL], {"ndim": 2}, "ndim is 2"),
        ("CausalConvWithState", [X, KERNEL], {"dilation": 0}, "dilation is 0"),
        ("CausalConvWithState", [X, KERNEL], {"dilation": 1 << 61}, "too long"),
        ("CausalConvWithState", [X, KERNEL], {"dilation": 1 << 50}, "."),
        ("CausalConvWithState", [X, KERNEL], {"state_window": -1}, "state_window is -1"),
        ("CausalConvWithState", [X, KERNEL], {"activation": "relu"}, "'relu', not silu"),
        ("CausalConvWithState", [X, KERNEL[:, 0]], {}, "weight has rank 2"),
        ("CausalConvWithState", [X, KERNEL[:, :, :0]], {}, "no elements along its last axis"),
        ("CausalConvWithState", [X, KERNEL[:2]], {}, "channels|3"),
        ("CausalConvWithState", [X[0], KERNEL], {}, "rank 2, not 3"),
        ("CausalConvWithState", [STREAMS, KERNEL], {}, "rank 4, not 3"),
        ("CausalConvWithState", [X, KERNEL, FOUR], {}, "bias|4"),
        ("CausalConvWithState", [X, KERNEL, None, X], {}, "past_state|8"),
        ("CausalConvWithState", [X, KERNEL, None, X], {"state_window": 3}, "3 states"),
        ("CausalConvWithState", [STREAMS, KERNEL], {"channels_last": 1}, "3"),
        ("MRotaryEmbedding", [X, POSITIONS, TABLE, TABLE], {"mrope_section": [4, 0, 0]}, "num_h"),
        (
            "MRotaryEmbedding",
            [X, POSITIONS, TABLE, TABLE],
            {**SECTIONS, "mrope_section": [2, 2]},
            "has 2 numbers, not 3",
        ),
        (
            "MRotaryEmbedding",
            [X, POSITIONS, TABLE, TABLE],
            {**SECTIONS, "mrope_section": [5, -1, 0]},
            "no division of 4 pairs",
        ),
        (
            "MRotaryEmbedding",
            [X, POSITIONS, TABLE, TABLE],
            {**SECTIONS, "mrope_section": [1, 1, 1]},
            "of 3 pairs, not 4",
        ),
        (
            "MRotaryEmbedding",
            [X, POSITIONS, TABLE, TABLE],
            {**SECTIONS, "mrope_layout": 2},
            "mrope_layout is 2",
        ),
        (
            "MRotaryEmbedding",
            [X, POSITIONS, TABLE, TABLE],
            {**SECTIONS, "rotary_embedding_dim": 10},
            "10 features of a head of 8",
        ),
        ("MRotaryEmbedding", [X, POSITIONS[:2], TABLE, TABLE], SECTIONS, "position_ids|outside"),
        ("MRotaryEmbedding", [X, POSITIONS, TABLE[:, :3], TABLE], SECTIONS, "3"),
        ("MRotaryEmbedding", [X, POSITIONS + 9, TABLE, TABLE], SECTIONS, "9"),
        ("MRotaryEmbedding", [EIGHT, POSITIONS, TABLE, TABLE], SECTIONS, "rank 1, not 3 or 4"),
        ("EngramGate", [X, X, X, HEAD_SCALE, HEAD_SCALE], {}, "key has rank 3, not 4"),
        ("EngramGate", [STREAMS, STREAMS, X, HEAD_SCALE[:3], HEAD_SCALE], {}, "3"),
        ("HyperConnectionPreMix", [STREAMS, X], {}, "pre_mix|8"),
        ("HyperConnectionPreMix", [X, FOUR], {"num_branches": 2}, "pre_mix is"),
        ("HyperConnectionPostMix", [STREAMS, X, FOUR], {}, "post_mix is"),
        ("HyperConnectionPostMix", [STREAMS, STREAMS, STREAMS], {}, "block_output is"),
        ("HyperConnectionPostMix", [STREAMS, X, STREAMS, FOUR], {}, "stream_mix is"),
        ("NGramHashMapping", [IDS, NUMBERS, NUMBERS], {**HASHES, "max_ngram_size": 1}, "is 1"),
        (
            "NGramHashMapping",
            [IDS, NUMBERS, NUMBERS],
            {**HASHES, "max_ngram_size": 1 << 40},
            "more than 256",
        ),
        ("NGramHashMapping", [IDS, NUMBERS, NUMBERS], {**HASHES, "n_head_per_ngram": 0}, "is 0"),
        ("NGramHashMapping", [IDS, NUMBERS[:2], NUMBERS], HASHES, "2 multipliers for n-grams of 3"),
        ("NGramHashMapping", [IDS, NUMBERS, NUMBERS[:3]], HASHES, "vocab_sizes|3"),
        ("NGramHashMapping", [IDS, NUMBERS, NUMBERS, IDS], HASHES, "past_ids|3"),
        ("NGramHashMapping", [IDS[0], NUMBERS, NUMBERS], HASHES, "input_ids has rank 1"),
        ("NGramHashMapping", [IDS, NUMBERS, NUMBERS, None, None, TWICE], HASHES, "."),
        (
            "NGramHashMapping",
            [IDS.astype(np.int32), *[NUMBERS.astype(np.int32)] * 2],
            {**HASHES, "pad_id": 1 << 40},
            "which ids of int32 cannot be",
        ),
        ("VarlenNGramHashMapping", [IDS, NUMBERS, NUMBERS, BOUNDS], HASHES, "input_ids has rank 2"),
        ("VarlenNGramHashMapping", [IDS[0], NUMBERS, NUMBERS, BOUNDS[:1]], HASHES, "1|\\[0"),
        ("VarlenNGramHashMapping", [IDS[0], NUMBERS, NUMBERS, BOUNDS + 90], HASHES, "9"),
        (
            "VarlenNGramHashMapping",
            [IDS[0], NUMBERS, NUMBERS, BOUNDS, *[None] * 5, COUNTS],
            HASHES,
            "come together",
        ),
        (
            "VarlenNGramHashMapping",
            [IDS[0], NUMBERS, NUMBERS, BOUNDS],
            {**HASHES, "state_update_capacity": 9},
            "state_update_capacity is 9",
        ),
        (
            "VarlenNGramHashMapping",
            [IDS[0], NUMBERS, NUMBERS, BOUNDS, *[None] * 4, COUNTS[:, None]],
            HASHES,
            "past_segment_ids needs segment_ids",
        ),
    ],
)
def test_wrong_inputs(op, inputs, attributes, message, named):
    outputs = 2 if op in ("LinearAttention", "CausalConvWithState") else 1
    model, values = model_of(op, inputs, attributes, outputs, named)
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.load(model).run(values)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "outputs", "message"),
    [
        ("LinearAttentionGate", [X, EIGHT, EIGHT], {}, 2, "beta needs the input b"),
        ("EngramGate", [STREAMS, STREAMS, X, HEAD_SCALE, HEAD_SCALE], {}, 2, "conv_norm_scale"),
        ("VarlenNGramHashMapping", [IDS[0], NUMBERS, NUMBERS, BOUNDS], HASHES, 3, "segment_ids"),
    ],
)
def test_outputs_without_their_inputs(op, inputs, attributes, outputs, message):
    model, values = model_of(op, inputs, attributes, outputs, False)
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.load(model).run(values)


# Nothing of the node is known before it runs, and output 2 of 4 is not asked for.
def test_output_left_out_of_a_node_that_is_lowered_late():
    inputs = [IDS[0], NUMBERS, NUMBERS, BOUNDS, *[None] * 5, COUNTS + 1]
    attributes = {**HASHES, "state_update_capacity": 1, "pad_id": 7}
    model, values = model_of("VarlenNGramHashMapping", inputs, attributes, 4, True)
    node = model.graph.node[0]
    node.output[2] = ""
    info = helper.make_tensor_value_info("y3", TensorProto.INT64, None)
    model.graph.output.append(info)
    found = list(sardonyx.load(model).run(values).values())
    np.testing.assert_array_equal(found[1], [[[7, 0]], [[7, 0]]])
