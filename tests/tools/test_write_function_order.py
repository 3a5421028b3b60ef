"""The list of functions that the linker puts first."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from sardonyx import _sardonyx
from tools import write_function_order as order


def test_functions_that_the_same_runs_call_lie_side_by_side():
    called = [
        order.Function(["a"], 100, {0, 1, 2}),
        order.Function(["first"], 100, {0}),
        order.Function(["b"], 100, {0, 1, 2}),
        order.Function(["both", "its_other_name"], 100, {0, 1}),
        order.Function(["second"], 100, {0}),
    ]
    assert order.arrange(called) == ["a", "b", "both", "its_other_name", "first", "second"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="breakpoints are of x86-64")
def test_what_a_process_calls_is_found(tmp_path: Path):
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "x"], ["y"])],
        "sum",
        [value("x", onnx.TensorProto.FLOAT, [3])],
        [value("y", onnx.TensorProto.FLOAT, [3])],
    )
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", x=np.ones(3, np.float32))
    tracer = order.Tracer(Path(_sardonyx.__file__).resolve(), tmp_path / "python")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'python'}:{order.ROOT}"}
    command = [sys.executable, order.__file__, "--run", str(tmp_path / "model.onnx")]
    called = tracer.calls([*command, str(tmp_path / "inputs.npz")], environment)
    names = {name for address in called for name in tracer.functions[address].names}
    assert 500 < len(called) < len(tracer.functions) / 2
    assert "PyInit__sardonyx" in names
    assert any("MakePlan" in name for name in names)
    assert not any("ConvWinograd" in name for name in names)
    with pytest.raises(RuntimeError, match="failed"):
        tracer.calls([*command, "nothing.npz"], environment)
