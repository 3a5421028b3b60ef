"""Models that packages carry, as their authors exported them, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import sardonyx
from bench.models.surveyed import PUBLISHED


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
def test_agrees_with_onnxruntime(model, tmp_path):
    path = tmp_path / f"{model.name}.onnx"
    model.write(path)
    feeds = model.inputs(np.random.default_rng(0), *model.sizes[0])
    one, two = (sardonyx.load(path, threads=threads).run(dict(feeds)) for threads in (1, 2))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for output, expected in zip(names, session.run(names, dict(feeds)), strict=True):
        np.testing.assert_array_equal(one[output], two[output])
        bound = 1e-4 * np.abs(expected).max()
        np.testing.assert_allclose(one[output], expected, rtol=0, atol=bound)
