"""What converters write beyond the letter of the standard, and everyone runs."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper

import sardonyx

onnxruntime.set_default_logger_severity(4)


def model(nodes, inputs, outputs, constants=(), opset=13) -> ModelProto:
    infos = [
        [helper.make_tensor_value_info(*info) for info in infos] for infos in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "graph", *infos, list(constants))
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def compare(built: ModelProto, feeds: dict[str, np.ndarray]) -> None:
    given = built.SerializeToString()
    wanted = onnxruntime.InferenceSession(given).run(None, feeds)
    found = sardonyx.load(given).run(feeds).values()
    for actual, right in zip(found, wanted, strict=True):
        assert (actual.dtype, actual.shape) == (right.dtype, right.shape)
        np.testing.assert_array_equal(actual, right)


@pytest.mark.parametrize("declared", [[1], ["one"]], ids=["of size 1", "of a named size"])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_iterations_declared_as_vectors(declared, trips):
    """tf2onnx, of tf.image.crop_and_resize: a body that slices by the number of its iteration."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["i", "one"], ["next"]),
            helper.make_node("Slice", ["x", "i", "next"], ["row"]),
            helper.make_node("Identity", ["before"], ["after"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, declared),
            helper.make_tensor_value_info("before", TensorProto.BOOL, []),
        ],
        [
            helper.make_tensor_value_info("after", TensorProto.BOOL, []),
            helper.make_tensor_value_info("row", TensorProto.FLOAT, None),
        ],
        [helper.make_tensor("one", TensorProto.INT64, [1], [1])],
    )
    built = model(
        [helper.make_node("Loop", ["trips", "on"], ["rows"], body=body)],
        [("x", TensorProto.FLOAT, [5, 3]), ("trips", TensorProto.INT64, [])],
        [("rows", TensorProto.FLOAT, None)],
        [helper.make_tensor("on", TensorProto.BOOL, [], [True])],
    )
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    if trips > 0:
        compare(built, {"x": x, "trips": np.array(trips)})
    else:  # of no rows ONNX Runtime gives no rank
        rows = sardonyx.load(built).run({"x": x, "trips": np.array(0)})["rows"]
        assert rows.size == 0


def test_a_condition_declared_as_a_vector():
    """ONNX Runtime refuses it. The body keeps on by the vector that it reads."""
    body = helper.make_graph(
        [
            helper.make_node("Not", ["before"], ["turned"]),
            helper.make_node("Concat", ["before", "turned"], ["both"], axis=0),
            helper.make_node("Identity", ["before"], ["after"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("before", TensorProto.BOOL, [1]),
        ],
        [
            helper.make_tensor_value_info("after", TensorProto.BOOL, [1]),
            helper.make_tensor_value_info("both", TensorProto.BOOL, [2]),
        ],
    )
    built = model(
        [helper.make_node("Loop", ["trips", ""], ["all"], body=body)],
        [("trips", TensorProto.INT64, [])],
        [("all", TensorProto.BOOL, None)],
    )
    found = sardonyx.load(built).run({"trips": np.array(3)})["all"]
    np.testing.assert_array_equal(found, [[True, False]] * 3)


def test_contributed_operators_without_their_domain():
    """tf2onnx writes com.microsoft.Range, and imports the standard's domain alone."""
    limits = [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in (("a", 0), ("c", 1))]
    built = model(
        [helper.make_node("Range", ["a", "b", "c"], ["y"], domain="com.microsoft")],
        [("b", TensorProto.INT64, [])],
        [("y", TensorProto.INT64, ["n"])],
        limits,
    )
    compare(built, {"b": np.array(4)})


@pytest.mark.parametrize(("operator", "opset"), [("Upsample", 9), ("Resize", 10), ("Resize", 19)])
@pytest.mark.parametrize("named", [False, True], ids=["sizes", "names of sizes"])
def test_scales_of_one_size_by_another(operator, opset, named):
    """Converters divide the size that they want by the one there is, and round to float32: 3 by
    the float32 nearest to 5/3 is 5 again in float32, but less than that exactly. They declare what
    they wanted, and ONNX Runtime gives it."""
    for size in (3, 6, 7, 25, 39):
        for target in range(size if operator == "Upsample" else 1, 41):
            scales = helper.make_tensor("s", TensorProto.FLOAT, [4], [1, 1, 1, target / size])
            inputs = ["x", "s"] if opset < 11 else ["x", "", "s"]
            built = model(
                [helper.make_node(operator, inputs, ["y"], mode="nearest")],
                [("x", TensorProto.FLOAT, ["n", 1, 1, "w"] if named else [1, 1, 1, size])],
                [("y", TensorProto.FLOAT, None)],
                [scales],
                opset,
            )
            x = np.zeros((1, 1, 1, size), np.float32)
            found = sardonyx.load(built.SerializeToString()).run({"x": x})["y"]
            right = onnxruntime.InferenceSession(built.SerializeToString()).run(None, {"x": x})[0]
            assert found.shape == right.shape, (size, target)
