"""Recurrent operators some or all of whose weights are given to each run."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from one_node import one_node
from onnx import helper, numpy_helper

import sardonyx

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 7, 13
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weights_of(op: str, directions: int) -> list[np.ndarray]:
    """Give X, W, R, B, the lengths of sequences and the first states, and P of an LSTM."""
    rng = np.random.default_rng(1)
    rows = GATES[op] * HIDDEN

    def floats(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    given = [
        floats(STEPS, BATCH, INPUTS),
        floats(directions, rows, INPUTS),
        floats(directions, rows, HIDDEN),
        floats(directions, 2 * rows),
        np.array([5, 2, 4], np.int32),
        floats(directions, BATCH, HIDDEN),
    ]
    if op == "LSTM":
        given += [floats(directions, BATCH, HIDDEN), floats(directions, 3 * HIDDEN)]
    return given


def with_constants(proto: Any, values: dict[str, np.ndarray], names: set[str]) -> bytes:
    """Make inputs of these names initializers."""
    for name in names:
        proto.graph.initializer.append(numpy_helper.from_array(values[name], name))
    left = [each for each in proto.graph.input if each.name not in names]
    del proto.graph.input[:]
    proto.graph.input.extend(left)
    proto.ir_version = 10
    return proto.SerializeToString()


def run(data: bytes, feeds: dict[str, np.ndarray], threads: int = 2) -> np.ndarray:
    session = sardonyx.load(data, threads=threads)
    explained = session.explain({name: value.shape for name, value in feeds.items()})
    assert "packed steps" in explained
    session.run({name: np.zeros_like(value) for name, value in feeds.items()})
    return session.run(feeds)["y0"]


@pytest.mark.parametrize("constants", ["", "12", "23", "3", "13"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", list(GATES))
def test_floats(op: str, direction: str, constants: str) -> None:
    inputs = weights_of(op, 2 if direction == "bidirectional" else 1)
    attributes = {"hidden_size": HIDDEN, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = 1
    proto, values = one_node(op, inputs, attributes, domain="", opset=21)
    names = {f"x{digit}" for digit in constants}
    data = with_constants(proto, values, names)
    feeds = {name: value for name, value in values.items() if name not in names}
    got = run(data, feeds)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(got, session.run(None, feeds)[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("given", ["3", "123", "8910111", "12389"])
def test_bytes(given: str, kind: type) -> None:
    """The same bits as of constants."""
    rng = np.random.default_rng(2)
    x, _, _, b, lengths, h, c, p = weights_of("LSTM", 1)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    w = rng.integers(low, high, (1, INPUTS, 4 * HIDDEN)).astype(kind)
    r = rng.integers(low, high, (1, HIDDEN, 4 * HIDDEN)).astype(kind)
    scales = [rng.uniform(0.001, 0.01, (1, 4 * HIDDEN)).astype(np.float32) for _ in "wr"]
    zeros = [np.zeros((1, 4 * HIDDEN), kind) for _ in "wr"]
    inputs = [x, w, r, b, lengths, h, c, p, scales[0], zeros[0], scales[1], zeros[1]]
    proto, values = one_node("DynamicQuantizeLSTM", inputs, {"hidden_size": HIDDEN})
    fed = {f"x{position}" for position in range(12) if str(position) in given} | {"x0"}
    some = helper.make_model(proto.graph)
    some.CopyFrom(proto)
    data = with_constants(some, values, set(values) - fed)
    got = run(data, {name: values[name] for name in fed})
    all_constant = with_constants(proto, values, set(values) - {"x0"})
    np.testing.assert_array_equal(got, run(all_constant, {"x0": x}))
