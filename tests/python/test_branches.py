"""Branches of If that cannot work for what they are given: exporters write both ways of a shape's
rank or size, of which only one fits. The other must not keep the model from running, and says what
is wrong with it should it be taken."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def branch(name, nodes, output, constants=()):
    return helper.make_graph(
        nodes,
        name,
        [],
        [helper.make_tensor_value_info(output, FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants],
    )


def model(broken, condition="c", shape=(3, 4), opset=17):
    """y = If(c) {broken} else {x + 1}; `condition`: an input, or what a constant says."""
    sound = branch(
        "sound", [helper.make_node("Add", ["x", "one"], ["s"])], "s", [("one", np.float32(1))]
    )
    nodes, inputs = [], [helper.make_tensor_value_info("x", FLOAT, shape)]
    if condition == "c":
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    elif condition == "size":  # of x, more than there are
        nodes = [
            helper.make_node("Size", ["x"], ["n"]),
            helper.make_node("Constant", [], ["many"], value_int=1000),
            helper.make_node("Less", ["many", "n"], ["c"]),
        ]
    else:
        value = numpy_helper.from_array(np.array(False))
        nodes = [helper.make_node("Constant", [], ["c"], value=value)]
    nodes.append(helper.make_node("If", ["c"], ["y"], then_branch=broken, else_branch=sound))
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made.SerializeToString()


def node(op, inputs, output="b", **attributes):
    return helper.make_node(op, inputs, [output], "broken", **attributes)


BROKEN = {
    "another number of elements": (
        [node("Reshape", ["x", "to"])],
        [("to", np.array([5, 5, 5]))],
        "cannot reshape",
    ),
    "a dimension to copy that there is not": (
        [node("Reshape", ["x", "to"])],
        [("to", np.array([3, 4, 0]))],
        "cannot reshape",
    ),
    "a negative size": (
        [node("Expand", ["x", "to"])],
        [("to", np.array([-3]))],
        "cannot expand",
    ),
    "sizes that do not broadcast": (
        [node("Mul", ["x", "w"])],
        [("w", np.ones((5,), np.float32))],
        "cannot broadcast",
    ),
    "an axis that there is not": ([node("Softmax", ["x"], axis=5)], [], "axis 5"),
    "inner dimensions": (
        [node("MatMul", ["x", "w"])],
        [("w", np.ones((7, 2), np.float32))],
        "cannot multiply",
    ),
    "constants alone": (
        [node("Reshape", ["w", "to"])],
        [("w", np.ones(6, np.float32)), ("to", np.array([4, 4]))],
        "cannot reshape",
    ),
    "an index of constants": (
        [node("Gather", ["w", "i"])],
        [("w", np.ones(6, np.float32)), ("i", np.array([9]))],
        "9",
    ),
    "more nodes behind": (
        [
            node("Reshape", ["x", "to"], "a"),
            helper.make_node("Relu", ["a"], ["d"]),
            helper.make_node("ReduceSum", ["d", "axis"], ["e"]),
            helper.make_node("Shape", ["e"], ["f"]),
            helper.make_node("Reshape", ["e", "f"], ["b"]),
        ],
        [("to", np.array([5, 5, 5])), ("axis", np.array([1]))],
        "cannot reshape",
    ),
}


@pytest.mark.parametrize("condition", ["c", "size", "constant"])
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_branch_that_is_not_taken(fault, condition):
    nodes, constants, _ = BROKEN[fault]
    session = sardonyx.load(model(branch("broken", nodes, "b", constants), condition), threads=1)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    feeds = {"x": x} | ({"c": np.array(False)} if condition == "c" else {})
    for _ in range(2):
        np.testing.assert_array_equal(session.run(feeds)["y"], x + 1)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_branch_that_is_taken(fault):
    nodes, constants, message = BROKEN[fault]
    session = sardonyx.load(model(branch("broken", nodes, "b", constants)), threads=1)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for _ in range(2):
        with pytest.raises(sardonyx.Error, match=message) as error:
            session.run({"x": x, "c": np.array(True)})
        assert "broken" in str(error.value)
        np.testing.assert_array_equal(session.run({"x": x, "c": np.array(False)})["y"], x + 1)


def test_a_branch_within_a_broken_branch():
    inner = helper.make_node(
        "If",
        ["c"],
        ["b"],
        then_branch=branch(
            "inner", [node("Reshape", ["x", "to"], "i")], "i", [("to", np.array([5, 5, 5]))]
        ),
        else_branch=branch(
            "other", [node("Expand", ["x", "to"], "j")], "j", [("to", np.array([2, 2]))]
        ),
    )
    session = sardonyx.load(model(branch("broken", [inner], "b")), threads=1)
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(session.run({"x": x, "c": np.array(False)})["y"], x + 1)
    with pytest.raises(sardonyx.Error, match="cannot reshape"):
        session.run({"x": x, "c": np.array(True)})


def test_both_branches_are_broken():
    nodes, constants, _ = BROKEN["another number of elements"]
    broken = branch("broken", nodes, "b", constants)
    both = onnx.load_from_string(model(broken))
    for attribute in both.graph.node[-1].attribute:
        attribute.g.CopyFrom(broken)
    session = sardonyx.load(both.SerializeToString(), threads=1)
    for condition in (True, False):
        with pytest.raises(sardonyx.Error, match="cannot reshape"):
            session.run({"x": np.ones((3, 4), np.float32), "c": np.array(condition)})


def test_an_engine_file_keeps_a_broken_branch(tmp_path):
    nodes, constants, message = BROKEN["another number of elements"]
    source = tmp_path / "m.onnx"
    source.write_bytes(model(branch("broken", nodes, "b", constants)))
    sardonyx.compile(source, tmp_path / "m.sdx")
    session = sardonyx.load(tmp_path / "m.sdx", threads=1)
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(session.run({"x": x, "c": np.array(False)})["y"], x + 1)
    with pytest.raises(sardonyx.Error, match=message):
        session.run({"x": x, "c": np.array(True)})


def test_what_no_branch_may_have_is_refused_at_once():
    nodes = [node("Relu", ["nowhere"])]
    with pytest.raises(sardonyx.Error, match="nowhere"):
        sardonyx.load(model(branch("broken", nodes, "b")))
    with pytest.raises(sardonyx.Error, match="cannot reshape"):
        graph = helper.make_graph(
            [node("Reshape", ["x", "to"])],
            "g",
            [helper.make_tensor_value_info("x", FLOAT, [3, 4])],
            [helper.make_tensor_value_info("b", FLOAT, None)],
            [numpy_helper.from_array(np.array([5, 5, 5]), "to")],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        made.ir_version = 8
        sardonyx.load(made.SerializeToString())
