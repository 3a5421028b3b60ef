"""Contributed products: what schemas cannot say, and sizes that a run finds out."""

from typing import Any

import numpy as np
import pytest

import sardonyx
from tests.python.one_node import one_node

X, ROUTER = np.ones((3, 32), np.float32), np.ones((3, 4), np.float32)
FIRST, LAST = np.ones((4, 64, 32), np.float32), np.ones((4, 32, 64), np.float32)
LAYERS: list[Any] = [X, ROUTER, FIRST, None, LAST]
THIRD = [*LAYERS, None, FIRST]
CODES = [np.zeros((4, 64, 16), np.uint8), np.zeros((4, 32, 32), np.uint8)]
SCALES = [np.ones((4, 64), np.float32), np.ones((4, 32), np.float32)]
STORED: list[Any] = [X, ROUTER, CODES[0], SCALES[0], None, CODES[1], SCALES[1]]
UNSCALED: list[Any] = [X, ROUTER, CODES[0], None, None, CODES[1]]
SWIGLU = {"activation_type": "swiglu"}
BNB4 = {"K": 32, "N": 2, "block_size": 16, "quant_type": 0}
BYTES, ABSMAX = np.zeros(32, np.uint8), np.ones(4, np.float32)
POINTS = np.ones((3, 5), np.float32)


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "names"])
@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("CDist", [POINTS, POINTS[:, :4]], {}, "A has 5 columns, but B has 4"),
        ("CDist", [POINTS, POINTS[:, :1]], {"metric": "cityblock"}, "but B has 1"),
        ("CDist", [POINTS[0], POINTS], {}, "inputs have 1 axes, but must have 2"),
        ("CDist", [POINTS, POINTS], {"metric": "mahalanobis"}, "metric is 'mahalanobis'"),
        ("MatMulBnb4", [X, BYTES[1:], ABSMAX], BNB4, r"31( elements|\]), .* 32"),
        ("MatMulBnb4", [X, BYTES, ABSMAX[1:]], BNB4, r"3( elements|\]), .* 4"),
        ("MatMulBnb4", [X, BYTES, ABSMAX], BNB4 | {"block_size": 24}, "block_size is 24"),
        ("MatMulBnb4", [X, BYTES, ABSMAX], BNB4 | {"quant_type": 2}, "quant_type is 2"),
        ("MatMulBnb4", [X, BYTES, ABSMAX], BNB4 | {"N": 1 << 40}, "weights of 1099511627776 rows"),
        ("MoE", LAYERS, {"k": 5}, "k is 5, but must be from 1 to .* 4|the top 5"),
        ("MoE", LAYERS, {"k": 0}, "k is 0, but must be from 1"),
        ("MoE", LAYERS, {"activation_type": "tanh"}, "activation_type is 'tanh'"),
        ("MoE", LAYERS, SWIGLU, "swiglu takes fc3_experts_weights"),
        ("MoE", THIRD, SWIGLU | {"swiglu_fusion": 1}, "they stand in fc1"),
        ("MoE", LAYERS, {"swiglu_fusion": 3}, "swiglu_fusion is 3, but must be 0, 1 or 2"),
        ("MoE", LAYERS, {"use_sparse_mixer": 1}, "k is 1, but use_sparse_mixer chooses 2"),
        ("MoE", [X[0], *LAYERS[1:]], {}, "input has 1 axes, but must have 2 or 3"),
        ("MoE", [*LAYERS[:4], LAST[:, :, 1:]], {}, r"but weights are \[4,32,63\]"),
        ("MoE", [X, ROUTER[:2], *LAYERS[2:]], {}, r"but experts are \[2,1\]"),
        ("QMoE", UNSCALED, {}, "fc1_scales is not given"),
        ("QMoE", STORED, {"expert_weight_bits": 3}, "expert_weight_bits is 3 for fc1"),
        ("QMoE", STORED, {"block_size": 16}, "fc1_scales have 2 axes, but must have 3"),
        ("QMoE", STORED, {"block_size": 12}, "block_size is 12, not a power of two"),
        ("QMoE", STORED, {"quant_type": "wfp4afp8"}, "quant_type is 'wfp4afp8'"),
        (
            "QMoE",
            STORED,
            {"quant_type": "fp8"},
            "fc1_experts_weights are uint8, but must be float8",
        ),
        ("QMoE", STORED, {"weights_prepacked": 1}, "prepacked for a GPU"),
    ],
)
def test_wrong_nodes(op, inputs, attributes, message, named):
    made, values = one_node(op, inputs, attributes, named=named)
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.load(made).run(values)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("CDist", [POINTS, POINTS], {}),
        ("MatMulBnb4", [X, BYTES, ABSMAX], BNB4),
        ("MoE", THIRD, SWIGLU | {"k": 2}),
        ("QMoE", STORED, {"k": 2}),
    ],
)
def test_named_sizes(op, inputs, attributes):
    made, values = one_node(op, inputs, attributes)
    expected = sardonyx.load(made).run(values)["y0"]
    made, values = one_node(op, inputs, attributes, named=True)
    np.testing.assert_array_equal(sardonyx.load(made).run(values)["y0"], expected)


def test_a_point_that_is_not_finite_spoils_no_other():
    points = np.array([[1, 2], [np.inf, 3], [4, 6]], np.float32)
    made, values = one_node("CDist", [points, points], {"metric": "euclidean"})
    found = sardonyx.load(made).run(values)["y0"]
    assert found[0, 2] == 5
    assert not np.isfinite(found[1, 0])


def test_no_tokens():
    made, values = one_node("MoE", [X[:0], ROUTER[:0], *LAYERS[2:]], {"k": 2})
    found = sardonyx.load(made).run(values)["y0"]
    assert found.shape == (0, 32)
