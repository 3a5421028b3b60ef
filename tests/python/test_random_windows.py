"""Convolutions and pools of random sizes and attributes against ONNX Runtime.

What is quantised has the sums of a float32 convolution of ONNX Runtime, exact for whole numbers of
this size: its own of bytes lets sums of two products saturate where the processor has no VNNI.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx
from tests.models.unoptimised import run_unoptimised

WINDOWS = 1500
AT_ONCE = 150
MOST_PRODUCTS, MOST_ELEMENTS = 10_000_000, 200_000
CHANNELS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)
FILTERS = (1, 2, 3, 5, 8, 10, 16, 17, 24, 32, 40, 64, 96, 128, 256)
POOLS = ("MaxPool", "AveragePool", "LpPool")
INTEGER = ("ConvInteger", "QLinearConv")
OPS = (*["Conv"] * 6, "ConvTranspose", "ConvTranspose", *INTEGER, *POOLS)


class Window:
    """A model of one operator with a window, and its input."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.constants: list[onnx.TensorProto] = []
        while not self._draw():
            pass

    def pick(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def along(self, rank: int, choices: Any) -> list[int]:
        """One number for each axis, in half of the draws the same."""
        drawn = [self.pick(choices) for _ in range(rank)]
        return drawn if self.random.random() < 0.5 else drawn[:1] * rank

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def _draw(self) -> bool:
        """False if what was drawn has no output, or a large one."""
        self.op = op = self.pick(OPS)
        rank, batch = self.pick([1, 2, 2, 2, 3]), self.pick([1, 1, 2])
        channels = self.pick(CHANNELS)
        most = max(2, min(140, int((60_000 / channels) ** (1 / rank))))
        sizes = [int(size) for size in self.random.integers(1, most, rank)]
        kernel = self.along(rank, [1, 1, 2, 3, 3, 4, 5, 7])
        strides = self.along(rank, [1, 1, 1, 2, 2, 3])
        dilations = self.along(rank, [1, 1, 2, 2, 3])
        pads = [d * (k - 1) // 2 for d, k in zip(dilations, kernel, strict=True)] * 2
        if op in POOLS or self.random.random() < 0.5:
            beyond = 0 if op in POOLS else self.pick([0, 0, 2])  # windows of padding alone
            pads = [int(self.random.integers(k + beyond)) for k in kernel * 2]
        groups = [g for g in range(1, channels + 1) if channels % g == 0]
        group = self.pick([1, 1, 1, channels, self.pick(groups)])
        filters = group * self.pick([1, 1, 2, 3]) if group > 1 else self.pick(FILTERS)
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
        around = [pads[i] + pads[i + rank] for i in range(rank)]
        if op == "ConvTranspose":
            out = [
                (n - 1) * s + r - p
                for n, s, r, p in zip(sizes, strides, reach, around, strict=True)
            ]
        else:
            out = [
                (n + p - r) // s + 1
                for n, s, r, p in zip(sizes, strides, reach, around, strict=True)
            ]
        elements, fan = batch * filters * math.prod(out), channels // group * math.prod(kernel)
        if min(out) < 1 or elements > MOST_ELEMENTS or elements * fan > MOST_PRODUCTS:
            return False
        attributes: dict[str, Any] = {
            "kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads
        }  # fmt: skip
        x = self.random.standard_normal((batch, channels, *sizes)).astype(np.float32)
        if op in INTEGER:
            x = self.random.integers(0, 256, x.shape).astype(np.uint8)
        inputs = ["x", *self._operands(op, channels, filters, group, kernel)]
        if op not in POOLS:
            attributes["group"] = group
        elif op == "LpPool":
            attributes["p"] = 2
        else:
            attributes["ceil_mode"] = self.pick([0, 0, 1])
            if op == "AveragePool":
                attributes["count_include_pad"] = self.pick([0, 1])
        self.feeds = {"x": x}
        self.model = self._model(op, inputs, attributes, x)
        self.about = (op, x.shape, filters, attributes)
        return True

    def _operands(
        self, op: str, channels: int, filters: int, group: int, kernel: list[int]
    ) -> list[str]:
        if op in POOLS:
            return []
        shape = (filters, channels // group, *kernel)
        if op in INTEGER:
            codes = self.constant(self.random.integers(-127, 128, shape).astype(np.int8))
            zero = self.constant(np.array(121, np.uint8))
            if op == "ConvInteger":
                return [codes, zero]
            scale = self.constant(np.array(0.02, np.float32))
            scales = self.random.uniform(0.001, 0.01, filters).astype(np.float32)
            zeros = self.constant(np.zeros(filters, np.int8))
            return [scale, zero, codes, self.constant(scales), zeros, scale, zero]
        if op == "ConvTranspose":
            shape = (channels, filters // group, *kernel)
        weights = self.random.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))
        bias = self.random.standard_normal(filters)
        count = self.pick([1, 2])
        return [self.constant(v.astype(np.float32)) for v in (weights, bias)[:count]]

    def _model(self, op: str, inputs: list[str], attributes: dict, x: np.ndarray) -> bytes:
        nodes = [helper.make_node(op, inputs, ["y"], **attributes)]
        if op in ("Conv", "ConvTranspose") and self.random.random() < 0.4:
            nodes[0].output[0] = "sums"
            nodes.append(helper.make_node("Relu", ["sums"], ["y"]))
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        y_kind = {"ConvInteger": TensorProto.INT32, "QLinearConv": TensorProto.UINT8}
        graph = helper.make_graph(
            nodes,
            "window",
            [helper.make_tensor_value_info("x", kind, x.shape)],
            [helper.make_tensor_value_info("y", y_kind.get(op, TensorProto.FLOAT), None)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 22)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def _quantised(window: Window) -> np.ndarray:
    """What QLinearConv has to give."""
    node = onnx.load_from_string(window.model).graph.node[0]
    values = {c.name: numpy_helper.to_array(c) for c in window.constants} | window.feeds
    x, x_scale, x_zero, codes, scales, _, y_scale, y_zero = (values[name] for name in node.input)
    kernel = helper.make_node("Conv", ["x", "w"], ["y"])
    kernel.attribute.extend(node.attribute)
    names = [("x", x), ("w", codes), ("y", None)]
    x_info, w_info, y_info = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, v if v is None else v.shape)
        for name, v in names
    )
    graph = helper.make_graph([kernel], "sums", [x_info, w_info], [y_info])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    feeds = {"x": np.float32(x) - np.float32(x_zero), "w": np.float32(codes)}
    sums = run_unoptimised(model.SerializeToString(), feeds)[0].astype(np.float64)
    factors = (x_scale * scales.astype(np.float64) / y_scale).reshape(-1, *[1] * (sums.ndim - 2))
    return np.clip(np.rint(sums * factors) + y_zero, 0, 255).astype(np.uint8)


def _expected(window: Window) -> np.ndarray:
    if window.op == "QLinearConv":
        return _quantised(window)
    y = run_unoptimised(window.model, window.feeds)[0]
    # Of a window without an element it has the least number where Sardonyx has the maximum of
    # nothing.
    lowest = np.finfo(np.float32).min
    return np.where(y == lowest, -np.inf, y) if window.op == "MaxPool" else y


@pytest.mark.parametrize("first", range(0, WINDOWS, AT_ONCE))
def test_random_windows(first):
    """Numbers are those of ONNX Runtime, and the same bits with two threads as with one."""
    for seed in range(first, first + AT_ONCE):
        window = Window(seed)
        one, two = (
            sardonyx.load(window.model, threads=threads).run(window.feeds)["y"]
            for threads in (1, 2)
        )
        wanted = _expected(window).astype(np.float64)
        assert one.shape == wanted.shape, (seed, window.about)
        assert one.tobytes() == two.tobytes(), (seed, window.about)
        finite = np.isfinite(wanted)
        assert np.array_equal(one[~finite], wanted[~finite]), (seed, window.about)
        size = np.abs(wanted[finite]).max(initial=1e-3)
        bound = {"ConvInteger": 0, "QLinearConv": 1}.get(window.op, 2e-4 * size)
        error = np.abs(one.astype(np.float64)[finite] - wanted[finite]).max(initial=0)
        assert error <= bound, (seed, window.about, error)
