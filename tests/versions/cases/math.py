"""Elementwise operators with one or two inputs."""

from __future__ import annotations

import numpy as np

from tests.versions.case import Case, Request, cases

# Where a function has its domain.
INSIDE = {
    "Acos": (-1, 1),
    "Acosh": (1, 3),
    "Asin": (-1, 1),
    "Atanh": (-0.9, 0.9),
    "Log": (0.1, 3),
    "Sqrt": (0, 3),
    "Tan": (-1, 1),
}


@cases(
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf"),
    *("Exp", "Floor", "Log", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin"),
    *("Sinh", "Softplus", "Sqrt", "Tan", "Tanh", "BitwiseNot", "Not"),
)
def unary(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 5), *INSIDE.get(request.op, ()))
    if request.op == "Reciprocal":
        x = np.where(x == 0, np.ones((), x.dtype), x)
    old = {"consumed_inputs": [0]} if "consumed_inputs" in request.schema.attributes else {}
    return [Case([x], old), Case([x[0, 0, 0]], name="scalar"), Case([x[:0]], name="empty")]


# What they compute: the reference evaluator does not know the broadcasting of opsets 1 to 6.
BINARY = {
    "Add": np.add,
    "And": np.logical_and,
    "Div": np.divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Pow": np.power,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}


@cases(*BINARY, "GreaterOrEqual", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
def binary(request: Request) -> list[Case]:
    second = request.schema.inputs[1].type_str
    positive = (1, 3) if request.op == "Pow" else ()
    x = request.random("T", (2, 3, 4), *positive)
    y = request.random(second, (2, 3, 4), *positive)
    if request.op == "Div":
        y = np.where(y == 0, np.ones((), y.dtype), y)
    if request.version < 7:
        return _old_broadcasts(request, x, y)
    return [
        Case([x, y]),
        Case([x[:, :1], y[0]], name="both broadcast"),
        Case([x[0, 0, 0, ...], y], name="scalar first"),
        Case([x[:0], y[:1]], name="empty"),
    ]


def _old_broadcasts(request: Request, x: np.ndarray, y: np.ndarray) -> list[Case]:
    """Opsets 1 to 6: the second input fits somewhere into the first, if `broadcast` says so."""
    rows = {
        "same shape": ({}, y, y),
        "suffix": ({"broadcast": 1}, y[0, 0], y[0, 0]),
        "axis": ({"broadcast": 1, "axis": 1}, y[0, :, 0], y[0, :, :1]),
        "two axes": ({"broadcast": 1, "axis": 0}, y[:, :, 0], y[:, :, :1]),
        "scalar": ({"broadcast": 1}, y[0, 0, 0], y[0, 0, 0]),
    }
    found = []
    for name, (attributes, given, meant) in rows.items():
        if "consumed_inputs" in request.schema.attributes:
            attributes = {**attributes, "consumed_inputs": [0, 0]}
        found.append(
            Case([x, given], attributes, expected=[_compute(request.op, x, meant)], name=name)
        )
    return found


def _compute(op: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if op == "Div" and x.dtype.kind in "iu":
        return np.trunc(x.astype(np.float64) / y).astype(x.dtype)
    return BINARY[op](x, y)


@cases("Mod")
def mod(request: Request) -> list[Case]:
    x, y = request.random("T", (3, 4)), request.random("T", (3, 4), low=1)
    wide = (x.astype(np.float64), y.astype(np.float64)) if x.dtype.kind not in "iu" else (x, y)
    made = [
        Case([x, y], {"fmod": 1}, expected=[np.fmod(*wide).astype(x.dtype)], name="sign of x"),
        Case(
            [x, y[0]],
            {"fmod": 1},
            expected=[np.fmod(wide[0], wide[1][0]).astype(x.dtype)],
            name="broadcast",
        ),
    ]
    if x.dtype.kind in "iu":
        made.append(Case([x, y], expected=[np.mod(x, y)], name="sign of y"))
    if x.dtype.kind == "i":
        made.append(Case([x, -y], expected=[np.mod(x, -y)], name="negative y"))
    return made


@cases("BitShift")
def bit_shift(request: Request) -> list[Case]:
    x, y = request.random("T", (3, 4), high=5), request.random("T", (3, 4), low=0, high=4)
    made = []
    for direction, shift in (("LEFT", np.left_shift), ("RIGHT", np.right_shift)):
        made.append(Case([x, y], {"direction": direction}, expected=[shift(x, y)], name=direction))
        made.append(
            Case(
                [x, y[0]],
                {"direction": direction},
                expected=[shift(x, y[0])],
                name=f"{direction}, broadcast",
            )
        )
    return made
