"""Models of 16-bit types against their float32 twins."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from bench.models import cases, collection, ensure

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


@pytest.mark.parametrize("model", TWINS, ids=lambda model: model.name)
def test_nothing_runs_on_the_reference(model):
    session = sardonyx.load(ensure(model.name), threads=1)
    feeds = next(iter(cases(model.twin).values()))
    steps = session.explain({name: value.shape for name, value in feeds.items()})
    assert " reference" not in steps
