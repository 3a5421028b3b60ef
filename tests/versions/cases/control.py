"""If, Loop and Scan over every kind of value."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper, numpy_helper

from tests.versions.case import Case, Request, cases
from tests.versions.element_types import element_of, type_proto

ELEMENTS = (
    *("bool", "string", "float16", "float", "double", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


def _value(request: Request, type_: str) -> Any:
    """A value of a type: sequences have two tensors of different sizes."""
    kind, _, inner = type_[:-1].partition("(")
    if kind == "optional":
        return _value(request, inner)
    if kind == "seq":
        element = inner
        return [request.random(element, (2, 3)), request.random(element, (1,))]
    return request.random(type_, (2, 3))


def _constructible(type_: str) -> bool:
    """Whether SequenceConstruct-11 and Optional-15, the only ones before opset 28, take it."""
    return type_.startswith("tensor") or element_of(type_) in ELEMENTS


def _empty(type_: str, name: str) -> Any:
    kind, _, inner = type_[:-1].partition("(")
    if kind == "optional":
        return helper.make_node("Optional", [], [name], type=type_proto(inner))
    dtype = getattr(TensorProto, element_of(type_).upper())
    return helper.make_node("SequenceEmpty", [], [name], dtype=dtype)


def _nodes(value: Any, type_: str, name: str) -> tuple[list, list]:
    """Nodes, and initializers, that make the value under a name."""
    if not _constructible(type_):
        return [_empty(type_, name)], []
    kind, _, inner = type_[:-1].partition("(")
    if kind == "optional":
        nodes, constants = _nodes(value, inner, f"{name}_element")
        return [*nodes, helper.make_node("Optional", [f"{name}_element"], [name])], constants
    if kind == "seq":
        names = [f"{name}_{position}" for position in range(len(value))]
        constants = [numpy_helper.from_array(*pair) for pair in zip(value, names, strict=True)]
        return [helper.make_node("SequenceConstruct", names, [name])], constants
    constant = numpy_helper.from_array(value, f"{name}_value")
    return [helper.make_node("Identity", [constant.name], [name])], [constant]


def _info(name: str, type_: str | TypeProto) -> Any:
    proto = type_proto(type_) if isinstance(type_, str) else type_
    return helper.make_value_info(name, proto)


@cases("If")
def if_(request: Request) -> list[Case]:
    type_ = request.type("V")
    branches, values = {}, []
    for branch in ("then_branch", "else_branch"):
        value = _value(request, type_)
        nodes, constants = _nodes(value, type_, branch)
        branches[branch] = helper.make_graph(
            nodes, branch, [], [_info(branch, type_)], initializer=constants
        )
        nothing = None if type_.startswith("optional") else []
        values.append(value if _constructible(type_) else nothing)
    return [
        Case([np.array(True)], branches, expected=values[:1], name="then"),
        Case([np.array([False])], branches, expected=values[1:], name="else"),
    ]


@cases("Loop")
def loop(request: Request) -> list[Case]:
    type_ = request.type("V")
    value = _value(request, type_)
    tensor = type_.startswith("tensor")
    infos = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
        _info("v", type_),
    ]
    nodes = [
        helper.make_node("Identity", ["goes_on"], ["goes_on_out"]),
        helper.make_node("Identity", ["v"], ["v_out"]),
    ]
    outputs = [
        helper.make_tensor_value_info("goes_on_out", TensorProto.BOOL, []),
        _info("v_out", type_),
    ]
    if tensor:
        nodes.append(helper.make_node("Identity", ["v"], ["each"]))
        outputs.append(_info("each", type_))
    body = {"body": helper.make_graph(nodes, "body", infos, outputs)}
    asked = 2 if tensor else 1
    trips, yes = np.array(3, np.int64), np.array(True)
    expected = [value, np.stack([value] * 3)] if tensor else [value]
    found = [
        Case([trips, yes, value], body, outputs=asked, expected=expected, name="both"),
        Case([trips, None, value], body, outputs=asked, expected=expected, name="trips"),
        Case([trips, ~yes, value], body, expected=[value], name="never"),
    ]
    if type_.startswith("optional"):
        found.append(Case([trips, yes, None], body, expected=[None], name="nothing"))
    return found


@cases("Scan")
def scan(request: Request) -> list[Case]:
    dtype = helper.np_dtype_to_tensor_dtype(request.dtype("V"))
    names = ("state", "x", "x_out", "state_out")
    infos = [helper.make_tensor_value_info(name, dtype, [2]) for name in names]
    nodes = [
        helper.make_node("Identity", ["x"], ["x_out"]),
        helper.make_node("Identity", ["state"], ["state_out"]),
    ]
    attributes = {"body": helper.make_graph(nodes, "body", infos[:2], infos[2:])}
    attributes["num_scan_inputs"] = 1
    x, state = request.random("V", (3, 4, 2)), request.random("V", (3, 2))
    if request.version == 8:
        return _batched(attributes, state, x)

    def expected(state, x):
        return [x[-1], np.concatenate([state[None], x[:-1]])]

    def backward(state, x):
        forward = expected(state, x[::-1])
        return [forward[0], forward[1][::-1]]

    across = {"scan_input_axes": [1], "scan_output_axes": [-1]}
    reverse = {"scan_input_directions": [1], "scan_output_directions": [1]}
    return [
        Case([state[0], x[0]], attributes, outputs=2, expected=expected, name="forward"),
        Case([state[0], x[0]], attributes | reverse, outputs=2, expected=backward, name="reverse"),
        Case(
            [state[0], np.swapaxes(x[0], 0, 1).copy()],
            attributes | across,
            outputs=2,
            expected=lambda s, y: [y[:, -1], expected(s, y.T)[1].T],
            name="other axes",
        ),
    ]


def _batched(attributes: dict[str, Any], state: np.ndarray, x: np.ndarray) -> list[Case]:
    """Scan-8: a batch axis in all, and sequences that may end early."""
    lengths = np.array([4, 1, 3], np.int64)

    def expected(lengths, state, x, reverse=False):
        lengths = [4, 4, 4] if lengths is None else lengths
        final = np.empty_like(state)
        outputs = np.zeros_like(x) if x.dtype != object else np.full_like(x, "")
        for row, length in enumerate(lengths):
            items = x[row, :length][::-1] if reverse else x[row, :length]
            final[row] = items[-1]
            outputs[row, :length] = np.concatenate([state[row][None], items[:-1]])
        return [final, outputs]

    def backward(*inputs):
        return expected(*inputs, reverse=True)

    reverse = attributes | {"directions": [1]}
    return [
        Case([None, state, x], attributes, outputs=2, expected=expected, name="whole"),
        Case([lengths, state, x], attributes, outputs=2, expected=expected, name="lengths"),
        Case([lengths, state, x], reverse, outputs=2, expected=backward, name="reverse"),
    ]
