"""Model-local functions: attributes, defaults, overloads, functions in functions, opsets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sardonyx

DOMAIN = "example"
OWN = helper.make_opsetid(DOMAIN, 1)


def _refer(node: onnx.NodeProto, name: str, argument: str, type_: int) -> onnx.NodeProto:
    node.attribute.add(name=name, ref_attr_name=argument, type=type_)
    return node


def _model(nodes, functions, inputs=("x",), opset=20) -> bytes:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in inputs]
    graph = helper.make_graph(
        nodes, "graph", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    model = helper.make_model(
        graph,
        functions=functions,
        opset_imports=[helper.make_opsetid("", opset), OWN],
        ir_version=10,
    )
    return model.SerializeToString()


def _function(name, nodes, opset=20, overload="", **options) -> onnx.FunctionProto:
    function = helper.make_function(
        DOMAIN,
        name,
        options.pop("inputs", ["a"]),
        ["b"],
        nodes,
        [helper.make_opsetid("", opset), OWN],
        **options,
    )
    function.overload = overload
    return function


def _call(name: str, overload: str = "", inputs=("x",), **attributes) -> onnx.NodeProto:
    node = helper.make_node(name, list(inputs), ["y"], domain=DOMAIN, **attributes)
    node.overload = overload
    return node


X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def _run(model: bytes, **inputs) -> np.ndarray:
    return sardonyx.load(model).run(inputs or {"x": X})["y"]


def _leaky() -> onnx.FunctionProto:
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    default = helper.make_attribute("slope", 0.5)
    return _function(
        "Leaky",
        [_refer(node, "alpha", "slope", onnx.AttributeProto.FLOAT)],
        attribute_protos=[default],
    )


def test_attribute_given_and_by_default():
    given = _run(_model([_call("Leaky", slope=0.25)], [_leaky()]))
    np.testing.assert_array_equal(given, np.where(X < 0, X * 0.25, X))
    default = _run(_model([_call("Leaky")], [_leaky()]))
    np.testing.assert_array_equal(default, np.where(X < 0, X * 0.5, X))


def test_attribute_without_default_leaves_the_operator_its_own():
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    function = _function(
        "Leaky", [_refer(node, "alpha", "slope", onnx.AttributeProto.FLOAT)], attributes=["slope"]
    )
    found = _run(_model([_call("Leaky")], [function]))
    np.testing.assert_allclose(found, np.where(X < 0, X * 0.01, X), rtol=1e-6)


def test_overloads_are_different_functions():
    functions = [
        _function("F", [helper.make_node("Neg", ["a"], ["b"])]),
        _function("F", [helper.make_node("Abs", ["a"], ["b"])], overload="abs"),
    ]
    np.testing.assert_array_equal(_run(_model([_call("F")], functions)), -X)
    np.testing.assert_array_equal(_run(_model([_call("F", "abs")], functions)), np.abs(X))


def test_functions_call_functions_and_pass_attributes_on():
    inner = _leaky()
    call = helper.make_node("Leaky", ["n"], ["b"], domain=DOMAIN)
    outer = _function(
        "Outer",
        [
            helper.make_node("Neg", ["a"], ["n"]),
            _refer(call, "slope", "steepness", onnx.AttributeProto.FLOAT),
        ],
        attributes=["steepness"],
    )
    found = _run(_model([_call("Outer", steepness=0.125)], [outer, inner]))
    np.testing.assert_array_equal(found, np.where(-X < 0, -X * 0.125, -X))


def test_function_has_an_opset_of_its_own():
    # Opset 6 broadcasts by attributes, and its Softmax flattens.
    nodes = [
        helper.make_node("Add", ["a", "c"], ["s"], broadcast=1, axis=0),
        helper.make_node("Softmax", ["s"], ["b"], axis=0),
    ]
    function = _function("Old", nodes, opset=6, inputs=["a", "c"])
    graph = helper.make_graph(
        [_call("Old", inputs=["x", "c"])],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("c", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    imports = [helper.make_opsetid("", 20), OWN]
    model = helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=10)
    c = np.array([1, -1], np.float32)
    found = _run(model.SerializeToString(), x=X, c=c)
    e = np.exp(X + c[:, None])
    np.testing.assert_allclose(found, e / e.sum(), rtol=1e-5)


def test_attribute_inside_of_a_body_and_an_input_left_out():
    def branch(name: str, node: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=name)])

    sharp = _refer(
        helper.make_node("LeakyRelu", ["a"], ["t"]), "alpha", "slope", onnx.AttributeProto.FLOAT
    )
    function = _function(
        "Choose",
        [
            helper.make_node("ReduceSum", ["a"], ["sum"], keepdims=0),
            helper.make_node("Greater", ["sum", "zero"], ["positive"]),
            helper.make_node(
                "If",
                ["positive"],
                ["chosen"],
                then_branch=branch("t", sharp),
                else_branch=branch("e", helper.make_node("Neg", ["a"], ["e"])),
            ),
            helper.make_node("Clip", ["chosen", "", "high"], ["b"]),
        ],
        inputs=["a", "high"],
        attributes=["slope"],
    )
    function.node.insert(0, helper.make_node("Constant", [], ["zero"], value_float=0.0))
    model = _model([_call("Choose", inputs=["x", ""], slope=0.5)], [function])
    np.testing.assert_array_equal(_run(model), np.where(X < 0, X * 0.5, X))
    np.testing.assert_array_equal(_run(model, x=-X), X)


def test_function_that_calls_itself_is_an_error():
    function = _function("F", [helper.make_node("F", ["a"], ["b"], domain=DOMAIN)])
    with pytest.raises(sardonyx.Error, match="F"):
        sardonyx.load(_model([_call("F")], [function]))


def test_names_within_functions_may_be_those_of_other_calls_and_of_the_model():
    """A function that calls another twice, and passes values of the model on to a branch."""
    inner = helper.make_function(
        DOMAIN,
        "Inner",
        ["a"],
        ["b"],
        [helper.make_node("Neg", ["a"], ["b"])],
        [helper.make_opsetid("", 20), OWN],
    )
    branches = [
        helper.make_graph(
            [
                helper.make_node("Inner", [first], ["kept"], domain=DOMAIN),
                helper.make_node(op, ["kept", second], ["mixed"]),
            ],
            op,
            [],
            [helper.make_tensor_value_info("mixed", TensorProto.FLOAT, None)],
        )
        # The branch sees the function's own `flag` and, as `mask`, the model's.
        for op, first, second in (("Add", "mask", "twice"), ("Sub", "flag", "flag"))
    ]
    outer = helper.make_function(
        DOMAIN,
        "Outer",
        ["x", "mask", "which"],
        ["y"],
        [
            helper.make_node("Exp", ["x"], ["flag"]),
            helper.make_node("Inner", ["x"], ["kept"], domain=DOMAIN),
            helper.make_node("Inner", ["kept"], ["twice"], domain=DOMAIN),
            helper.make_node(
                "If", ["which"], ["y"], then_branch=branches[0], else_branch=branches[1]
            ),
        ],
        [helper.make_opsetid("", 20), OWN],
    )
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Abs", ["x"], ["flag"]),
                helper.make_node("Outer", ["x", "flag", "which"], ["z"], domain=DOMAIN),
                helper.make_node("Outer", ["z", "flag", "which"], ["y"], domain=DOMAIN),
            ],
            "names",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
                helper.make_tensor_value_info("which", TensorProto.BOOL, []),
            ],
            [
                helper.make_tensor_value_info("y", TensorProto.FLOAT, [3]),
                helper.make_tensor_value_info("flag", TensorProto.FLOAT, [3]),
            ],
        ),
        functions=[inner, outer],
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 20), OWN],
    )
    session = sardonyx.load(model)
    x = np.array([-1, 0.5, 2], np.float32)
    for which in (True, False):
        outputs = session.run({"x": x, "which": np.array(which)})
        expected = x
        for _ in range(2):
            flag = np.exp(expected)
            expected = -np.abs(x) + expected if which else -flag - flag
        np.testing.assert_allclose(outputs["y"], expected, rtol=1e-6)
        np.testing.assert_array_equal(outputs["flag"], np.abs(x))
