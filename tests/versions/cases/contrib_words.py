"""Contributed operators of older networks for text, checked as those in `contrib.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.contrib import DOMAIN, checked


@cases("WordConvEmbedding", domain=DOMAIN)
def word_conv_embedding(request: Request) -> list[Case]:
    count, characters, filters, window, size = 5, 7, 6, 3, 4
    words = request.random("T", (count, characters), 1, 9)
    for row, length in enumerate((7, 1, 3, 5, 2)):
        words[row, length:] = 0
    w = request.random("T1", (filters, 1, window, size))
    bias, table = request.random("T1", (filters,)), request.random("T1", (10, size))
    sizes = {"embedding_size": filters, "conv_window_size": window, "char_embedding_size": size}
    one = request.random("T1", (filters, 1, 1, size))
    found = checked(
        request,
        [
            Case([words, w, bias, table]),
            Case([words, w, bias, table], sizes, name="sizes"),
            Case([words, one, bias, table], name="windows of one"),
            Case([words[:, :3], w, bias, table], name="one window"),
            Case([words, w, bias, table], name="weights", initializers=[1, 2, 3]),
        ],
    )
    # ONNX Runtime leaves rows of empty words unwritten, and reads beyond words that are shorter
    # than the window.
    empty = words.copy()
    empty[[1, 4]] = 0
    for name, given in (("empty words", empty), ("short words", empty[:, :2])):
        case = Case([given, w, bias, table], name=name, rtol=1e-4, atol=1e-5)
        case.expected = [_words(np.pad(given, [(0, 0), (0, window)]), w, bias, table)]
        found.append(case)
    return found


def _words(words: np.ndarray, w: np.ndarray, bias: np.ndarray, table: np.ndarray) -> np.ndarray:
    rows = np.zeros((len(words), len(w)))
    window = w.shape[2]
    for row, word in enumerate(words):
        if word[0] > 0:
            letters = table.astype(np.float64)[word]
            last = max(int((word > 0).sum()), window) - window + 1
            sums = [(w[:, 0] * letters[i : i + window]).sum((1, 2)) + bias for i in range(last)]
            rows[row] = np.tanh(sums).max(0)
    return rows


def _attn_lstm(request: Request, name: str, attributes: dict[str, Any], **given: Any) -> Case:
    """A case; `given` turns optional inputs on by name."""
    steps, batch, size, hidden, memory, depth, attended = 4, 2, 3, 5, 6, 4, 3
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    layer = 7
    state = layer if given.get("layer") else depth
    random = lambda *shape: request.random("T", shape, -0.7, 0.7)  # noqa: E731
    inputs: list[Any] = [
        random(steps, batch, size),
        random(directions, 4 * hidden, size + state),
        random(directions, 4 * hidden, hidden),
        random(directions, 8 * hidden) if given.get("bias") else None,
        np.array([4, 2], np.int32) if given.get("lengths") else None,
        random(directions, batch, hidden) if given.get("start") else None,
        random(directions, batch, hidden) if given.get("start") else None,
        random(directions, 3 * hidden) if given.get("peepholes") else None,
        random(directions, hidden, attended),
        random(directions, depth, attended),
        random(directions, attended),
        random(batch, memory, depth),
        np.array([3, 6], np.int32) if given.get("memory") else None,
        random(directions, depth + hidden, layer) if given.get("layer") else None,
    ]
    return Case(inputs, {"hidden_size": hidden, **attributes}, name=name)


@cases("AttnLSTM", domain=DOMAIN)
def attn_lstm(request: Request) -> list[Case]:
    every = dict.fromkeys(("bias", "lengths", "start", "peepholes", "memory", "layer"), True)
    both = {"direction": "bidirectional"}
    found = [
        _attn_lstm(request, "bare", {}),
        _attn_lstm(request, "all inputs", {}, **every),
        _attn_lstm(request, "attention layer", {}, layer=True),
        _attn_lstm(request, "lengths of memories", {}, memory=True, bias=True),
        _attn_lstm(request, "reverse", {"direction": "reverse"}, **every),
        _attn_lstm(request, "both directions", both, **every),
        _attn_lstm(request, "both directions, bare", both),
        _attn_lstm(request, "input and forget", {"input_forget": 1}, bias=True),
        _attn_lstm(request, "clip", {"clip": 0.25}, bias=True),
        _attn_lstm(request, "activations", {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
    ]
    pairs = {
        "activations": ["HardSigmoid", "LeakyRelu", "ScaledTanh"] * 2,
        "activation_alpha": [0.25, 0.3, 0.75, 0.2, 0.1, 1.25],
        "activation_beta": [0.375, 0.625, 0.5, 1.5],
    }
    found.append(_attn_lstm(request, "parameters", {**both, **pairs}, **every))
    for name in ("Affine", "Elu", "Softplus", "ThresholdedRelu"):
        given = {"activations": ["Sigmoid", name, "Tanh"]}
        if name != "Softplus":
            given["activation_alpha"] = [0.5]
        if name == "Affine":
            given["activation_beta"] = [0.25]
        found.append(_attn_lstm(request, name, given, bias=True))
    return checked(request, found)
