"""The case test_loop16_seq_none of the backend suite expects a ragged array, with which its own
comparison cannot deal: what the loop gives is shown here instead."""

import numpy as np
import pytest
from onnx.backend.test.loader import load_model_tests

import sardonyx


@pytest.mark.parametrize(
    "start", [None, [np.array([7.0, 8.0], np.float32)]], ids=["nothing", "a sequence"]
)
def test_loop_over_optional_sequence(start):
    [case] = [t for t in load_model_tests(kind="node") if t.name == "test_loop16_seq_none"]
    session = sardonyx.load(case.model)
    trips, condition, _ = case.data_sets[0][0]
    names = [info.name for info in session.inputs]
    values = dict(zip(names, (trips, condition, start), strict=True))
    [found] = session.run(values).values()
    x = np.array([1, 2, 3, 4, 5], np.float32)
    # The body begins with the sequence [0] if it gets nothing, and appends x[:i].
    before = [np.array(0, np.float32)] if start is None else start
    expected = [*before, *(x[: i + 1] for i in range(5))]
    assert len(found) == len(expected)
    for actual, right in zip(found, expected, strict=True):
        assert actual.dtype == np.float32
        np.testing.assert_array_equal(actual, right)
