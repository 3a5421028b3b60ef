"""RNN, GRU and LSTM. The reference evaluator lacks sequence lengths and most activations, and ONNX
Runtime most types, so that their equations stand here once more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.versions.case import Case, Request, cases

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STANDARD = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
# By alpha and beta; the default of these follows.
ACTIVATIONS: dict[str, tuple[Callable[..., Any], float | None, float | None]] = {
    "Sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), None, None),
    "Tanh": (lambda x, a, b: np.tanh(x), None, None),
    "Relu": (lambda x, a, b: np.maximum(x, 0), None, None),
    "Softsign": (lambda x, a, b: x / (1 + abs(x)), None, None),
    "Softplus": (lambda x, a, b: np.log1p(np.exp(x)), None, None),
    "LeakyRelu": (lambda x, a, b: np.where(x < 0, a * x, x), 0.01, None),
    "ThresholdedRelu": (lambda x, a, b: np.where(x > a, x, 0), 1.0, None),
    "Elu": (lambda x, a, b: np.where(x < 0, a * np.expm1(x), x), 1.0, None),
    "Affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
}


def _functions(names: list[str], alphas: list[float], betas: list[float], clip: float) -> list:
    """Make the activations, which take their parameters off the lists in order."""
    alphas, betas, found = list(alphas), list(betas), []
    for name in names:
        function, alpha, beta = ACTIVATIONS[name]
        alpha = alphas.pop(0) if alpha is not None and alphas else alpha
        beta = betas.pop(0) if beta is not None and betas else beta
        found.append(lambda x, f=function, a=alpha, b=beta: f(np.clip(x, -clip, clip), a, b))
    return found


def _rnn(x, h, c, w, r, b, p, f, options):
    return f[0](x @ w.T + h @ r.T + b[0] + b[1]), c


def _gru(x, h, c, w, r, b, p, f, options):
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    (bz, br, bh), (sz, sr, sh) = np.split(b[0], 3), np.split(b[1], 3)
    update = f[0](x @ wz.T + h @ rz.T + bz + sz)
    reset = f[0](x @ wr.T + h @ rr.T + br + sr)
    if options.get("linear_before_reset"):
        state = reset * (h @ rh.T + sh)
    else:
        state = (reset * h) @ rh.T + sh
    return (1 - update) * f[1](x @ wh.T + state + bh) + update * h, c


def _lstm(x, h, c, w, r, b, p, f, options):
    gates = np.split(x @ w.T + h @ r.T + b[0] + b[1], 4)
    peep_i, peep_o, peep_f = np.split(p, 3)
    i = f[0](gates[0] + peep_i * c)
    forget = 1 - i if options.get("input_forget") else f[0](gates[2] + peep_f * c)
    c = forget * c + i * f[1](gates[3])
    return f[0](gates[1] + peep_o * c) * f[2](c), c


STEPS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def _expected(op: str, options: dict[str, Any], outputs: int) -> Callable[..., list[np.ndarray]]:
    def compute(x, w, r, b=None, lengths=None, h0=None, c0=None, p=None):
        if options.get("layout"):
            x, h0, c0 = (v if v is None else np.swapaxes(v, 0, 1) for v in (x, h0, c0))
        x, w, r = (v.astype(np.float64) for v in (x, w, r))
        directions, hidden, (steps, batch, _) = len(w), r.shape[2], x.shape
        zeros = np.zeros((directions, batch, hidden))
        h, c = (zeros.copy() if v is None else v.astype(np.float64) for v in (h0, c0))
        width = GATES[op] * hidden
        b = np.zeros((directions, 2 * width)) if b is None else b.astype(np.float64)
        p = np.zeros((directions, 3 * hidden)) if p is None else p.astype(np.float64)
        lengths = [steps] * batch if lengths is None else lengths
        names = options.get("activations", STANDARD[op] * directions)
        parameters = options.get("activation_alpha", []), options.get("activation_beta", [])
        functions = _functions(names, *parameters, options.get("clip", np.inf))
        y = np.zeros((steps, directions, batch, hidden))
        for d in range(directions):
            f = functions[d * len(STANDARD[op]) :]
            halves = b[d, :width], b[d, width:]
            for n, length in enumerate(lengths):
                order = range(length)
                if d == 1 or options.get("direction") == "reverse":
                    order = reversed(order)
                for t in order:
                    h[d, n], c[d, n] = STEPS[op](
                        x[t, n], h[d, n], c[d, n], w[d], r[d], halves, p[d], f, options
                    )
                    y[t, d, n] = h[d, n]
        results = [y, h, c]
        if options.get("layout"):
            results = [y.transpose(2, 0, 1, 3), *(np.swapaxes(v, 0, 1) for v in (h, c))]
        return results[:outputs]

    return compute


@cases("RNN", "GRU", "LSTM")
def recurrent(request: Request) -> list[Case]:
    op = request.op
    outputs = 3 if op == "LSTM" else 2

    def make(name: str, options: dict[str, Any], *, directions: int = 1, full: bool = True) -> Case:
        hidden, rows = 3, 3 * GATES[op]
        shapes = [(4, 2, 5), (directions, rows, 5), (directions, rows, hidden)]
        inputs: list[Any] = [request.random("T", shape, -1, 1) for shape in shapes]
        if full:
            inputs.append(request.random("T", (directions, 2 * rows), -1, 1))
            inputs.append(np.array([4, 2], np.int32))
            inputs.append(request.random("T", (directions, 2, hidden), -1, 1))
        if full and op == "LSTM":
            inputs.append(request.random("T", (directions, 2, hidden), -1, 1))
            inputs.append(request.random("T", (directions, 3 * hidden), -1, 1))
        if options.get("layout"):
            for position in (0, 5, 6):
                if position < len(inputs):
                    inputs[position] = np.swapaxes(inputs[position], 0, 1).copy()
        attributes = {"hidden_size": hidden} | options
        expected = _expected(op, options, outputs)
        if request.version == 1 and op != "LSTM":
            attributes["output_sequence"] = 1
        # No release of the standard had opset 3.
        opset = 6 if request.version == 3 else None
        return Case(inputs, attributes, outputs=outputs, expected=expected, name=name, opset=opset)

    names = STANDARD[op]
    found = [
        make("bare", {}, full=False),
        make("all inputs", {}),
        make("reverse", {"direction": "reverse"}),
        make("both directions", {"direction": "bidirectional"}, directions=2),
        make("clip", {"clip": 0.25}),
        make("activations", {"activations": ["Relu", "Softsign", "Softplus"][: len(names)]}),
    ]
    for name, (_, alpha, beta) in ACTIVATIONS.items():
        if alpha is None:
            continue
        own = {"activations": [name] * len(names)}
        found.append(make(f"{name} by default", own))
        given = own | {"activation_alpha": [0.25, 0.75, 0.5][: len(names)]}
        if beta is not None:
            given["activation_beta"] = [0.125, 0.375, 0.625][: len(names)]
        found.append(make(name, given))
    if op == "GRU" and request.version >= 3:
        found.append(make("linear before reset", {"linear_before_reset": 1}))
    if op == "LSTM":
        found.append(make("input and forget", {"input_forget": 1}))
    if request.version >= 14:
        found.append(make("batch first", {"layout": 1}))
        both = {"layout": 1, "direction": "bidirectional"}
        found.append(make("batch first, both directions", both, directions=2))
    return found
