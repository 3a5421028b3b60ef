"""Sparse initializers, constants and values: what they hold arrives as dense arrays."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx

DENSE = np.array([[0, 0, 3], [0, -2, 0], [0, 0, 0], [1, 0, 0]])
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "object"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn),
    *(ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2),
]


def dense_of(dtype):
    if dtype == "object":
        return np.where(DENSE != 0, DENSE.astype(str), "").astype(object)
    values = abs(DENSE) if "u" in np.dtype(dtype).name else DENSE
    return np.clip(values, -2, 1).astype(dtype) if "int2" in str(dtype) else values.astype(dtype)


def sparse_of(dense, pairs, name="w"):
    where = DENSE.ravel() != 0
    indices = np.argwhere(DENSE != 0) if pairs else np.flatnonzero(where)
    values = numpy_helper.from_array(dense.ravel()[where], name)
    return helper.make_sparse_tensor(
        values, numpy_helper.from_array(indices.astype(np.int64)), list(DENSE.shape)
    )


def model_of(nodes, inputs, outputs, **more):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def info(name, dense, make=helper.make_tensor_value_info):
    is_text = dense.dtype == object
    dtype = TensorProto.STRING if is_text else helper.np_dtype_to_tensor_dtype(dense.dtype)
    return make(name, dtype, dense.shape)


@pytest.mark.parametrize("pairs", [False, True], ids=["positions", "pairs"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_initializers_and_constants(dtype, pairs):
    dense = dense_of(dtype)
    sparse = sparse_of(dense, pairs)
    identity = helper.make_node("Identity", ["w"], ["y"])
    model = model_of([identity], [], [info("y", dense)])
    model.graph.sparse_initializer.append(sparse)
    constant = helper.make_node("Constant", [], ["y"], sparse_value=sparse)
    for found in (model, model_of([constant], [], [info("y", dense)])):
        y = sardonyx.load(found).run({})["y"]
        assert y.dtype == dense.dtype
        assert (y == dense).all()


class Matrix:
    """What the sparse matrices and arrays of SciPy have in common."""

    def __init__(self, dense):
        self._dense = dense

    def toarray(self):
        return self._dense


def test_inputs_and_outputs():
    x = DENSE.astype(np.float32)
    sparse_info = helper.make_sparse_tensor_value_info
    model = model_of(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        [info("x", x, sparse_info)],
        [info("y", x, sparse_info)],
    )
    session = sardonyx.load(model)
    [declared] = session.inputs
    assert declared.type == "sparse_tensor(float)"
    assert tuple(declared.shape) == x.shape
    for given in (x, Matrix(x), x.tolist()):
        np.testing.assert_array_equal(session.run({"x": given})["y"], 2 * x)
    with pytest.raises(sardonyx.Error, match="float"):
        session.run({"x": Matrix(x.astype(np.float64))})
    with pytest.raises(sardonyx.Error, match="x"):
        session.run({"x": Matrix(x[0])})


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([2, 1], "ascending"),
        ([1, 1], "ascending"),
        ([1, 12], "12"),
        ([-1, 2], "-1"),
        ([1, 2, 3], "indices"),
    ],
)
def test_broken_indices(indices, message):
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    sparse = helper.make_sparse_tensor(
        values, numpy_helper.from_array(np.array(indices, np.int64)), [4, 3]
    )
    identity = helper.make_node("Identity", ["w"], ["y"])
    model = model_of([identity], [], [info("y", np.zeros((4, 3), np.float32))])
    model.graph.sparse_initializer.append(sparse)
    with pytest.raises(sardonyx.InvalidModelError, match=message):
        sardonyx.load(model).run({})
