"""Contributed operators on floats: activations, products, normalisations, and others.

ONNX Runtime is their only oracle. Types that its CPU build has no kernels for, and inputs that its
kernels refuse though the schema allows them, are compared with an equal case that it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.versions.case import Case, Entry, Request, cases
from tests.versions.model import build
from tests.versions.oracle import ORACLES

DOMAIN = "com.microsoft"
# Of whole formulas in float16 and bfloat16, whose steps are rounded one by one.
NARROW = {"float16": 1e-2, "bfloat16": 6e-2}


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and "float" in value.dtype.name


def _in_float32(request: Request, case: Case) -> Any:
    """Run the case by ONNX Runtime with every float in float32."""
    types = {
        constraint.type_param_str: "tensor(float)"
        for constraint in request.schema.type_constraints
        if "tensor(float)" in constraint.allowed_type_strs
    }
    inputs = [value.astype(np.float32) if _is_float(value) else value for value in case.inputs]
    wide = Case(inputs, case.attributes, outputs=case.outputs, types=types)
    entry = Entry(request.schema, "", "")
    model, values = build(entry, wide, shapes=True)
    found = ORACLES["onnxruntime"](model, values)
    # As of a formula: the test gives them the types of the outputs.
    return [value.astype(np.float64) if _is_float(value) else value for value in found]


def checked(request: Request, found: list[Case], equals: Iterable[Case | None] = ()) -> list[Case]:
    """Give the cases tolerances, and results in float32 where the type is another.

    `equals` are cases that have the same results and that ONNX Runtime runs.
    """
    equals = [*equals, *[None] * len(found)]
    for case, equal in zip(found, equals, strict=False):
        types = {value.dtype.name for value in case.inputs if _is_float(value)}
        narrow = max((NARROW[name] for name in types & set(NARROW)), default=0)
        case.rtol, case.atol = (narrow, narrow) if narrow else (1e-4, 1e-5)
        if types - {"float32"} or equal is not None:
            result = _in_float32(request, equal or case)
            case.expected = lambda *_, result=result: result
        else:
            case.oracle = "onnxruntime"
    return found


@cases("BiasGelu", "FastGelu", "Gelu", "QuickGelu", domain=DOMAIN)
def gelu(request: Request) -> list[Case]:
    x, bias = request.random("T", (2, 3, 4)), request.random("T", (4,))
    found = [Case([x, bias])] if request.op == "BiasGelu" else [Case([x])]
    if request.op == "FastGelu":
        found.append(Case([x, bias], name="bias"))
    if request.op == "QuickGelu":
        found.append(Case([x], {"alpha": 1.25}, name="alpha"))
    return checked(request, found)


@cases("FusedConv", domain=DOMAIN)
def fused_conv(request: Request) -> list[Case]:
    x, w = request.random("T", (1, 4, 5, 5)), request.random("T", (6, 2, 3, 3), -0.5, 0.5)
    bias, rest = request.random("T", (6,)), request.random("T", (1, 6, 3, 3))
    groups = {"group": 2}
    found = []
    for name, params in {
        "Relu": None,
        "Sigmoid": None,
        "Tanh": None,
        "HardSwish": None,
        "LeakyRelu": [0.25],
        "Clip": [-0.5, 0.75],
        "HardSigmoid": [0.25, 0.375],
    }.items():
        attributes = {"activation": name, **groups}
        if params:
            attributes["activation_params"] = params
        found.append(Case([x, w, bias], attributes, name=name))
        found.append(Case([x, w, bias, rest], attributes, name=f"{name} after a sum"))
    window = {"activation": "Relu", "strides": [2, 2], "auto_pad": "SAME_UPPER", **groups}
    found.append(Case([x, w, None, rest], window, name="no bias"))
    return checked(request, found)


@cases("FusedGemm", domain=DOMAIN)
def fused_gemm(request: Request) -> list[Case]:
    a, b, c = (request.random("T", shape) for shape in ((2, 3), (3, 4), (4,)))
    parameters = {"activation_alpha": 0.5, "activation_beta": 0.75, "activation_gamma": 1.25}
    names = ["Elu", "HardSigmoid", "LeakyRelu", "ParametricSoftplus", "Relu", "ScaledTanh", "Selu"]
    names += ["Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu"]
    if "int" in request.type("T"):
        found = [Case([a, b, c], {"activation": "Relu"})]
        found[0].expected = [np.maximum(a @ b + c, 0)]
        return found
    factors = {"alpha": 0.5, "beta": 2.0}
    found = [
        Case([a, b, c], {"activation": name, **parameters, **factors}, name=name) for name in names
    ]
    swapped = {"activation": "Relu", "transA": 1, "transB": 1}
    found.append(Case([a.T.copy(), b.T.copy()], swapped, name="transposed"))
    return checked(request, found)


@cases("FusedMatMul", domain=DOMAIN)
def fused_matmul(request: Request) -> list[Case]:
    both, rows = {"transA": 1, "transB": 1}, {"transBatchA": 1}
    return checked(
        request,
        [
            Case([request.random("T", a), request.random("T", b)], attributes, name=str(attributes))
            for a, b, attributes in (
                ((2, 3), (3, 4), {}),
                ((3, 2), (4, 3), {**both, "alpha": 0.5}),
                ((2, 1, 3, 4), (5, 4, 3), {}),
                ((3, 2, 5, 4), (2, 5, 4, 6), rows),
                ((4, 2, 5, 3), (2, 5, 4, 6), {**rows, "transA": 1}),
                ((2, 5, 3, 4), (4, 2, 5, 6), {"transBatchB": 1}),
                ((2, 5, 3, 4), (6, 2, 5, 4), {"transBatchB": 1, "transB": 1}),
                ((5, 4, 3), (4, 6), {"transA": 1}),
                ((3,), (3, 4), {}),
                ((2, 3), (3,), {"alpha": 2.0}),
            )
        ],
    )


@cases("LayerNormalization", "SimplifiedLayerNormalization", domain=DOMAIN)
def layer_normalization(request: Request) -> list[Case]:
    if request.type("U") == "tensor(double)":
        request.having({"T": "tensor(double)", "V": "tensor(double)"})
    simplified = request.op.startswith("Simplified")
    found = []
    for axis, size in ((-1, (4,)), (1, (3, 4))):
        x, scale = request.random("T", (2, 3, 4)), request.random("V", size)
        stash = 11 if request.type("U") == "tensor(double)" else 1
        attributes = {"axis": axis, "epsilon": 1e-3, "stash_type": stash}
        types = {name: request.type(name) for name in "TUV"}
        inputs = [x, scale] if simplified else [x, scale, request.random("V", size)]
        case = Case(inputs, attributes, types=types)
        axes = (2,) if axis == -1 else (1, 2)
        # ONNX Runtime knows them in the default domain alone.
        wide = [value.astype(np.float64) for value in inputs]
        mean = 0 if simplified else wide[0].mean(axes, keepdims=True)
        deviation = 1 / np.sqrt(((wide[0] - mean) ** 2).mean(axes, keepdims=True) + 1e-3)
        y = (wide[0] - mean) * deviation * wide[1]
        case.expected = [y, deviation] if simplified else [y + wide[2], mean, deviation]
        narrow = max(NARROW.get(value.dtype.name, 1e-5) for value in inputs)
        case.rtol = case.atol = narrow
        found.append(case)
    return found


@cases("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_normalization(request: Request) -> list[Case]:
    x, scale, shift, bias = (request.random("T", s) for s in ((2, 3, 4), (4,), (4,), (4,)))
    simplified = "Simplified" in request.op
    found = []
    for skip_shape in ((2, 3, 4), (1, 3, 4), (3, 4)):
        skip = request.random("T", skip_shape)
        # ONNX Runtime leaves the mean of the simplified form unwritten.
        wanted = [True, not simplified, True, True]
        for inputs in (
            ([x, skip, scale], [x, skip, scale, bias])
            if simplified
            else ([x, skip, scale], [x, skip, scale, shift], [x, skip, scale, None, bias])
        ):
            attributes = {"epsilon": 1e-5}
            found.append(Case(inputs, attributes, outputs=wanted, name=f"{len(inputs)} inputs"))
            found.append(Case(inputs, attributes, outputs=1, name="one output"))
    return checked(request, found)


@cases("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(request: Request) -> list[Case]:
    ids, segments = request.random("T1", (2, 3), 0, 6), request.random("T1", (2, 3), 0, 1)
    words, positions, kinds = (request.random("T", (n, 4)) for n in (7, 5, 2))
    scale, shift = request.random("T", (4,)), request.random("T", (4,))
    mask = np.array([[1, 0, 1], [1, 1, 0]], np.int32)
    tables = [words, positions]
    epsilon, one = {"epsilon": 1e-5}, [True, False, False]
    found = [
        Case([ids, segments, *tables, kinds, scale, shift], epsilon, name="segments"),
        Case([ids, None, *tables, None, scale, shift, mask], epsilon, name="mask"),
        Case([ids, None, *tables, None, scale, shift], epsilon, outputs=one, name="one output"),
    ]
    for at in ([[2, 1, 0], [0, 3, 4]], [[4, 1, 0]]):
        given = np.array(at, np.int32)
        inputs = [ids, segments, *tables, kinds, scale, shift, mask, given]
        found.append(Case(inputs, epsilon, name=f"{len(at)} rows of positions"))
    return checked(request, found)


@cases("Inverse", domain=DOMAIN)
def inverse(request: Request) -> list[Case]:
    x = request.random("T", (2, 4, 4)) + (4 * np.eye(4)).astype(request.dtype("T"))
    return checked(request, [Case([x]), Case([x[0]], name="one"), Case([x[:0]], name="none")])


@cases("Trilu", domain=DOMAIN)
def trilu(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    found = []
    for upper, keep in ((1, np.triu), (0, np.tril)):
        for k in (None, -1, 1):
            inputs = [x] if k is None else [x, np.array(k, np.int64)]
            found.append(Case(inputs, {"upper": upper}, name=f"{upper} {k}"))
            found[-1].expected = [np.where(keep(np.ones((3, 4)), k or 0), x, np.zeros_like(x))]
    return found


@cases("Unique", domain=DOMAIN)
def unique(request: Request) -> list[Case]:
    values = request.random("T", (4,))
    x = values[[2, 1, 1, 3, 0, 3, 2]]
    seen: list[Any] = []
    for item in x.tolist():
        if item not in seen:
            seen.append(item)
    places = [seen.index(item) for item in x.tolist()]
    first = [places.index(i) for i in range(len(seen))]
    return [Case([x], expected=[x[first], np.array(places), np.bincount(places)])]


@cases("Pad", domain=DOMAIN)
def pad(request: Request) -> list[Case]:
    x, value = request.random("T", (3, 4)), request.random("T", (1,))
    amounts = np.array([0, 1, 2, 1], np.int64)
    found = [
        Case([x, amounts], {"mode": mode}, name=mode)
        for mode in ("constant", "reflect", "edge", "wrap")
    ]
    found.append(Case([x, amounts[None], value], name="a row of amounts, a value"))
    found.append(Case([x, np.array([-1, 0, 0, -1], np.int64), value[0]], name="cut"))
    return checked(request, found)


@cases("ExpandDims", domain=DOMAIN)
def expand_dims(request: Request) -> list[Case]:
    x = request.random("T", (2, 3))
    return [
        Case(
            [x, np.array(axis, np.int32)],
            initializers=[1],
            expected=[np.expand_dims(x, axis)],
            name=str(axis),
        )
        for axis in (-3, -1, 0, 1, 2)
    ]


@cases("NhwcMaxPool", domain=DOMAIN)
def nhwc_max_pool(request: Request) -> list[Case]:
    x = request.random("T", (2, 7, 6, 3), 0, 99)
    half = {"strides": [2, 2]}
    return [
        Case(
            [x], {"kernel_shape": [3, 2], **attributes}, oracle="onnxruntime", name=str(attributes)
        )
        for attributes in (
            {},
            {"pads": [1, 1, 1, 0]},
            half,
            {**half, "auto_pad": "SAME_UPPER"},
            {"dilations": [2, 1]},
            {**half, "ceil_mode": 1},
        )
    ]


@cases("GridSample", domain=DOMAIN)
def grid_sample(request: Request) -> list[Case]:
    if request.varied == "T2":
        request.having({"T1": request.type("T2")})
    request.having({"T2": request.type("T1")})
    x, grid = request.random("T1", (2, 2, 4, 5), 0), request.random("T1", (2, 3, 3, 2), -1, 1)
    if x.dtype.kind not in "f":
        note = (
            "image and grid have one type; a grid that is no float names no places and is refused"
        )
        return [Case([x, grid], refused="the grid holds floats", note=note)]
    types = {"T1": request.type("T1"), "T2": request.type("T1")}
    return checked(
        request,
        [
            Case(
                [x, grid],
                {"mode": mode, "padding_mode": padding, "align_corners": corners},
                types=types,
                name=f"{mode} {padding} {corners}",
            )
            for mode in ("bilinear", "nearest", "bicubic")
            for padding in ("zeros", "border", "reflection")
            for corners in (0, 1)
        ],
    )


# ONNX Runtime has them on CUDA alone.
@cases("Irfft", "Rfft", domain=DOMAIN)
def real_fourier(request: Request) -> list[Case]:
    found = []
    for axes in (1, 2):
        if request.op == "Rfft":
            x = request.random("T", (3, 4, 8))
            found.append(Case([x], {"signal_ndim": axes}, name=str(axes)))
            y = np.fft.rfftn(x.astype(np.float64), axes=range(3 - axes, 3))
            found[-1].expected = [np.stack([y.real, y.imag], -1)]
        else:
            # A half spectrum of a real signal.
            signal = np.fft.rfftn(request.rng.uniform(-1, 1, (3, 4, 8)), axes=range(3 - axes, 3))
            x = np.stack([signal.real, signal.imag], -1).astype(request.dtype("T"))
            found.append(Case([x], {"signal_ndim": axes}, name=str(axes)))
            wide = x.astype(np.float64)
            y = np.fft.irfftn(wide[..., 0] + 1j * wide[..., 1], axes=range(3 - axes, 3))
            found[-1].expected = [y]
        narrow = NARROW.get(request.dtype("T").name, 1e-4)
        found[-1].rtol = found[-1].atol = narrow
    return found
