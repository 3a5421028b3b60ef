"""Random networks against ONNX Runtime without its optimisations."""

from __future__ import annotations

import numpy as np
import pytest

import sardonyx
from tests.models.random_network import RandomNetwork
from tests.models.unoptimised import run_unoptimised

NETWORKS = {"float32": 1000, "tiny": 1000, "wide": 300, "quantized": 1000}
AT_ONCE = 100


@pytest.mark.parametrize(
    ("kind", "first"),
    [(kind, first) for kind, count in NETWORKS.items() for first in range(0, count, AT_ONCE)],
)
def test_random_networks(kind, first):
    """Numbers are those of ONNX Runtime, and the same bits with two threads as with one."""
    # A code beside the one that ONNX Runtime rounds to goes on through the layers behind it.
    bound, apart = (0.1, 0.03) if kind == "quantized" else (3e-4, 0)
    for seed in range(first, first + AT_ONCE):
        network = RandomNetwork(seed, **{} if kind == "float32" else {kind: True})
        one, two = (
            list(sardonyx.load(network.model, threads=threads).run(network.feeds).values())
            for threads in (1, 2)
        )
        expected = run_unoptimised(network.model.SerializeToString(), network.feeds)
        for actual, same, wanted in zip(one, two, expected, strict=True):
            assert actual.shape == wanted.shape, seed
            assert actual.tobytes() == same.tobytes(), seed
            finite = np.isfinite(wanted)
            assert np.array_equal(finite, np.isfinite(actual)), seed
            size = np.abs(wanted[finite])
            error = np.abs(actual[finite] - wanted[finite])
            far = error > bound * (size + size.max(initial=1e-3))
            assert far.mean() <= apart if far.size else True, (seed, error.max())
