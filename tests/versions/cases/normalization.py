"""Normalisations, in every version, by their formulas in float64."""

import numpy as np

from tests.versions.case import Case, Request, cases


def _columns(a: np.ndarray, rank: int) -> np.ndarray:
    """A vector of channels, shaped to broadcast against [N, C, ...]."""
    return a.astype(np.float64).reshape(1, -1, *[1] * (rank - 2))


def _normalized(epsilon: float):
    """The formula of BatchNormalization by given moments."""

    def formula(x, scale, bias, mean, var):
        y = (x.astype(np.float64) - _columns(mean, x.ndim)) / np.sqrt(
            _columns(var, x.ndim) + epsilon
        )
        return [(y * _columns(scale, x.ndim) + _columns(bias, x.ndim)).astype(x.dtype)]

    return formula


def _normalized_by_element(x, scale, bias, mean, var):
    wide = [a.astype(np.float64) for a in (x, scale, bias, mean, var)]
    y = (wide[0] - wide[3]) / np.sqrt(wide[4] + 1e-5) * wide[1] + wide[2]
    return [y.astype(x.dtype)]


def _normalized_in_training(x, scale, bias, mean, var):
    wide, momentum = x.astype(np.float64), 0.75
    axes = tuple(i for i in range(x.ndim) if i != 1)
    batch = wide.mean(axes), wide.var(axes)
    running = [
        (old.astype(np.float64) * momentum + new * (1 - momentum)).astype(mean.dtype)
        for old, new in zip((mean, var), batch, strict=True)
    ]
    return [*_normalized(1e-5)(x, scale, bias, *batch), *running]


@cases("BatchNormalization")
def batch_normalization(request: Request) -> list[Case]:
    types = {c.type_param_str for c in request.schema.type_constraints}
    channels = 3
    scale_type = "T1" if "T1" in types else "T"
    moments_type = "T2" if "T2" in types else "U" if "U" in types else "T"
    x = request.random("T", (2, channels, 4))
    parameters = [request.random(scale_type, (channels,)), request.random(scale_type, (channels,))]
    mean = request.random(moments_type, (channels,))
    var = request.random(moments_type, (channels,), low=1, high=2)
    inputs = [x, *parameters, mean, var]
    rtol = None if min(a.dtype.itemsize for a in (x, mean, parameters[0])) > 2 else 2e-2
    old = {"consumed_inputs": [0, 0, 0, 1, 1]} if request.version == 1 else {}
    test = {**old, "is_test": 1} if request.version < 7 else old
    made = []

    def add(name, attributes, expected, inputs=inputs, outputs=1):
        made.append(
            Case(
                inputs,
                attributes,
                outputs=outputs,
                expected=expected,
                rtol=rtol,
                atol=rtol,
                name=name,
            )
        )

    add("", test, _normalized(1e-5))
    add("epsilon", {**test, "epsilon": 0.5}, _normalized(0.5))
    if request.version < 7:
        add("is_test left out", old, _normalized(1e-5))
    if request.version < 9:
        # Without `spatial` every element of a sample has parameters of its own.
        shape = x.shape[1:]
        each = [x, *(request.random("T", shape) for _ in range(3))]
        each.append(request.random("T", shape, low=1, high=2))
        add("not spatial", {**test, "spatial": 0}, _normalized_by_element, each)
    if request.version >= 14:
        training = {"training_mode": 1, "momentum": 0.75}
        add("training", training, _normalized_in_training, outputs=3)
    return made


@cases("InstanceNormalization")
def instance_normalization(request: Request) -> list[Case]:
    def expected(x, scale, bias):
        wide = x.astype(np.float64)
        axes = tuple(range(2, x.ndim))
        y = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
        return [(y * _columns(scale, x.ndim) + _columns(bias, x.ndim)).astype(x.dtype)]

    made = []
    for shape in ((2, 3, 8), (1, 2, 3, 4)):
        x = request.random("T", shape)
        parameters = [request.random("T", (shape[1],)), request.random("T", (shape[1],))]
        loose = None if x.dtype.itemsize > 2 else 2e-2
        made.append(
            Case([x, *parameters], expected=expected, rtol=loose, atol=loose, name=str(shape))
        )
        if request.version == 1:
            made.append(
                Case(
                    [x, *parameters],
                    {"consumed_inputs": [0]},
                    expected=expected,
                    rtol=loose,
                    atol=loose,
                    name=f"{shape} consumed",
                )
            )
    return made


@cases("GroupNormalization")
def group_normalization(request: Request) -> list[Case]:
    groups, channels = 2, 4
    parameters = groups if request.version < 21 else channels
    x = request.random("T", (2, channels, 3, 2))
    scale, bias = request.random("T", (parameters,)), request.random("T", (parameters,))
    loose = None if x.dtype.itemsize > 2 else 2e-2

    def expected(x, scale, bias):
        wide = x.astype(np.float64).reshape(2, groups, -1)
        y = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
        y = y.reshape(x.shape)
        repeat = channels // parameters
        s, b = (np.repeat(a.astype(np.float64), repeat) for a in (scale, bias))
        return [(y * _columns(s, 4) + _columns(b, 4)).astype(x.dtype)]

    return [
        Case([x, scale, bias], {"num_groups": groups}, expected=expected, rtol=loose, atol=loose),
        Case([x, scale, bias], {"num_groups": 3}, refused="4 channels cannot be cut into 3 groups"),
    ]


@cases("LayerNormalization")
def layer_normalization(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    loose = None if x.dtype.itemsize > 2 else 2e-2
    stash = {"tensor(float)": 1, "tensor(bfloat16)": 16}[request.type("U")]
    made = []
    for axis in (-1, 1):
        shape = x.shape[axis:]

        def expected(x, scale, bias=None, axis=axis):
            wide = x.astype(np.float64)
            axes = tuple(range(axis % x.ndim, x.ndim))
            mean = wide.mean(axes, keepdims=True)
            inverse = 1 / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
            y = (wide - mean) * inverse * scale.astype(np.float64)
            y = y + (bias.astype(np.float64) if bias is not None else 0)
            return [y.astype(x.dtype), *[a.astype(request.dtype("U")) for a in (mean, inverse)]]

        rough = loose if stash == 1 else 5e-2
        made.append(
            Case(
                [x, request.random("T", shape), request.random("T", shape)],
                {"axis": axis, "stash_type": stash},
                outputs=3,
                expected=expected,
                rtol=rough,
                atol=rough,
                name=f"axis {axis}",
            )
        )
        if stash == 1:
            made.append(
                Case(
                    [x, request.random("T", shape)],
                    {"axis": axis},
                    outputs=3,
                    expected=expected,
                    rtol=rough,
                    atol=rough,
                    name=f"axis {axis}, no bias",
                )
            )
    return made


@cases("LpNormalization")
def lp_normalization(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    loose = None if x.dtype.itemsize > 2 else 2e-2

    def expected(p, axis):
        def formula(x):
            wide = x.astype(np.float64)
            norm = (
                np.abs(wide).sum(axis, keepdims=True)
                if p == 1
                else np.sqrt((wide * wide).sum(axis, keepdims=True))
            )
            return [(wide / norm).astype(x.dtype)]

        return formula

    made = [Case([x], expected=expected(2, -1), rtol=loose)]
    for p in (1, 2):
        made.append(
            Case([x], {"p": p, "axis": 1}, expected=expected(p, 1), rtol=loose, name=f"p {p}")
        )
    return made


@cases("MeanVarianceNormalization")
def mean_variance_normalization(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4, 3))
    loose = None if x.dtype.itemsize > 2 else 2e-2

    def expected(axes):
        def formula(x):
            wide = x.astype(np.float64)
            centred = wide - wide.mean(axes, keepdims=True)
            deviation = np.sqrt(
                (wide**2).mean(axes, keepdims=True) - wide.mean(axes, keepdims=True) ** 2
            )
            return [(centred / (deviation + 1e-9)).astype(x.dtype)]

        return formula

    return [
        Case([x], expected=expected((0, 2, 3)), rtol=loose, atol=loose),
        Case([x], {"axes": [1, 2]}, expected=expected((1, 2)), rtol=loose, atol=loose, name="axes"),
    ]


@cases("LRN")
def lrn(request: Request) -> list[Case]:
    x = request.random("T", (2, 7, 3, 2))

    def expected(size, alpha=1e-4, beta=0.75, bias=1.0):
        def formula(x):
            wide = x.astype(np.float64)
            squares = np.zeros_like(wide)
            for c in range(x.shape[1]):
                low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + size // 2 + 1)
                squares[:, c] = (wide[:, low:high] ** 2).sum(1)
            return [(wide / (bias + alpha / size * squares) ** beta).astype(x.dtype)]

        return formula

    given = {"alpha": 0.5, "beta": 0.5, "bias": 2.0}
    return [
        Case([x], {"size": 3}, expected=expected(3)),
        Case([x], {"size": 4, **given}, expected=expected(4, **given), name="even size"),
    ]
