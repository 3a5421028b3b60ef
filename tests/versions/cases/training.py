"""Optimisers and gradients. Formulas: the reference evaluator returns float32 from Adam whatever
its inputs are, has no Gradient, and ONNX Runtime has none of these operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tests.versions.case import Case, Request, cases

DOMAIN = "ai.onnx.preview.training"


def adagrad(r, t, x, g, h, *, decay_factor=0.0, epsilon=1e-6, norm_coefficient=0.0):
    """Formula of Adagrad for one tensor."""
    g = norm_coefficient * x + g
    h = h + g * g
    return x - r / (1 + t * decay_factor) * g / (np.sqrt(h) + epsilon), h


def adam(
    r, t, x, g, v, h, *, alpha=0.9, beta=0.999, epsilon=1e-6, norm_coefficient=0.0,
    norm_coefficient_post=0.0,
):  # fmt: skip
    """Formula of Adam for one tensor."""
    g = norm_coefficient * x + g
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    if t > 0:
        r = r * np.sqrt(1 - beta**t) / (1 - alpha**t)
    return (1 - norm_coefficient_post) * (x - r * v / (np.sqrt(h) + epsilon)), v, h


def momentum(r, t, x, g, v, *, alpha, beta, mode, norm_coefficient):
    """Formula of Momentum for one tensor."""
    g = norm_coefficient * x + g
    v = alpha * v + (beta if t > 0 else 1) * g
    return x - r * (g + alpha * v if mode == "nesterov" else v), v


def steps(
    request: Request, formula: Callable[..., Any], states: int, choices: Iterable[dict[str, Any]]
) -> list[Case]:
    """One and two tensors, first and later updates, for each choice of attributes."""
    found = []
    for given in choices:
        for shapes, count in (([(3, 2)], 0), ([(4,), (2, 3)], 5)):
            n = len(shapes)
            groups = [
                [request.random("T3", shape, 0.1, 2) for shape in shapes] for _ in range(2 + states)
            ]

            def expected(r, t, *tensors, given=given, n=n):
                wide = [tensor.astype(np.float64) for tensor in tensors]
                results = [formula(float(r), int(t), *wide[i::n], **given) for i in range(n)]
                dtype = tensors[0].dtype
                return [
                    array.astype(dtype) for group in zip(*results, strict=True) for array in group
                ]

            rate = np.asarray(0.1, request.dtype("T1"))
            tensors = [tensor for group in groups for tensor in group]
            found.append(
                Case([rate, np.asarray(count, np.int64), *tensors], given, expected=expected,
                     outputs=n * (1 + states), rtol=1e-5, atol=1e-6)
            )  # fmt: skip
    return found


@cases("Adagrad", domain=DOMAIN)
def adagrad_cases(request: Request) -> list[Case]:
    given = {"decay_factor": 0.125, "epsilon": 1e-3, "norm_coefficient": 0.25}
    return steps(request, adagrad, 1, [{}, given])


@cases("Adam", domain=DOMAIN)
def adam_cases(request: Request) -> list[Case]:
    given = {"alpha": 0.75, "beta": 0.875, "epsilon": 1e-3, "norm_coefficient": 0.25}
    return steps(request, adam, 2, [{}, {**given, "norm_coefficient_post": 0.125}])


@cases("Momentum", domain=DOMAIN)
def momentum_cases(request: Request) -> list[Case]:
    given = {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.25}
    return steps(
        request, momentum, 1, [{**given, "mode": mode} for mode in ("standard", "nesterov")]
    )


@cases("Gradient", domain=DOMAIN)
def gradient(request: Request) -> Case:
    # Operators are differentiated in tests/python/test_gradient.py; here, types alone.
    x, z = request.random("T2", (2, 3)), request.random("T1", (2,))
    return Case(
        [x, z], {"xs": ["x0"], "zs": ["x1"], "y": "x0"}, outputs=1, expected=[np.ones_like(x)]
    )
