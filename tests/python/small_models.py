"""Small models for the tests of the interfaces."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

OPSET = 21


def value(
    name: str,
    shape: Sequence[int | str | None] | None = ("n",),
    dtype: int = TensorProto.FLOAT,
):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = OPSET,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "small", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def of_nodes(*nodes: onnx.NodeProto, opset: int = OPSET, domains: Sequence[str] = ()):
    """x [n] -> nodes -> y, all float."""
    return model(nodes, [value("x")], [value("y", None)], opset=opset, domains=domains)


def relu() -> onnx.ModelProto:
    return of_nodes(helper.make_node("Relu", ["x"], ["y"], name="rectify"))


def identity(dtype: int, shape: Sequence[int | str | None] | None = None) -> onnx.ModelProto:
    return model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [value("x", shape, dtype)],
        [value("y", shape, dtype)],
        opset=25,  # which allows the types of two bits
    )


def add() -> onnx.ModelProto:
    """y = a + b for a of [batch, 3] and b of [3]."""
    return model(
        [helper.make_node("Add", ["a", "b"], ["y"], name="sum")],
        [value("a", ["batch", 3]), value("b", [3])],
        [value("y", ["batch", 3])],
    )
