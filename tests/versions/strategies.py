"""Shapes and values for properties, special ones among them."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

PROFILE = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 3e38, -3e38, 0.5, 1.5, 2.5]


def shapes(min_dims=0, max_dims=5, min_side=0, max_side=4):
    return hnp.array_shapes(
        min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=max_side
    )


def floats(special=True):
    if special:
        return st.one_of(st.sampled_from(SPECIAL), st.floats(-100, 100, width=32))
    return st.floats(-4, 4, width=16)


@st.composite
def arrays(draw, shape=None, dtype=np.float32, special=True):
    shape = draw(shape if shape is not None else shapes())
    if np.dtype(dtype).kind == "f":
        return draw(hnp.arrays(dtype, shape, elements=floats(special).map(np.dtype(dtype).type)))
    return draw(hnp.arrays(dtype, shape))
