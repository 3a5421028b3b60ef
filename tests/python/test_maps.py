"""Maps in and out: dicts in Python."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sardonyx
import sardonyx.onnxruntime
from sardonyx import _sardonyx


def map_type(key: int, value: int) -> onnx.TypeProto:
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, None))


def model(node: onnx.NodeProto, given: onnx.ValueInfoProto, result: onnx.ValueInfoProto) -> bytes:
    graph = helper.make_graph([node], "graph", [given], [result])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def vectorizer(value: int = TensorProto.FLOAT) -> bytes:
    node = helper.make_node(
        "DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b", "c"]
    )
    given = helper.make_value_info("x", map_type(TensorProto.STRING, value))
    return model(node, given, helper.make_tensor_value_info("y", value, [1, 3]))


def zip_map(**labels) -> bytes:
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", **labels)
    key = TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64
    result = helper.make_sequence_type_proto(map_type(key, TensorProto.FLOAT))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "K"])
    return model(node, given, helper.make_value_info("z", result))


@pytest.mark.parametrize(
    ("given", "row"),
    [
        ({"a": 1.5, "c": np.float32(2)}, [1.5, 0, 2]),
        ({"b": np.array([3], np.float32), "a": np.float64(1)}, [1, 3, 0]),
        ({"unknown": 1.0}, [0, 0, 0]),
        ({}, [0, 0, 0]),
    ],
)
def test_a_dict_is_a_map(given, row):
    session = sardonyx.load(vectorizer())
    assert session.inputs[0].type == "map(string,tensor(float))"
    y = session.run({"x": given})["y"]
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, [row])


def test_values_of_a_map_may_be_of_other_types():
    y = sardonyx.load(vectorizer(TensorProto.INT64)).run([{"b": 7}])["y"]
    assert (y.dtype, y.tolist()) == (np.int64, [[0, 7, 0]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({1: 2.0}, "keys of the map are int64, but the vocabulary is string"),
        ({"a": "text"}, "must be tensor(float)"),
        ({"a": 1.0, 2: 3.0}, "keys of a map are of one type"),
        ({"a": np.ones(2, np.float32)}, "value 0 of the map is not one number or string"),
        ([1.0], "must be a dict"),
        (None, "must be a map"),
    ],
)
def test_what_is_no_such_map(given, message):
    with pytest.raises(sardonyx.InvalidArgumentError) as caught:
        sardonyx.load(vectorizer()).run({"x": given})
    assert message in str(caught.value)


def test_a_sequence_of_maps_comes_out_as_a_list_of_dicts():
    session = sardonyx.load(zip_map(classlabels_strings=["yes", "no"]))
    assert session.outputs[0].type == "seq(map(string,tensor(float)))"
    x = np.array([[1, 2], [3, 4]], np.float32)
    assert session.run([x])["z"] == [{"no": 2, "yes": 1}, {"no": 4, "yes": 3}]
    assert session.run([x[:0]])["z"] == []
    assert "zip_map" in session.graph_text()
    with pytest.raises(sardonyx.Error, match="3 columns have 2 keys"):
        session.run([np.zeros((1, 3), np.float32)])


def test_onnxruntime_gives_numbers_of_python():
    session = sardonyx.onnxruntime.InferenceSession(zip_map(classlabels_int64s=[5, 2]))
    assert session.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    [maps] = session.run(None, {"x": np.array([[0.5, 2]], np.float32)})
    assert json.dumps(maps) == '[{"2": 2.0, "5": 0.5}]'


@pytest.mark.parametrize("operator", ["Relu", "CastMap"])
def test_maps_that_an_operator_does_not_take_are_refused(operator):
    domain = "ai.onnx.ml" if operator == "CastMap" else ""
    node = helper.make_node(operator, ["x"], ["y"], domain=domain)
    given = helper.make_value_info("x", map_type(TensorProto.STRING, TensorProto.FLOAT))
    with pytest.raises(sardonyx.InvalidModelError, match="does not allow"):
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        sardonyx.load(model(node, given, result))


def test_map_proto():
    proto = onnx.MapProto(key_type=TensorProto.INT64, keys=[3, 1])
    proto.values.elem_type = onnx.SequenceProto.TENSOR
    for value in (0.5, 2):
        tensor = onnx.numpy_helper.from_array(np.array(value, np.float32))
        proto.values.tensor_values.append(tensor)
    assert _sardonyx.read_protobuf(proto.SerializeToString(), "map") == {3: 0.5, 1: 2}
    proto.keys.append(9)
    with pytest.raises(sardonyx.InvalidArgumentError, match="3 keys and 2 values"):
        _sardonyx.read_protobuf(proto.SerializeToString(), "map")
