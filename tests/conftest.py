import os

# Before anything loads torch: a forked child would wait for ever for threads that its parent had.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
from hypothesis import settings

pytest_plugins = ["tests.backend.coverage_plugin"]

# The same examples in every run: what fails in one fails in the next.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def same_draws(request):
    """Begin the random generators of a module anew, whichever tests ran before."""
    for value in vars(request.module).values():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = np.random.default_rng(0).bit_generator.state
