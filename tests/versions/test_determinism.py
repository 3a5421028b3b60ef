"""Results depend neither on the number of threads, bit by bit, nor on the SIMD target, but for
rounding. The sizes are large enough for work to be cut into parts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import sardonyx

OPSET = 23
IMAGE = (2, 24, 61, 67)
ROWS = (3, 129, 257)
# As large as trained ones: of larger weights states are chaotic, and what is rounded
# differently grows to 1e-3 within 17 steps.
RECURRENCE = np.random.default_rng(5).standard_normal((1, 195, 65)).astype(np.float32) / 8

# Operator, shapes of its float32 inputs (arrays stand for themselves), attributes.
NODES: dict[str, tuple] = {
    "matmul": ("MatMul", [(190, 321), (321, 157)], {}),
    "matmul of batches": ("MatMul", [(6, 70, 65), (6, 65, 131)], {}),
    "matmul of a row": ("MatMul", [(1, 700), (700, 900)], {}),
    "gemm": ("Gemm", [(190, 321), (157, 321), (157,)], {"transB": 1}),
    "conv 3x3": ("Conv", [IMAGE, (40, 24, 3, 3), (40,)], {"pads": [1, 1, 1, 1]}),
    "conv 1x1": ("Conv", [IMAGE, (40, 24, 1, 1)], {}),
    "conv 5x5, strided": ("Conv", [IMAGE, (40, 24, 5, 5)], {"strides": [2, 2]}),
    "conv in groups": ("Conv", [IMAGE, (36, 8, 3, 3)], {"group": 3, "dilations": [2, 2]}),
    "conv, depthwise": ("Conv", [IMAGE, (24, 1, 3, 3)], {"group": 24, "pads": [1, 1, 1, 1]}),
    "conv 1-D": ("Conv", [(4, 16, 2001), (24, 16, 7)], {}),
    "conv 3-D": ("Conv", [(1, 8, 20, 21, 22), (12, 8, 3, 3, 3)], {}),
    "conv transposed": ("ConvTranspose", [IMAGE, (24, 16, 4, 4)], {"strides": [2, 2]}),
    "max pool": ("MaxPool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    "average pool": ("AveragePool", [IMAGE], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "global pool": ("GlobalAveragePool", [IMAGE], {}),
    "softmax": ("Softmax", [ROWS], {}),
    "softmax of columns": ("Softmax", [ROWS], {"axis": 1}),
    "log softmax": ("LogSoftmax", [ROWS], {}),
    "layer normalization": ("LayerNormalization", [ROWS, (257,), (257,)], {}),
    "rms normalization": ("RMSNormalization", [ROWS, (257,)], {}),
    "instance normalization": ("InstanceNormalization", [IMAGE, (24,), (24,)], {}),
    "group normalization": ("GroupNormalization", [IMAGE, (24,), (24,)], {"num_groups": 6}),
    "sum of rows": ("ReduceSum", [ROWS, np.array([2])], {}),
    "sum of columns": ("ReduceSum", [ROWS, np.array([0, 1])], {}),
    "sum of all": ("ReduceSum", [(70, 81, 93)], {}),
    "mean": ("ReduceMean", [IMAGE, np.array([2, 3])], {}),
    "log-sum-exp": ("ReduceLogSumExp", [ROWS, np.array([1])], {}),
    "argmax": ("ArgMax", [ROWS], {"axis": 1}),
    "cumulative sum": ("CumSum", [ROWS, np.array(1)], {}),
    "top k": ("TopK", [(300, 401), np.array([7])], {}),
    "erf": ("Erf", [(70, 81, 33)], {}),
    "gelu": ("Gelu", [(70, 81, 33)], {}),
    "broadcast": ("Mul", [IMAGE, (24, 1, 1)], {}),
    "where": ("Where", [np.arange(67) % 3 == 0, IMAGE, (61, 1)], {}),
    "transpose": ("Transpose", [IMAGE], {"perm": [0, 2, 3, 1]}),
    "concat": ("Concat", [IMAGE, IMAGE], {"axis": 1}),
    "pad": ("Pad", [IMAGE, np.array([0, 0, 2, 2, 0, 0, 3, 3])], {"mode": "reflect"}),
    "gather": ("Gather", [(500, 300), np.arange(700) * 7 % 500], {}),
    "resize, linear": (
        "Resize",
        [IMAGE, None, np.array([1, 1, 1.7, 2.3], np.float32)],
        {"mode": "linear"},
    ),
    "resize, cubic": (
        "Resize",
        [IMAGE, None, np.array([1, 1, 1.7, 0.6], np.float32)],
        {"mode": "cubic"},
    ),
    "lstm": (
        "LSTM",
        [(17, 5, 33), (2, 260, 33), (2, 260, 65)],
        {"hidden_size": 65, "direction": "bidirectional"},
    ),
    "gru": ("GRU", [(17, 5, 33), (1, 195, 33), RECURRENCE], {"hidden_size": 65}),
    "rnn": ("RNN", [(17, 5, 33), (1, 65, 33), RECURRENCE[:, :65]], {"hidden_size": 65}),
    "attention": ("Attention", [(2, 6, 70, 33), (2, 6, 90, 33), (2, 6, 90, 35)], {}),
    "einsum": ("Einsum", [(20, 31, 42), (20, 42, 53)], {"equation": "bij,bjk->bik"}),
    "scatter, adding": (
        "ScatterND",
        [(40, 300), np.arange(200).reshape(-1, 1) * 7 % 40, (200, 300)],
        {"reduction": "add"},
    ),
    "lrn": ("LRN", [IMAGE], {"size": 5}),
}


def _model(name: str) -> tuple[bytes, dict[str, np.ndarray]]:
    operator, inputs, attributes = NODES[name]
    rng = np.random.default_rng(len(name))
    names, values = [], {}
    for i, given in enumerate(inputs):
        names.append("" if given is None else f"x{i}")
        if isinstance(given, tuple):
            values[names[-1]] = rng.standard_normal(given).astype(np.float32)
        elif given is not None:
            values[names[-1]] = given
    outputs = ["y0", "y1"] if operator == "TopK" else ["y0"]
    node = helper.make_node(operator, names, outputs, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in values.items()
    ]
    results = [onnx.ValueInfoProto(name=output) for output in outputs]
    graph = helper.make_graph([node], name, infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return model.SerializeToString(), values


def run(name: str, threads: int) -> list[np.ndarray]:
    model, values = _model(name)
    return list(sardonyx.load(model, threads=threads).run(values).values())


@pytest.mark.parametrize("name", NODES)
def test_threads_do_not_change_a_bit(name):
    one = run(name, 1)
    for threads in (2, 3):
        for a, b in zip(one, run(name, threads), strict=True):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()


def _targets() -> list[str]:
    flags = set()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            flags |= set(line.split(":", 1)[1].split())
    has_avx2 = {"avx2", "fma", "bmi2"} <= flags
    has_avx512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"} <= flags
    has_vnni = has_avx2 and "avx_vnni" in flags
    return ["baseline"] + ["avx2"] * has_avx2 + ["avx2_vnni"] * has_vnni + ["avx512"] * has_avx512


def _save(path: str) -> None:
    found = {}
    for name in NODES:
        for i, array in enumerate(run(name, 2)):
            found[f"{name} {i}"] = array
    np.savez(path, **found)


def test_targets_agree(tmp_path):
    results = {}
    for target in _targets():
        path = tmp_path / f"{target}.npz"
        subprocess.run(
            [
                sys.executable,
                "-c",
                f"from tests.versions.test_determinism import _save; _save({str(path)!r})",
            ],
            env={**os.environ, "SARDONYX_TARGET": target},
            cwd=Path(__file__).parents[2],
            check=True,
        )
        results[target] = np.load(path)
    right = results["baseline"]
    for target, found in results.items():
        assert sorted(found) == sorted(right)
        for name in right:
            np.testing.assert_allclose(
                found[name], right[name], rtol=1e-4, atol=1e-4, err_msg=f"{target}: {name}"
            )
