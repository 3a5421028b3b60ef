"""Activations, softmax and losses."""

import math

import numpy as np

from tests.versions.case import Case, Request, cases


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# Of each operator: attributes to try, and its formula in float64.
ACTIVATIONS = {
    "Celu": (
        [{}, {"alpha": 2.0}],
        lambda x, alpha=1.0: np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha)),
    ),
    "Elu": ([{}, {"alpha": 0.5}], lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x), x)),
    "Gelu": (
        [{}, {"approximate": "tanh"}],
        lambda x, approximate="none": (
            0.5 * x * (1 + _erf(x / np.sqrt(2)))
            if approximate == "none"
            else 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        ),
    ),
    "HardSigmoid": (
        [{}, {"alpha": 0.5, "beta": 0.25}],
        lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    ),
    "HardSwish": ([{}], lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "LeakyRelu": ([{}, {"alpha": 0.5}], lambda x, alpha=0.01: np.where(x < 0, alpha * x, x)),
    "Mish": ([{}], lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "Selu": ([{}, {"alpha": 2.0, "gamma": 0.5}], None),
    "Shrink": ([{}, {"lambd": 1.0, "bias": 1.0}], None),
    "Softsign": ([{}], lambda x: x / (1 + np.abs(x))),
    "Swish": ([{}, {"alpha": 2.0}], lambda x, alpha=1.0: x * _sigmoid(alpha * x)),
    "ThresholdedRelu": ([{}, {"alpha": 0.5}], lambda x, alpha=1.0: np.where(x > alpha, x, 0)),
}


def _selu(version: int):
    # The defaults of Selu-1 have fewer digits.
    alpha0, gamma0 = (
        (1.6732, 1.0507) if version == 1 else (1.67326319217681884765625, 1.05070102214813232421875)
    )
    return lambda x, alpha=alpha0, gamma=gamma0: gamma * np.where(x > 0, x, alpha * np.expm1(x))


def _shrink(x, lambd=0.5, bias=0.0):
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


@cases(*ACTIVATIONS)
def activations(request: Request) -> list[Case]:
    choices, formula = ACTIVATIONS[request.op]
    if request.op == "Selu":
        formula = _selu(request.version)
    if request.op == "Shrink":
        formula = _shrink
    x = request.random("T", (3, 4))
    made = []
    for attributes in choices:

        def expected(x, attributes=attributes):
            return [np.asarray(formula(x.astype(np.float64), **attributes)).astype(x.dtype)]

        made.append(Case([x], attributes, expected=expected, name=str(attributes or "defaults")))
    if "consumed_inputs" in request.schema.attributes:
        made.append(Case([x], {"consumed_inputs": [0]}, expected=made[0].expected, name="consumed"))
    return made


@cases("PRelu")
def prelu(request: Request) -> list[Case]:
    def expected(x, slope):
        wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
        by = slope if x.dtype.kind in "iu" else slope.astype(np.float64)
        if request.version < 7 and by.size > 1:
            by = by.reshape(-1, 1)  # one for each channel
        return [np.where(wide < 0, wide * by, wide).astype(x.dtype)]

    x = request.random("T", (2, 3, 4))
    if request.version < 7:
        made = [
            Case([x, request.random("T", (3,))], expected=expected, name="by channel"),
            Case([x, request.random("T", (1,))], expected=expected, name="one for all"),
        ]
        if request.version == 1:
            made.append(
                Case(
                    [x, request.random("T", (3,))],
                    {"consumed_inputs": [0, 0]},
                    expected=expected,
                    name="consumed",
                )
            )
        return made
    return [
        Case([x, request.random("T", s)], expected=expected, name=str(s))
        for s in ((3, 1), (4,), (2, 3, 4), (1,))
    ]


def _softmax_rows(x: np.ndarray, op: str) -> np.ndarray:
    """Over the last axis."""
    if op == "Hardmax":
        y = np.zeros_like(x)
        np.put_along_axis(y, x.argmax(-1, keepdims=True), 1, -1)
        return y
    shifted = x - x.max(-1, keepdims=True)
    total = np.exp(shifted).sum(-1, keepdims=True)
    return shifted - np.log(total) if op == "LogSoftmax" else np.exp(shifted) / total


@cases("Softmax", "LogSoftmax", "Hardmax")
def softmax(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    flat = request.version < 13

    def expected(axis: int):
        def formula(x):
            wide = x.astype(np.float64)
            if flat:
                rows = wide.reshape(math.prod(x.shape[:axis]), -1)
                return [_softmax_rows(rows, request.op).reshape(x.shape).astype(x.dtype)]
            y = _softmax_rows(np.moveaxis(wide, axis, -1), request.op)
            return [np.moveaxis(y, -1, axis).astype(x.dtype)]

        return formula

    made = [
        Case([x], expected=expected(1 if flat else -1)),
        Case([x], {"axis": 0}, expected=expected(0), name="axis 0"),
        Case([x], {"axis": 2}, expected=expected(2), name="axis 2"),
    ]
    if request.version >= 11:
        made.append(Case([x], {"axis": -2}, expected=expected(-2), name="negative axis"))
    return made


def _nll(log_prob, target, weight, reduction, ignore):
    """The loss of [N, C, d...] log-probabilities in float64."""
    classes = log_prob.shape[1]
    kept = target != ignore if ignore is not None else np.ones(target.shape, bool)
    index = np.where(kept, target, 0)
    picked = np.take_along_axis(log_prob, np.expand_dims(index, 1), 1)[:, 0]
    w = (np.ones(classes) if weight is None else weight.astype(np.float64))[index] * kept
    loss = -picked * w
    if reduction == "none":
        return loss
    return loss.sum() / w.sum() if reduction == "mean" else loss.sum()


@cases("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def losses(request: Request) -> list[Case]:
    cross_entropy = request.op == "SoftmaxCrossEntropyLoss"
    made = []
    for shape in ((3, 5), (2, 4, 3), (2, 3, 2, 2)):
        x = request.random("T", shape)
        target = request.rng.integers(0, shape[1], (shape[0], *shape[2:])).astype(
            request.dtype("Tind")
        )
        weight = request.random("T", (shape[1],), low=1, high=2)
        for attributes, w in (
            ({}, None),
            ({"reduction": "sum"}, weight),
            ({"reduction": "none", "ignore_index": 1}, weight),
            ({"reduction": "mean", "ignore_index": 0}, None),
        ):

            def expected(x, target, w=None, attributes=attributes):
                wide = x.astype(np.float64)
                if cross_entropy:
                    wide = np.moveaxis(_softmax_rows(np.moveaxis(wide, 1, -1), "LogSoftmax"), -1, 1)
                loss = _nll(
                    wide,
                    target,
                    w,
                    attributes.get("reduction", "mean"),
                    attributes.get("ignore_index"),
                )
                results = [np.asarray(loss).astype(x.dtype)]
                return [*results, wide.astype(x.dtype)] if cross_entropy else results

            made.append(
                Case(
                    [x, target] if w is None else [x, target, w],
                    attributes,
                    expected=expected,
                    name=f"{shape} {attributes}",
                    rtol=None if x.dtype.itemsize > 2 else 2e-2,
                    atol=None if x.dtype.itemsize > 2 else 2e-2,
                )
            )
    return made
