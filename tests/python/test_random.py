"""Operators that draw random numbers: distribution, type, shape, and what repeats.

Six cases of the standard's suite (test_bernoulli*) want particular draws; these are what holds of
any draws. Statistics have fixed bounds that a right generator passes but once in a billion runs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import model, value

import sardonyx

COUNT = 100_000
NARROW = 6.2  # standard deviations: beyond it lies 1e-9 of a normal distribution


def session(op, inputs=(), opset=22, **attributes):
    """A model of one node; its inputs are x0, x1, ..."""
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [
        value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in zip(names, inputs, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], **attributes)
    output = helper.make_empty_tensor_value_info("y")
    return sardonyx.load(model([node], infos, [output], opset=opset))


def draw(op, inputs=(), **attributes):
    """One run."""
    values = {f"x{i}": array for i, array in enumerate(inputs)}
    return session(op, inputs, **attributes).run(values)["y"]


def chi_square(counts, expected):
    """Standard deviations that the statistic lies above its mean, by Wilson and Hilferty's cube
    root."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    freedom = counts.size - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) * np.sqrt(9 * freedom / 2)


SEEDS = pytest.mark.parametrize("seed", [{}, {"seed": 7.0}], ids=["unseeded", "seeded"])


@SEEDS
@pytest.mark.parametrize("opset", [15, 22])
def test_bernoulli_is_fair(seed, opset):
    p = np.repeat(np.linspace(0.05, 0.95, 10), COUNT // 10)
    y = draw("Bernoulli", [p], opset=opset, **seed)
    assert y.dtype == p.dtype and set(np.unique(y)) == {0, 1}
    ones = y.reshape(10, -1).sum(1)
    trials = COUNT / 10
    deviations = (ones - trials * p[:: COUNT // 10]) / np.sqrt(trials * p * (1 - p))[:: COUNT // 10]
    assert np.abs(deviations).max() < NARROW


@SEEDS
def test_bernoulli_neighbours_are_independent(seed):
    y = draw("Bernoulli", [np.full(COUNT, 0.3)], **seed).astype(int)
    pairs = np.bincount(2 * y[0::2] + y[1::2], minlength=4)
    expected = np.array([0.49, 0.21, 0.21, 0.09]) * COUNT / 2
    assert chi_square(pairs, expected) < NARROW


@pytest.mark.parametrize("dtype", [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16])
def test_bernoulli_types_and_shapes(dtype):
    p = np.full((3, 0, 2), 0.5, np.float32)
    assert draw("Bernoulli", [p], dtype=dtype).shape == (3, 0, 2)
    y = draw("Bernoulli", [np.array([[0.0, 1.0]], np.float32)], dtype=dtype)
    assert y.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    assert y.tolist() == [[0, 1]]  # what is certain


@SEEDS
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_uniform(seed, dtype):
    y = draw("RandomUniform", shape=[100, COUNT // 100], dtype=dtype, low=-3.0, high=5.0, **seed)
    assert y.shape == (100, COUNT // 100) and y.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    assert y.min() >= -3 and y.max() <= 5
    counts, _ = np.histogram(y, bins=64, range=(-3, 5))
    assert chi_square(counts, np.full(64, COUNT / 64)) < NARROW


@SEEDS
def test_normal(seed):
    from math import erf

    y = draw("RandomNormal", shape=[COUNT], mean=2.0, scale=3.0, **seed)
    edges = np.linspace(-4, 8, 41)
    below = np.array([0.5 * (1 + erf((edge - 2) / 3 / np.sqrt(2))) for edge in edges])
    expected = np.diff(np.concatenate([[0], below, [1]])) * COUNT
    counts = np.bincount(np.digitize(y, edges), minlength=42)
    assert chi_square(counts, expected) < NARROW


@pytest.mark.parametrize("op", ["RandomNormalLike", "RandomUniformLike"])
def test_like(op):
    x = np.zeros((3, 4), np.int8)
    assert draw(op, [x], dtype=TensorProto.FLOAT16).dtype == np.float16
    assert draw(op, [x.astype(np.float64)]).dtype == np.float64
    with pytest.raises(sardonyx.Error, match="cannot draw int8"):
        session(op, [x])


@SEEDS
def test_multinomial(seed):
    weights = np.array([[1, 2, 3, 4], [5, 1, 0, 4]])
    with np.errstate(divide="ignore"):
        logits = np.log(weights).astype(np.float32) + 7
    y = draw("Multinomial", [logits], sample_size=COUNT, **seed)
    assert y.dtype == np.int32 and y.shape == (2, COUNT)
    for row, weight in zip(y, weights, strict=True):
        counts = np.bincount(row, minlength=4)
        assert counts[weight == 0].sum() == 0
        assert chi_square(counts[weight > 0], weight[weight > 0] / 10 * COUNT) < NARROW


ARGUMENTS = {
    "RandomNormal": ([], {"shape": [64]}),
    "RandomUniform": ([], {"shape": [64]}),
    "RandomNormalLike": ([np.zeros(64, np.float32)], {}),
    "RandomUniformLike": ([np.zeros(64, np.float32)], {}),
    "Bernoulli": ([np.full(64, 0.5, np.float32)], {}),
    "Multinomial": ([np.zeros((1, 9), np.float32)], {"sample_size": 64}),
    "Dropout": ([np.ones(64, np.float32), np.array(0.5, np.float32), np.array(True)], {}),
}


@pytest.mark.parametrize("op", ARGUMENTS)
def test_a_seed_repeats_and_no_seed_does_not(op):
    inputs, attributes = ARGUMENTS[op]
    values = {f"x{i}": array for i, array in enumerate(inputs)}
    free = session(op, inputs, **attributes)
    assert (free.run(values)["y"] != free.run(values)["y"]).any()
    seed = 3 if op == "Dropout" else 3.0
    fixed = session(op, inputs, seed=seed, **attributes)
    first = fixed.run(values)["y"]
    np.testing.assert_array_equal(first, fixed.run(values)["y"])
    np.testing.assert_array_equal(first, draw(op, inputs, seed=seed, **attributes))
    other = draw(op, inputs, seed=seed + 1, **attributes)
    assert (first != other).any()


def test_draws_are_neither_folded_nor_merged():
    nodes = [helper.make_node("RandomUniform", [], [name], shape=[32]) for name in ("a", "b")]
    twins = [helper.make_node("RandomNormalLike", ["a"], [name]) for name in ("c", "d")]
    outputs = [value(name, None) for name in ("a", "b", "c", "d")]
    loaded = sardonyx.load(model([*nodes, *twins], [], outputs, opset=22))
    first, second = loaded.run({}), loaded.run({})
    drawn = [*first.values(), *second.values()]
    assert len({array.tobytes() for array in drawn}) == 8


def test_each_trip_of_a_loop_draws_anew():
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["condition"], ["go"]),
            helper.make_node("RandomUniform", [], ["drawn"], shape=[4]),
        ],
        "body",
        [value("trip", [], TensorProto.INT64), value("condition", [], TensorProto.BOOL)],
        [value("go", [], TensorProto.BOOL), value("drawn", [4])],
    )
    node = helper.make_node("Loop", ["trips", ""], ["y"], body=body)
    trips = value("trips", [], TensorProto.INT64)
    y = sardonyx.load(model([node], [trips], [value("y", None)])).run({"trips": np.int64(5)})["y"]
    assert y.shape == (5, 4) and len(np.unique(y)) == 20


def test_threads_draw_from_streams_of_their_own():
    loaded = session("RandomUniform", shape=[1000])
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: loaded.run({})["y"].tobytes(), range(64)))
    assert len(set(drawn)) == 64


def test_dropout_scales_what_it_keeps():
    x = np.ones((300, 300), np.float32)
    values = {"x0": x, "x1": np.array(0.25, np.float32), "x2": np.array(True)}
    y = session("Dropout", list(values.values())).run(values)["y"]
    kept = np.count_nonzero(y)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(kept - 0.75 * x.size) < NARROW * np.sqrt(0.75 * 0.25 * x.size)


@pytest.mark.parametrize("ratio", [-0.5, 1.0, np.nan])
def test_a_ratio_outside_of_its_range(ratio):
    values = [np.ones(3, np.float32), np.array(ratio, np.float32), np.array(True)]
    with pytest.raises(sardonyx.Error, match=r"the ratio .* of a dropout is not in \[0, 1\)"):
        draw("Dropout", values)


@pytest.mark.parametrize("p", [-0.1, 1.5, np.nan])
def test_no_probability(p):
    with pytest.raises(sardonyx.Error, match="is no probability"):
        draw("Bernoulli", [np.array([0.5, p])])


@pytest.mark.parametrize("attributes", [{"dtype": TensorProto.INT32}, {"shape": [2, -1]}])
def test_faults_are_named(attributes):
    with pytest.raises(sardonyx.Error, match=r"cannot draw int32|a negative size"):
        session("RandomNormal", **{"shape": [2], **attributes})
