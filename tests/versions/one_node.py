"""Models of one node, of which no sizes are declared, and what is to come of them."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnx.reference
from onnx import helper

import sardonyx

OPSET = 23


def build(op: str, inputs: list, attributes: dict, outputs: int = 1, constants=()) -> bytes:
    names, infos, initializers = [], [], []
    for i, value in enumerate(inputs):
        names.append("" if value is None else f"x{i}")
        if value is None:
            continue
        if i in constants:
            initializers.append(onnx.numpy_helper.from_array(value, f"x{i}"))
            continue
        code = helper.np_dtype_to_tensor_dtype(value.dtype)
        infos.append(helper.make_tensor_value_info(f"x{i}", code, [None] * value.ndim))
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name="node", **attributes)
    graph = helper.make_graph(
        [node], op, infos, [onnx.ValueInfoProto(name=name) for name in results], initializers
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
    ).SerializeToString()


def run(op: str, inputs: list, attributes: dict, outputs: int = 1, constants=()) -> list:
    model = build(op, inputs, attributes, outputs, constants)
    values = {f"x{i}": v for i, v in enumerate(inputs) if v is not None and i not in constants}
    return list(sardonyx.load(model, threads=1).run(values).values())


def reference(op: str, inputs: list, attributes: dict, outputs: int = 1) -> list:
    model = onnx.load_from_string(build(op, inputs, attributes, outputs))
    values = {f"x{i}": v for i, v in enumerate(inputs) if v is not None}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return onnx.reference.ReferenceEvaluator(model).run(None, values)


def same(actual: list, right: list, rtol=1e-5, atol=1e-6) -> None:
    for a, b in zip(actual, right, strict=True):
        b = np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)
