"""Real models, end to end, against ONNX Runtime on the same inputs."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import sardonyx
from bench.models import cases, collection, ensure, reference

NAMES_AND_CASES = [
    (model.name, "x".join(str(size) for size in sizes))
    for model in collection().values()
    if not model.twin
    for sizes in model.sizes
]


@functools.lru_cache(maxsize=1)  # one model at a time: some are large
def _expected(name: str) -> dict[str, dict[str, np.ndarray]]:
    session = reference.open_session(str(ensure(name)))
    names = [output.name for output in session.get_outputs()]
    return {
        case: dict(zip(names, session.run(names, dict(feeds)), strict=True))
        for case, feeds in cases(name).items()
    }


@functools.lru_cache(maxsize=2)
def _session(name: str, threads: int):
    return sardonyx.load(ensure(name), threads=threads)


def _is_ill_conditioned(name, feeds, actual, expected) -> bool:
    """Whether ONNX Runtime, too, misses the result of float64 by more than the tolerance.

    There the two may differ by more than it as well; ours must not be twice as far off.
    """
    wide = {
        key: array.astype(np.float64) if array.dtype == np.float32 else array
        for key, array in feeds.items()
    }
    exact = sardonyx.load(reference.doubled(ensure(name))).run(wide)
    theirs = max(reference.excess(expected[output], exact[output]) for output in expected)
    ours = max(reference.excess(actual[output], exact[output]) for output in expected)
    return theirs > 1 and ours <= 2 * theirs


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("name", "case"), NAMES_AND_CASES)
def test_agrees_with_onnxruntime(name, case, threads):
    session = _session(name, threads)
    feeds = dict(cases(name)[case])
    expected = _expected(name)[case]
    quantized = collection()[name].quantized
    actual = session.run(feeds)
    assert list(actual) == list(expected)
    problems = {
        output: problem
        for output in expected
        if (problem := reference.mismatch(actual[output], expected[output], quantized=quantized))
    }
    if problems and not quantized and _is_ill_conditioned(name, feeds, actual, expected):
        return
    if problems:
        report = [f"output '{output}': {problem}" for output, problem in problems.items()]
        report.append(reference.first_difference(ensure(name), session, feeds, quantized=quantized))
        pytest.fail("\n".join(report), pytrace=False)


@pytest.mark.parametrize("name", ["resnet50", "bert_base", "lstm", "resnet50_int8"])
def test_thread_count_does_not_change_results(name):
    feeds = dict(next(iter(cases(name).values())))
    one, two = (_session(name, threads).run(feeds) for threads in (1, 2))
    for output in one:
        np.testing.assert_array_equal(one[output], two[output])
