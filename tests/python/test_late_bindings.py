"""Steps whose sizes are found at run keep how they were bound: as long as nothing else is given."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import sardonyx

onnxruntime.set_default_logger_severity(4)


def model() -> bytes:
    """Every node reads what Compress leaves, of a size that no plan knows, and a small value."""
    node = helper.make_node
    nodes = [
        node("Compress", ["x", "which"], ["rows"], axis=0),
        node("Slice", ["rows", "start", "end"], ["slice"]),
        node("Tile", ["rows", "repeats"], ["tile"]),
        node("Pad", ["rows", "pads"], ["pad"]),
        node("ReduceSum", ["rows", "axis"], ["sum"], keepdims=0),
        node("CumSum", ["rows", "axis"], ["cumsum"]),
        node("Clip", ["rows", "low", "high"], ["clip"]),
        node("Gather", ["rows", "places"], ["gather"], axis=1),
        node("TopK", ["rows", "k"], ["top", "at"], axis=1),
        node("Mul", ["rows", "low"], ["mul"]),
        node("MatMul", ["rows", "square"], ["product"]),
        node("Resize", ["rows", "", "scales"], ["resized"], mode="linear"),
        node("Softmax", ["rows"], ["softmax"], axis=1),
    ]
    floats, ints = TensorProto.FLOAT, TensorProto.INT64
    kinds = {"x": (floats, ["n", 4]), "which": (TensorProto.BOOL, ["m"])}
    kinds |= {"start": (ints, [1]), "end": (ints, [1]), "repeats": (ints, [2]), "pads": (ints, [4])}
    kinds |= {"axis": (ints, [1]), "low": (floats, []), "high": (floats, []), "k": (ints, [1])}
    kinds |= {"places": (ints, ["p"]), "square": (floats, [4, 4]), "scales": (floats, [2])}
    inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    outputs = [
        helper.make_tensor_value_info(output, ints if output == "at" else floats, None)
        for made in nodes[1:]
        for output in made.output
    ]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def feeds(rows: int, kept: int, small: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows * 100 + kept * 10 + small)
    return {
        "x": np.float32(random.normal(size=(rows, 4))),
        "which": random.permutation(np.arange(rows) < kept),
        "start": np.array([small % 2]),
        "end": np.array([kept - small % 3]),
        "repeats": np.array([1 + small % 2, 2 - small % 2]),
        "pads": np.array([small, 0, 1, small % 2]),
        "axis": np.array([small % 2]),
        "low": np.array(-0.3 * small, np.float32),
        "high": np.array(0.5 + small, np.float32),
        "k": np.array([1 + small]),
        "places": random.integers(0, 4, 2),
        "square": np.float32(random.normal(size=(4, 4))),
        "scales": np.float32([1 + small, 2]),
    }


def test_runs_of_other_sizes_and_values():
    given = model()
    session = sardonyx.load(given, threads=1)
    right = onnxruntime.InferenceSession(given)
    runs = [feeds(*run) for run in itertools.product((6, 9), (3, 5), (0, 1, 2))]
    # Each follows each, itself too.
    for first, second in itertools.product(runs, repeat=2):
        for run in (first, second):
            found = session.run(run)
            for name, wanted in zip(found, right.run(None, run), strict=True):
                assert found[name].shape == wanted.shape, name
                np.testing.assert_allclose(found[name], wanted, 1e-5, 1e-5, err_msg=name)
