"""Operators that draw random numbers: with a seed, NumPy's legacy stream, which the reference
evaluator draws from as well. Formulas, since the reference evaluator has no Multinomial, reads some
types as others, and ONNX Runtime draws other streams."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.versions.case import Case, Request, cases

SEED = 42


def stream(seed: int = SEED) -> np.random.RandomState:
    """The stream of a seed."""
    return np.random.RandomState(seed)


def drawn_type(request: Request, parameter: str) -> int:
    """Value of attribute `dtype` for the type of a parameter."""
    return helper.np_dtype_to_tensor_dtype(request.dtype(parameter))


def place(drawn: Any, scale: float, offset: float, dtype: np.dtype) -> np.ndarray:
    """Compute drawn * scale + offset as arrays of that type do: rounded after each step."""
    wide = np.float64 if dtype == np.float64 else np.float32
    scaled = (np.asarray(drawn).astype(dtype).astype(wide) * wide(scale)).astype(dtype)
    return (scaled.astype(wide) + wide(offset)).astype(dtype)


def draws(op: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """What a case of RandomNormal or RandomUniform expects."""
    if "Normal" in op:
        return place(stream().randn(*shape), 1.5, 0.25, dtype)
    return place(stream().random_sample(shape), 3.0, -1.0, dtype)


def attributes(op: str) -> dict[str, float]:
    """Scale and offset of `draws`."""
    placed = {"mean": 0.25, "scale": 1.5} if "Normal" in op else {"low": -1.0, "high": 2.0}
    return {**placed, "seed": float(SEED)}


@cases("RandomNormal", "RandomUniform")
def random(request: Request) -> list[Case]:
    given = {**attributes(request.op), "dtype": drawn_type(request, "T")}
    return [
        Case(
            [],
            {**given, "shape": list(shape)},
            expected=[draws(request.op, shape, request.dtype("T"))],
        )
        for shape in ((3, 5), (7,), (2, 0, 3))
    ]


@cases("RandomNormalLike", "RandomUniformLike")
def random_like(request: Request) -> list[Case]:
    x = request.random("T1", (3, 4))
    given = attributes(request.op)
    expected = [draws(request.op, x.shape, request.dtype("T2"))]
    found = [Case([x], {**given, "dtype": drawn_type(request, "T2")}, expected=expected)]
    if request.dtype("T1") == request.dtype("T2"):
        found.append(Case([x], given, expected=expected, name="type of the input"))
    return found


@cases("Bernoulli")
def bernoulli(request: Request) -> list[Case]:
    p = request.random("T1", (8, 9), 0, 1)
    p[0, :2] = 0, 1

    def expected(p: np.ndarray) -> np.ndarray:
        return stream().binomial(1, p.astype(np.float64)).astype(request.dtype("T2"))

    found = [
        Case([p], {"dtype": drawn_type(request, "T2"), "seed": float(SEED)}, expected=expected)
    ]
    if request.dtype("T1") == request.dtype("T2"):
        found.append(Case([p], {"seed": float(SEED)}, expected=expected, name="type of the input"))
    return found


@cases("Multinomial")
def multinomial(request: Request) -> list[Case]:
    logits = request.random("T1", (3, 5))

    def expected(logits: np.ndarray) -> np.ndarray:
        wide = logits.astype(np.float64)
        cumulative = np.cumsum(np.exp(wide - wide.max(1, keepdims=True)), 1)
        at = stream().random_sample((len(wide), 20)) * cumulative[:, -1:]
        rows = zip(cumulative, at, strict=True)
        found = np.stack([np.searchsorted(line, row, "right") for line, row in rows])
        return found.astype(request.dtype("T2"))

    given = {"dtype": drawn_type(request, "T2"), "sample_size": 20, "seed": float(SEED)}
    return [Case([logits], given, expected=expected)]


@cases("Dropout")
def dropout(request: Request) -> list[Case]:
    x = request.random("T", (6, 7))
    if request.version < 7:
        return [
            Case([x], {"is_test": 1, "ratio": 0.25}, outputs=1, expected=[x]),
            Case([x], {"ratio": 0.25}, outputs=1, expected=[x], name="is_test left out"),
        ]
    if request.version < 12:
        mask = [np.ones(x.shape, bool)] if request.version >= 10 else []
        return [Case([x], {"ratio": 0.25}, outputs=1 + len(mask), expected=[x, *mask])]

    def train(x: np.ndarray, ratio: np.ndarray, _training: np.ndarray) -> list[np.ndarray]:
        mask = stream().random_sample(x.shape) >= float(ratio)
        return [x.astype(np.float64) * mask / (1 - float(ratio)), mask]

    ratio = np.asarray(0.25, request.dtype("T1"))
    off, on = np.asarray(False), np.asarray(True)
    unchanged = [x, np.ones(x.shape, bool)]
    return [
        Case([x], expected=unchanged, name="inference"),
        Case([x, ratio, off], expected=unchanged, name="training mode false"),
        Case([x, ratio, on], {"seed": SEED}, expected=train, name="training"),
        Case([x, ratio, on], {"seed": SEED}, expected=train, initializers=(1, 2), name="constant"),
    ]
