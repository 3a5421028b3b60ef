"""Contributed operators on texts and tensors: what is wrong with a node or its inputs is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sardonyx
from tests.python.one_node import one_node

TEXTS = np.array(["a b", "c"], object)
TOKENS = {"mark": 0, "mincharnum": 1, "pad_value": ""}
X, LINE = np.zeros((1, 2, 4, 5), np.float32), np.zeros((2, 6), np.float32)
ROIS, WHERE, CROP = np.zeros((3, 4), np.float32), np.zeros(3, np.int32), np.array([2, 2], np.int32)
MASK, KERNEL = np.ones((1, 1, 4, 5), np.int32), {"kernel_shape": [2, 2]}
IDS, SCORES = np.zeros((2, 5), np.int64), np.zeros((2, 9), np.float32)
SOURCE, CURRENT, PREVIOUS = np.array([1, 2, 3]), np.array([4]), np.array([1])
W = np.zeros((2, 3, 3, 3), np.float32)


def _run(op: str, inputs: list[Any], attributes: dict[str, Any], *, named: bool) -> None:
    outputs = 2 if op == "BifurcationDetector" else 1
    model, values = one_node(op, inputs, attributes, outputs=outputs, named=named)
    sardonyx.load(model).run(values)


@pytest.mark.parametrize("named", [False, True], ids=["sizes", "names"])
@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Tokenizer", [TEXTS], TOKENS, "neither separators nor a tokenexp"),
        ("Tokenizer", [TEXTS], TOKENS | {"separators": ["("]}, "'\\(' is no regular expression"),
        ("Tokenizer", [TEXTS], TOKENS | {"tokenexp": "a++"}, "is no regular expression"),
        ("Tokenizer", [TEXTS], TOKENS | {"tokenexp": "a", "mincharnum": 0}, "is 0, not positive"),
        ("Tokenizer", [TEXTS], TOKENS | {"separators": [""], "mincharnum": 2}, "of mincharnum 2"),
        (
            "Tokenizer",
            [TEXTS.reshape(2, 1, 1)],
            TOKENS | {"separators": [" "]},
            "takes strings \\[C\\] or \\[N,C\\], not ",
        ),
        ("NGramRepeatBlock", [IDS, SCORES], {"ngram_size": 0}, "ngram_size is 0"),
        ("NGramRepeatBlock", [IDS[0], SCORES], {"ngram_size": 2}, "have rank 1 and 2, not 2"),
        ("NGramRepeatBlock", [IDS + 9, SCORES], {"ngram_size": 2}, "index 9 "),
        ("NGramRepeatBlock", [IDS - 1, SCORES], {"ngram_size": 2}, "2147483647"),
        (
            "BifurcationDetector",
            [SOURCE, CURRENT, PREVIOUS, CURRENT],
            {},
            "1 predicted tokens, not 3",
        ),
        ("BifurcationDetector", [SOURCE, CURRENT, PREVIOUS + 3, CURRENT], {}, "is 4, of 3 tokens"),
        ("BifurcationDetector", [SOURCE, CURRENT, PREVIOUS - 2, CURRENT], {}, "is -1, of 3"),
        ("BifurcationDetector", [SOURCE, CURRENT, SOURCE], {}, "is one number, not "),
        ("BifurcationDetector", [SOURCE, IDS, PREVIOUS], {}, "tokens as vectors, not "),
        (
            "BifurcationDetector",
            [SOURCE, CURRENT, PREVIOUS],
            {"min_ngram_size": 3, "max_ngram_size": 2},
            "n-grams of 3 to 2 tokens",
        ),
        ("UnfoldTensor", [LINE], {"size": 7}, "windows of 7 along an axis of 6"),
        ("UnfoldTensor", [LINE], {"size": 0}, "windows of 0 along an axis of 6"),
        ("UnfoldTensor", [LINE], {"size": 2, "step": 0}, "step is 0, not positive"),
        ("UnfoldTensor", [LINE], {"size": 2, "dim": 2}, "axis 2 is outside"),
        ("DynamicTimeWarping", [X], {}, "costs \\[M,N\\] or \\[1,M,N\\], not "),
        ("CropAndResize", [X, ROIS, WHERE, CROP], {"mode": "cubic"}, "no mode 'cubic'"),
        ("CropAndResize", [X, ROIS, WHERE, CROP[:1]], {}, "crop_size has 1 elements"),
        ("CropAndResize", [X, ROIS, WHERE, CROP * 0], {}, "crops of 0 by 0 pixels"),
        ("CropAndResize", [X, ROIS, WHERE[:2], CROP], {}, "batch_indices .* do not fit"),
        ("CropAndResize", [X, ROIS, WHERE + 1, CROP], {}, "batch index 1 is outside"),
        ("CropAndResize", [X[0], ROIS, WHERE, CROP], {}, "takes \\[N,C,H,W\\], not "),
        ("CropAndResize", [X, ROIS[:, :3], WHERE, CROP], {}, "rois are \\[count,4\\], not "),
        ("MaxpoolWithMask", [X, MASK], {}, "kernel_shape is missing"),
        ("MaxpoolWithMask", [X, MASK[0]], KERNEL, "the mask has rank 3, x has rank 4"),
        ("MaxpoolWithMask", [X, MASK[..., :4]], KERNEL, "size 4 along axis 3, x has 5"),
        ("MaxpoolWithMask", [X, MASK], {"kernel_shape": [2, 6]}, "a window of 6 .* does not fit"),
        (
            "MaxpoolWithMask",
            [X, MASK],
            {"kernel_shape": [1, 3000], "pads": [0, 2000] * 2},
            "windows of 3000 columns",
        ),
        ("ConvTransposeWithDynamicPads", [X, W, np.array([1, 1])], {}, "Pads has 2 values"),
        ("ConvTransposeWithDynamicPads", [X, W, np.array([1, 1, -1, 1])], {}, "value -1"),
        ("Range", [np.array(1), np.array(5), np.array(0)], {}, "the delta 0"),
    ],
)
def test_what_is_wrong_is_said(
    op: str, inputs: list[Any], attributes: dict[str, Any], message: str, named: bool
):
    with pytest.raises(sardonyx.Error, match=message):
        _run(op, inputs, attributes, named=named)
