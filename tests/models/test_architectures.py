"""Many architectures as exporters write them, end to end, against PyTorch itself.

The collection of `bench.models` has what the field measures; here are patterns beyond it: windows,
relative positions, caps, gates, pads that are computed from shapes, resizes that change nothing.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import sardonyx
from tests.models import architectures


@pytest.fixture(scope="module", params=architectures.ARCHITECTURES)
def exported(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("architectures") / f"{request.param}.onnx"
    inputs, expected = architectures.write(request.param, path)
    return path, {name: tensor.numpy() for name, tensor in inputs.items()}, expected.numpy()


def _deviation(actual, expected) -> float:
    assert actual.shape == expected.shape
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def test_agrees_with_pytorch(exported):
    path, feeds, expected = exported
    one, two = (sardonyx.load(path, threads=threads).run(dict(feeds))["y"] for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert _deviation(one, expected) < 1e-4


def test_nothing_large_runs_on_the_reference(exported):
    path, feeds, _ = exported
    session = sardonyx.load(path, threads=1)
    with session.profile() as profile:
        session.run(dict(feeds))
    slow = [
        step.node
        for step in profile.steps()
        if step.implementation == "reference" and np.prod(step.shape) > 256
    ]
    assert slow == []


def test_nodes_may_stand_in_any_order(exported):
    """Converters append nodes; who reads them may stand before."""
    path, feeds, _ = exported
    model = onnx.load(path)
    expected = sardonyx.load(model).run(dict(feeds))["y"]
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    np.testing.assert_array_equal(sardonyx.load(model).run(dict(feeds))["y"], expected)
