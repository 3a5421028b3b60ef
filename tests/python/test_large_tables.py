"""Rows of large tables, which are read from the model's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx

ROWS, WIDTH = 40000, 100  # 16 MB
TABLE = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


def save(
    folder: Path, external: bool, index_type: int = TensorProto.INT64, graph_name: str = "g"
) -> Path:
    """A model of one Gather from TABLE, in the model's file or in one of its own."""
    table = numpy_helper.from_array(TABLE, "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "rows"], ["y"], name="embed")],
        graph_name,
        [helper.make_tensor_value_info("rows", index_type, ["a", "b"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", WIDTH])],
        [table],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = folder / "table.onnx"
    onnx.save(model, path, save_as_external_data=external, location="table.bin")
    return path


def resident_kib() -> int:
    """The memory of this process, pages of files included."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows(tmp_path: Path, external: bool, threads: int) -> None:
    session = sardonyx.load(save(tmp_path, external), threads=threads)
    rng = np.random.default_rng(1)
    # The last are so many that the table itself is read.
    for shape in ((1, 1), (2, 3), (1, 0), (3, 700), (4, 9000)):
        rows = rng.integers(-ROWS, ROWS, shape)
        np.testing.assert_array_equal(session.run({"rows": rows})["y"], TABLE[rows])


def test_rows_read_often(tmp_path: Path) -> None:
    """What is read again and again comes from memory."""
    session = sardonyx.load(save(tmp_path, True))
    rng = np.random.default_rng(2)
    for _ in range(2 * ROWS // 2100 + 2):
        rows = rng.integers(-ROWS, ROWS, (3, 700))
        np.testing.assert_array_equal(session.run({"rows": rows})["y"], TABLE[rows])
    rows[1, 2] = ROWS
    with pytest.raises(sardonyx.InvalidArgumentError, match=f"embed.*index {ROWS} .element 702"):
        session.run({"rows": rows})


def test_rows_by_int32(tmp_path: Path) -> None:
    session = sardonyx.load(save(tmp_path, True, TensorProto.INT32))
    rows = np.array([[0, -1, ROWS - 1, -ROWS]], np.int32)
    np.testing.assert_array_equal(session.run({"rows": rows})["y"], TABLE[rows])


@pytest.mark.parametrize("bad", [ROWS, -ROWS - 1])
def test_index_out_of_range(tmp_path: Path, bad: int) -> None:
    session = sardonyx.load(save(tmp_path, True))
    with pytest.raises(sardonyx.InvalidArgumentError, match=f"embed.*index {bad} .element 2"):
        session.run({"rows": np.array([[0, 1, bad]])})


def test_few_rows_take_little_memory(tmp_path: Path) -> None:
    session = sardonyx.load(save(tmp_path, True))
    session.run({"rows": np.array([[0]])})
    before = resident_kib()
    session.run({"rows": np.arange(0, ROWS, 500)[None]})
    assert resident_kib() - before < 4096


@pytest.mark.parametrize("padding", range(4))  # so the table is aligned in one of the files alone
def test_an_unaligned_table_is_not_copied(tmp_path: Path, padding: int) -> None:
    path = save(tmp_path, False, graph_name="g" * (1 + padding))
    before = resident_kib()
    session = sardonyx.load(path)
    rows = np.array([[3, -1, ROWS // 2]])
    np.testing.assert_array_equal(session.run({"rows": rows})["y"], TABLE[rows])
    assert resident_kib() - before < 8192


@pytest.mark.parametrize("padding", range(4))
@pytest.mark.parametrize("size", [10000, ROWS])  # the larger is read from the file
def test_positions_that_follow_from_a_shape(tmp_path: Path, size: int, padding: int) -> None:
    """The plan knows such indices, and that they go in even steps."""
    table, count = TABLE[:size], 300
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.arange(1024), "all"),
        numpy_helper.from_array(np.array([0]), "zero"),
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["count"]),
        helper.make_node("Slice", ["all", "zero", "count"], ["positions"]),
        helper.make_node("Gather", ["table", "positions"], ["y"], name="embed"),
    ]
    graph = helper.make_graph(
        nodes,
        "g" * (1 + padding),
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        constants,
    )
    path = tmp_path / "positions.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    before = resident_kib()
    session = sardonyx.load(path)
    y = session.run({"x": np.zeros(count, np.float32)})["y"]
    np.testing.assert_array_equal(y, table[:count])
    assert resident_kib() - before < 4096
