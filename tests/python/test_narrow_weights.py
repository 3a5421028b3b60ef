"""Products with weights of few bits: none is unpacked, none runs on the reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx

# Small constants are computed as the model is read, so the matrix is not small.
K, N, BLOCK = 256, 512, 32


def _session(nodes, initializers, rows):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, K])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, N])
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return sardonyx.load(model.SerializeToString(), threads=2)


def _check(session, weights, rows, bias=0, rounds=False):
    x = np.random.default_rng(1).standard_normal((rows, K)).astype(np.float32)
    expected = x.astype(np.float64) @ weights + bias
    size = np.abs(x.astype(np.float64)) @ np.abs(weights)
    bound = 2e-6 * size + 1e-6
    apart = np.abs(session.run({"x": x})["y"] - expected)
    if rounds:  # to a 127th of the largest of each block
        assert (apart > bound).any()
        tops = np.abs(x).reshape(rows, -1, BLOCK).max(-1).repeat(BLOCK, 1)
        bound += tops / 253 @ np.abs(weights)
    assert (apart <= bound).all()
    assert "blocks of codes" in session.explain()


@pytest.mark.parametrize("rows", [1, 3, 33])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
def test_dequantized_blocks(kind, transposed, rows):
    rng = np.random.default_rng(2)
    low, high = {
        TensorProto.INT4: (-8, 8),
        TensorProto.UINT4: (0, 16),
        TensorProto.INT8: (-128, 128),
    }[kind]
    codes = rng.integers(low, high, (K, N))
    zeros = rng.integers(low, high, (K // BLOCK, N))
    scales = rng.uniform(0.01, 0.1, (K // BLOCK, N)).astype(np.float32)
    weights = (codes - zeros.repeat(BLOCK, 0)) * scales.repeat(BLOCK, 0).astype(np.float64)
    if transposed:
        codes, zeros, scales = codes.T, zeros.T, np.ascontiguousarray(scales.T)
    initializers = [
        helper.make_tensor("w", kind, codes.shape, codes.flatten().tolist()),
        numpy_helper.from_array(scales, "s"),
        helper.make_tensor("z", kind, zeros.shape, zeros.flatten().tolist()),
    ]
    axis = 1 if transposed else 0
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=axis, block_size=BLOCK)
    ]
    if transposed:
        nodes.append(helper.make_node("Gemm", ["x", "d"], ["y"], transB=1))
    else:
        nodes.append(helper.make_node("MatMul", ["x", "d"], ["y"]))
    _check(_session(nodes, initializers, rows), weights, rows)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(TensorProto.UINT4, 0, 16), (TensorProto.INT8, -128, 128)]
)
def test_one_block_of_a_column(kind, low, high):
    size, columns = 1024, 2048
    rng = np.random.default_rng(5)
    codes = rng.integers(low, high, (size, columns))
    scales = rng.uniform(0.01, 0.1, (1, columns)).astype(np.float32)
    x = rng.standard_normal((3, size)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=size),
            helper.make_node("MatMul", ["x", "d"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, columns))],
        [
            helper.make_tensor("w", kind, codes.shape, codes.flatten().tolist()),
            numpy_helper.from_array(scales, "s"),
        ],
    )
    opsets = [helper.make_opsetid("", 21)]
    session = sardonyx.load(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    weights = codes * scales.astype(np.float64)
    bound = 2e-6 * (np.abs(x) @ np.abs(weights)) + 1e-6
    assert (np.abs(session.run({"x": x})["y"] - x @ weights) <= bound).all()
    assert "blocks of codes" in session.explain()


@pytest.mark.parametrize("rows", [1, 4, 33])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("level", [0, 3, 4])
@pytest.mark.parametrize("zeros", ["none", "one", "codes", "one float", "floats"])
def test_matmul_nbits(zeros, level, bits, rows):
    rng = np.random.default_rng(3)
    blocks = K // BLOCK
    codes = rng.integers(0, 1 << bits, (N, K))
    scales = rng.uniform(0.01, 0.1, (N, blocks)).astype(np.float32)
    bias = rng.standard_normal(N).astype(np.float32)
    per_byte = 8 // bits
    shifts = np.arange(per_byte) * bits

    def packed(values):  # rows of whole bytes
        padded = np.pad(values, ((0, 0), (0, -values.shape[1] % per_byte)))
        return (padded.reshape(N, -1, per_byte) << shifts).sum(-1).astype(np.uint8)

    points = np.full((N, blocks), 1 << (bits - 1))
    if zeros.startswith("one"):
        points[:] = (1 << bits) - 1
    elif zeros != "none":
        points = rng.integers(0, 1 << bits, (N, blocks))
    if zeros == "floats":
        points = points + 0.5
    initializers = [
        numpy_helper.from_array(packed(codes).reshape(N, blocks, -1), "w"),
        numpy_helper.from_array(scales, "s"),
        numpy_helper.from_array(bias, "b"),
    ]
    if zeros != "none":
        given = points.astype(np.float32) if "float" in zeros else packed(points)
        initializers.append(numpy_helper.from_array(given, "z"))
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "s", "" if zeros == "none" else "z", "", "b"],
        ["y"],
        domain="com.microsoft",
        K=K,
        N=N,
        bits=bits,
        block_size=BLOCK,
        accuracy_level=level,
    )
    session = _session([node], initializers, rows)
    weights = (codes - points.repeat(BLOCK, 1)) * scales.repeat(BLOCK, 1).astype(np.float64)
    _check(session, weights.T, rows, bias, rounds=level == 4)


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.uint32, np.int64, np.uint64])
def test_typed_products(kind):
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 50, (2, 33, 20)).astype(kind), rng.integers(0, 50, (20, 45)).astype(kind)
    type_of = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info(n, type_of, v.shape) for n, v in (("a", a), ("b", b))],
        [helper.make_tensor_value_info("y", type_of, (2, 33, 45))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = sardonyx.load(model.SerializeToString(), threads=2)
    np.testing.assert_array_equal(session.run({"a": a, "b": b})["y"], a @ b)
    assert "gemm, typed" in session.explain()
