"""Products with a single column, which are computed as the row of the product turned round."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import helper, numpy_helper

import sardonyx

SHAPES = [
    ((30, 20), (20, 1)),
    ((7, 30, 20), (7, 20, 1)),
    ((7, 30, 20), (20, 1)),
    ((30, 20), (7, 20, 1)),  # one matrix for all columns: a product of matrices
    ((3, 1, 30, 20), (1, 4, 20, 1)),
    ((3, 4, 30, 20), (4, 20, 1)),
    ((30, 1), (5, 1, 1)),
    ((300, 1500), (1500, 1)),
    ((2, 3, 4, 30, 20), (2, 1, 4, 20, 1)),
]


def numbers(shape, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("constant", ["", "a", "b"])
@pytest.mark.parametrize("turned", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_columns(tmp_path, left, right, turned, constant):
    a, b = numbers(left, 1), numbers(right, 2)
    product = a @ b
    rows, batch = numbers(product.shape[-2:], 3), numbers((*product.shape[:-2], 1, 1), 4)
    nodes = [
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        helper.make_node("Add", ["p", "rows"], ["q"]),
        helper.make_node("Mul", ["q", "batch"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    values = {"a": a, "b": b, "rows": rows, "batch": batch}
    if turned:  # A lies column by column
        perm = [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2]
        nodes[0].input[0] = "t"
        nodes.insert(0, helper.make_node("Transpose", ["a"], ["t"], perm=perm))
        values["a"] = np.ascontiguousarray(a.transpose(perm))
    feeds = {name: value for name, value in values.items() if name != constant}
    model = small.model(
        nodes,
        [small.value(name, value.shape) for name, value in feeds.items()],
        [small.value("y", None)],
        [numpy_helper.from_array(values[constant], constant)] if constant else [],
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for threads in (1, 2):
        session = sardonyx.load(path, threads=threads)
        for _ in range(2):
            found = session.run(feeds)["y"]
            np.testing.assert_array_equal(found, np.maximum((product + rows) * batch, 0))
