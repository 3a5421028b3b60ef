"""Constant indices in even steps: they need not stay in memory, and new shapes find them again."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import small_models as small
from onnx import helper, numpy_helper

import sardonyx

ROWS, LENGTH = 40, 400


@pytest.fixture
def model(tmp_path):
    """x [n, 400] -> windows of 128 every 4 -> w; x with columns 1, 3, ... set to z -> y.

    Both tables of indices are long enough to be dropped once they were looked at.
    """
    windows = np.arange(0, 200, 4)[:, None] + np.arange(128)
    columns = np.stack(np.meshgrid(np.arange(ROWS), np.arange(1, LENGTH, 2), indexing="ij"), -1)
    constants = [
        numpy_helper.from_array(windows, "windows"),
        numpy_helper.from_array(columns, "columns"),
    ]
    nodes = [
        helper.make_node("Gather", ["x", "windows"], ["w"], "cut", axis=1),
        helper.make_node("ScatterND", ["x", "columns", "z"], ["y"], "assign"),
    ]
    inputs = [small.value("x", ("n", LENGTH)), small.value("z", (ROWS, LENGTH // 2))]
    outputs = [small.value("w", None), small.value("y", None)]
    path = tmp_path / "model.onnx"
    onnx.save(small.model(nodes, inputs, outputs, constants), path)
    return path


def check(session: sardonyx.Session, rows: int) -> None:
    random = np.random.default_rng(rows)
    x = random.standard_normal((rows, LENGTH), dtype=np.float32)
    z = random.standard_normal((ROWS, LENGTH // 2), dtype=np.float32)
    outputs = session.run({"x": x, "z": z})
    np.testing.assert_array_equal(
        outputs["w"], np.stack([x[:, i : i + 128] for i in range(0, 200, 4)], 1)
    )
    x[:ROWS, 1::2] = z
    np.testing.assert_array_equal(outputs["y"], x)


@pytest.mark.parametrize("threads", [1, 2])
def test_shapes_that_come_later(model, threads):
    session = sardonyx.load(model, threads=threads)
    for rows in (ROWS, 50, 64, ROWS):
        check(session, rows)


def test_an_engine_file_runs_without_its_model(model, tmp_path):
    engine = tmp_path / "model.sdx"
    sardonyx.compile(model, engine, shapes={"x": [ROWS, LENGTH], "z": [ROWS, LENGTH // 2]})
    model.unlink()
    session = sardonyx.load(engine)
    for rows in (ROWS, 50):
        check(session, rows)
