"""Operators of the standard that quantise, and products of quantised operands."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.element_types import data_type

FLOATS8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


def limits(dtype: np.dtype) -> tuple[int, int]:
    """Least and largest number of an integer type."""
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def zeros_of(request: Request, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Zero points: other than zero for integers alone."""
    if "float" in dtype.name or dtype == np.int32:
        return np.zeros(shape, dtype)
    return request.random(dtype, shape)


def scales_of(request: Request, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == np.int32:
        return request.rng.integers(1, 4, shape).astype(dtype)
    # Powers of two: no quotient lies so near a tie that one rounding more moves it.
    return np.asarray(np.exp2(request.rng.integers(-3, 1, shape)).astype(np.float32).astype(dtype))


def real(request: Request, shape: tuple[int, ...], scale: np.dtype) -> np.ndarray:
    """Numbers that the type of the scale holds as well: the division is in that type."""
    dtype = request.dtype("T1")
    if dtype == np.int32:
        return request.rng.integers(-300, 300, shape).astype(dtype)
    x = request.random(dtype, shape, -9, 9)
    x.flat[:2] = [2000, -2000]
    return x.astype(scale).astype(dtype) if scale in (np.float16, ml_dtypes.bfloat16) else x


def ways(request: Request) -> list[tuple[dict, tuple[int, ...]]]:
    """Attributes, and the shape of scales, for an input [3, 4, 5]."""
    found: list[tuple[dict, tuple[int, ...]]] = [({}, ()), ({}, (1,))]
    if request.version >= 13:
        found += [({}, (4,)), ({"axis": -1}, (5,)), ({"axis": 0}, (3,))]
    if request.version >= 21:
        found += [
            ({"axis": 1, "block_size": 2}, (3, 2, 5)),
            ({"axis": -1, "block_size": 3}, (3, 4, 2)),
        ]
    return found


@cases("QuantizeLinear")
def quantize(request: Request) -> list[Case]:
    parameters = [c.type_param_str for c in request.schema.type_constraints]
    scale, quantized = ("T2", "T3") if "T3" in parameters else ("T1", "T2")
    dtype = request.dtype(quantized)
    scale_dtype = request.dtype(scale)
    if request.version < 19:  # scales are of type float, whatever x is
        scale_dtype = np.dtype(np.float32)
    found = []
    for attributes, shape in ways(request):
        if "block_size" not in attributes and request.dtype("T1") == np.int32 and shape == (1,):
            continue
        x = real(request, (3, 4, 5), scale_dtype)
        inputs = [x, scales_of(request, scale_dtype, shape), zeros_of(request, dtype, shape)]
        found.append(Case(inputs, attributes, name=f"scales {shape}"))
        if request.version >= 21:
            without = {**attributes, "output_dtype": data_type(dtype)}
            found.append(Case(inputs[:2], without, name=f"scales {shape}, output_dtype"))
    vector = [real(request, (6,), scale_dtype), scales_of(request, scale_dtype, ())]
    if request.varied != quantized or dtype == np.uint8:
        found.append(Case(vector, name="no zero point"))
    if dtype.name in FLOATS8:
        found.append(
            Case(
                [*vector, np.zeros((), dtype)],
                {"saturate": 0},
                # As Cast without saturation: ml_dtypes casts so.
                expected=lambda x, scale, zero: [
                    (x.astype(scale.dtype) / scale).astype(np.float32).astype(zero.dtype)
                ],
                name="not saturated",
            )
        )
    if request.version >= 23:
        for precision in (1, 10, 16):
            attributes = {"precision": precision, "output_dtype": data_type(dtype)}
            x = real(request, (6,), scale_dtype)[2:]
            inputs = [x, scales_of(request, scale_dtype, ())]
            found.append(Case(inputs, attributes, name=f"precision {precision}"))
    return found


@cases("DequantizeLinear")
def dequantize(request: Request) -> list[Case]:
    names = [c.type_param_str for c in request.schema.type_constraints]
    quantized = "T1" if "T1" in names else "T"
    dtype = request.dtype(quantized)
    scale_dtype = request.dtype("T2") if "T2" in names else np.dtype(np.float32)
    output = {}
    if "T3" in names and (request.varied == "T3" or scale_dtype.name == "float8_e8m0fnu"):
        output = {"output_dtype": data_type(request.dtype("T3"))}
    found = []
    for attributes, shape in ways(request):
        x = request.random(dtype, (3, 4, 5))
        inputs = [x, scales_of(request, scale_dtype, shape), zeros_of(request, dtype, shape)]
        found.append(Case(inputs, {**attributes, **output}, name=f"scales {shape}"))
        name = f"scales {shape}, no zero point"
        found.append(Case(inputs[:2], {**attributes, **output}, name=name))
    return found


@cases("DynamicQuantizeLinear")
def dynamic_quantize(request: Request) -> list[Case]:
    x = request.random("T1", (3, 4))
    note = "scale of zeros alone: 1/255 as the reference evaluator; the function body divides by 0"
    return [
        Case([x]),
        Case([np.abs(x)], name="positive"),
        Case([-np.abs(x) - 1], name="negative"),
        Case([np.zeros(3, x.dtype)], name="zeros", note=note),
    ]


def operand(request: Request, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if "float" in dtype.name:
        return request.random(dtype, shape)
    low, high = limits(dtype)
    return request.rng.integers(low, high + 1, shape).astype(dtype)


def wide(x: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) - zero_point.astype(np.float64)


def requantized(real_product: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """Round half to even, then the zero point, then saturation; small floats are cast."""
    if "float" in zero_point.dtype.name:
        info = ml_dtypes.finfo(zero_point.dtype)
        bounded = np.clip(real_product, float(info.min), float(info.max))
        return bounded.astype(np.float32).astype(zero_point.dtype)
    low, high = limits(zero_point.dtype)
    return np.clip(np.rint(real_product) + wide(zero_point, np.zeros(())), low, high).astype(
        zero_point.dtype
    )


def linear_product(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    """y = (a - a_zero) (b - b_zero) a_scale b_scale / y_scale, quantised."""
    rows = [v[:, None] if v.ndim == 1 and v.size > 1 else v for v in (a_scale, a_zero)]
    rows += [v[:, None] if v.ndim == 1 and v.size > 1 else v for v in (y_scale, y_zero)]
    a_scale, a_zero, y_scale, y_zero = rows
    product = wide(a, a_zero) @ wide(b, b_zero)
    factor = a_scale.astype(np.float32) * b_scale.astype(np.float32) / y_scale.astype(np.float32)
    return [requantized(product * factor, y_zero)]


@cases("QLinearMatMul")
def linear_matmul(request: Request) -> list[Case]:
    types = [request.dtype(name) for name in ("T1", "T2", "T3")]
    named = {}
    if any("float" in dtype.name for dtype in types):  # integers and floats do not mix
        types = [request.dtype(request.varied)] * 3
        named = {name: request.type(request.varied) for name in ("T1", "T2", "T3")}
    scale = request.dtype("TS") if request.version >= 21 else np.dtype(np.float32)

    def parameters(dtype, shape, value):
        scales = np.full(shape, value).astype(scale)
        return [scales, zeros_of(request, dtype, shape)]

    found = []
    for name, shapes in {
        "tensors": ((), (), ()),
        "rows and columns": ((3,), (5,), ()),
    }.items():
        a = operand(request, types[0], (3, 4))
        b = operand(request, types[1], (4, 5))
        inputs = [a, *parameters(types[0], shapes[0], 0.125)]
        inputs += [b, *parameters(types[1], shapes[1], 0.25)]
        inputs += parameters(types[2], shapes[2], 4)
        # The reference evaluator adds the zero point before it rounds, and has no small floats.
        found.append(Case(inputs, expected=linear_product, name=name, types=named))
    batch = [operand(request, types[0], (2, 3, 4)), *parameters(types[0], (), 0.125)]
    batch += [operand(request, types[1], (2, 4, 5)), *parameters(types[1], (), 0.25)]
    batch += parameters(types[2], (), 4)
    return [*found, Case(batch, expected=linear_product, name="batch", types=named)]


@cases("MatMulInteger")
def matmul_integer(request: Request) -> list[Case]:
    a = operand(request, request.dtype("T1"), (3, 4))
    b = operand(request, request.dtype("T2"), (4, 5))
    a_zero, b_zero = (zeros_of(request, x.dtype, ()) for x in (a, b))
    rows, columns = zeros_of(request, a.dtype, (3,)), zeros_of(request, b.dtype, (5,))
    # The reference evaluator does not know that a vector belongs to the rows.
    expected = [((wide(a, rows[:, None])) @ wide(b, columns)).astype(np.int32)]
    return [
        Case([a, b], name="no zero points"),
        Case([a, b, a_zero], name="zero point of a"),
        Case([a, b, None, b_zero], name="zero point of b"),
        Case([a, b, rows, columns], expected=expected, name="rows and columns"),
        Case([np.stack([a, a]), b, a_zero, b_zero], name="batch"),
        Case([a[0], b, a_zero, b_zero], name="vector and matrix"),
        Case([a, b[:, 0], a_zero, b_zero], name="matrix and vector"),
    ]


WINDOWS = {
    "plain": {},
    "pads and strides": {"pads": [1, 0, 1, 2], "strides": [2, 1], "kernel_shape": [3, 2]},
    "same": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "dilations": {"dilations": [2, 1]},
}


@cases("ConvInteger")
def conv_integer(request: Request) -> list[Case]:
    x = operand(request, request.dtype("T1"), (2, 4, 7, 6))
    w = operand(request, request.dtype("T2"), (6, 4, 3, 2))
    x_zero, w_zero = (zeros_of(request, v.dtype, ()) for v in (x, w))
    found = [Case([x, w, x_zero, w_zero], a, name=name) for name, a in WINDOWS.items()]
    found.append(Case([x, w], name="no zero points"))
    channels = [x, w, x_zero, zeros_of(request, w.dtype, (6,))]
    found.append(Case(channels, name="zero point a channel"))
    # The reference evaluator and ONNX Runtime agree on groups of integers.
    grouped = [x, w[:, :2].copy(), x_zero, w_zero]
    found.append(Case(grouped, {"group": 2}, name="groups"))
    return found


@cases("QLinearConv")
def linear_conv(request: Request) -> list[Case]:
    types = [request.dtype(name) for name in ("T1", "T2", "T3")]
    x, w = operand(request, types[0], (2, 4, 7, 6)), operand(request, types[1], (6, 4, 3, 2))

    def inputs(w, scales=(), bias=None):
        parts = [x, np.float32(0.125), zeros_of(request, types[0], ())]
        parts += [w, np.full(scales, 0.25, np.float32), zeros_of(request, types[1], scales)]
        parts += [np.float32(16), zeros_of(request, types[2], ())]
        return [np.asarray(part) for part in parts] + ([] if bias is None else [bias])

    bias = request.rng.integers(-500, 500, 6).astype(np.int32)
    # Half a step more or less: the reference evaluator rounds after it adds the zero point.
    found = [Case(inputs(w), a, atol=1, name=name) for name, a in WINDOWS.items()]
    found.append(Case(inputs(w, bias=bias), atol=1, name="bias"))
    found.append(Case(inputs(w, (6,), bias), atol=1, name="scale a channel"))
    found.append(Case(inputs(w[:, :2].copy()), {"group": 2}, atol=1, name="groups"))
    return found
