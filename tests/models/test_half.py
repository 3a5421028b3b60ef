"""Models of 16-bit types against their float32 twins."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import sardonyx
from bench.models import cases, collection, ensure, reference

# Largest deviation, relative to the largest value: what a network makes of rounding every value to
# 11 or 8 bits.
BOUNDS = {"f16": 0.01, "bf16": 0.08}
TWINS = [model for model in collection().values() if model.twin]


@pytest.mark.parametrize("model", TWINS, ids=lambda model: model.name)
def test_agrees_with_twin(model):
    bound = BOUNDS[model.name.rsplit("_", 1)[1]]
    narrow = [sardonyx.load(ensure(model.name), threads=threads) for threads in (1, 2)]
    wide = sardonyx.load(ensure(model.twin), threads=2)
    for feeds in list(cases(model.twin).values())[:2]:
        expected = wide.run(dict(feeds))
        one, two = (session.run(dict(feeds)) for session in narrow)
        for name, value in expected.items():
            np.testing.assert_array_equal(one[name], two[name])
            assert np.abs(one[name] - value).max() <= bound * np.abs(value).max()


def _with_rounded_weights(name):
    """A float32 model whose weights have been float16."""
    model = onnx.load(ensure(name))
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model.SerializeToString()


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "lstm"])
def test_only_weights_are_rounded(name):
    """Between products, values of float16 are as exact as those of float32."""
    feeds = next(iter(cases(name).values()))
    actual = sardonyx.load(ensure(f"{name}_f16")).run(dict(feeds))
    expected = sardonyx.load(_with_rounded_weights(name)).run(dict(feeds))
    for output, value in expected.items():
        assert reference.mismatch(actual[output], value) is None


@pytest.mark.parametrize("model", TWINS, ids=lambda model: model.name)
def test_nothing_runs_on_the_reference(model):
    session = sardonyx.load(ensure(model.name), threads=1)
    feeds = next(iter(cases(model.twin).values()))
    steps = session.explain({name: value.shape for name, value in feeds.items()})
    assert " reference" not in steps
