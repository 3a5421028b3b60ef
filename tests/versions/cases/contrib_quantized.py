"""Quantised operators of com.microsoft. ONNX Runtime is their only oracle.

Where results are integers it may differ by a step: its vector code multiplies by a reciprocal or
adds the zero point before it rounds.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.versions.case import Case, Request, cases

DOMAIN = "com.microsoft"
STEP = {"atol": 1, "rtol": 0}


def codes(request: Request, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Quantised numbers over the whole range of an integer type."""
    if dtype == np.int32:
        return request.rng.integers(-1000, 1000, shape).astype(dtype)
    info = ml_dtypes.iinfo(dtype)
    return np.asarray(request.rng.integers(int(info.min), int(info.max) + 1, shape).astype(dtype))


def weight_codes(request: Request, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Quantised weights, over half the range if they have a sign.

    With others ONNX Runtime's sums of two products saturate on processors of AVX2 alone.
    """
    whole = codes(request, dtype, shape)
    return whole // 2 if dtype == np.int8 else whole


def zero(request: Request, dtype: np.dtype, shape: tuple[int, ...] = ()) -> np.ndarray:
    """Zero points around the middle of the type."""
    middle = 0 if np.dtype(dtype).name.startswith("int") else 2 ** (bits_of(dtype) - 1)
    return np.asarray((request.rng.integers(-2, 2, shape) + middle).astype(dtype))


def bits_of(dtype: np.dtype) -> int:
    return {"int4": 4, "uint4": 4}.get(np.dtype(dtype).name, np.dtype(dtype).itemsize * 8)


def scale(value: float, shape: tuple[int, ...] = ()) -> np.ndarray:
    return np.full(shape, value, np.float32)


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Codes [..., n] as bytes [..., ceil(n bits / 8)], low bits first."""
    per_byte = 8 // bits
    pad = -values.shape[-1] % per_byte
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, pad)])
    groups = values.reshape(*values.shape[:-1], -1, per_byte).astype(np.uint32)
    return (groups << (np.arange(per_byte, dtype=np.uint32) * bits)).sum(-1).astype(np.uint8)


@cases("QuantizeLinear", domain=DOMAIN)
def quantize(request: Request) -> list[Case]:
    real, dtype = request.dtype("T1"), request.dtype("T2")
    x = request.random(real, (3, 4), -9, 9)
    columns = [scale(0.25, (4,)).astype(real), zero(request, dtype, (4,))]
    rows = [scale(0.5, (3,)).astype(real), zero(request, dtype, (3,))]
    found = [
        Case([x, scale(0.125).astype(real), zero(request, dtype)]),
        Case([x, *columns], {"axis": 1}, name="columns"),
        Case([x, *rows], {"axis": 0}, name="rows"),
    ]
    return [by_formula(case, quantized, real, dtype) for case in found]


@cases("DequantizeLinear", domain=DOMAIN)
def dequantize(request: Request) -> list[Case]:
    dtype, real = request.dtype("T1"), request.dtype("T2")
    x = codes(request, dtype, (3, 4))
    none = dtype == np.int32
    found = []
    for name, attributes, shape in (
        ("", {}, ()),
        ("columns", {"axis": 1}, (4,)),
        ("rows", {"axis": 0}, (3,)),
    ):
        inputs = [x, scale(0.25, shape).astype(real)]
        zeros = np.zeros(shape, dtype) if none else zero(request, dtype, shape)
        found.append(Case([*inputs, zeros], attributes, name=name))
        found.append(Case(inputs, attributes, name=f"{name} without zero point"))
    return [by_formula(case, dequantized, real, dtype) for case in found]


def by_formula(case: Case, formula, real: np.dtype, dtype: np.dtype) -> Case:
    """A formula for what ONNX Runtime has not on the CPU, or not as arrays in Python."""
    if real == np.float16 or bits_of(dtype) == 4:
        case.expected = [formula(*case.inputs, **case.attributes)]
    return case


def spread(parameter: np.ndarray, axis: int) -> np.ndarray:
    return parameter[:, None] if parameter.ndim == 1 and axis == 0 else parameter


def quantized(x, scales, zeros, axis=1):
    y = np.rint(x / spread(scales, axis)).astype(np.float32)
    info = ml_dtypes.iinfo(zeros.dtype)
    y = y + spread(zeros, axis).astype(np.float32)
    return np.clip(y, int(info.min), int(info.max)).astype(np.int32).astype(zeros.dtype)


def dequantized(x, scales, zeros=None, axis=1):
    centered = x.astype(np.float32)
    if zeros is not None:
        centered = centered - spread(zeros, axis).astype(np.float32)
    return (centered * spread(scales, axis).astype(np.float32)).astype(scales.dtype)


def matrices(request: Request, left: str, right: str) -> tuple[np.ndarray, np.ndarray]:
    """Operands [3, 8] and [8, 5]; a signed left one takes signed ones alone in ONNX Runtime."""
    a, b = request.dtype(left), request.dtype(right)
    if np.int8 in (a, b) and request.varied in (left, right):
        a = a if request.varied == left else (np.dtype(np.uint8))
        b = b if request.varied == right else np.dtype(np.int8)
    return codes(request, a, (3, 8)), weight_codes(request, b, (8, 5))


@cases("QGemm", domain=DOMAIN)
def gemm(request: Request) -> list[Case]:
    result = request.dtype("TYZ") if request.varied == "TYZ" else request.dtype("TY")
    if request.varied in ("TYZ", "TY"):
        signed = result == np.int8
        a = codes(request, np.dtype(np.int8 if signed else np.uint8), (3, 8))
        b = weight_codes(request, np.dtype(np.int8), (8, 5))
    else:
        a, b = matrices(request, "TA", "TB")
        result = a.dtype
    left = [a, scale(0.125), zero(request, a.dtype)]
    right = [b, scale(0.25), zero(request, b.dtype)]
    columns = [b, np.exp2(request.rng.integers(-3, 0, 5)).astype(np.float32)]
    columns.append(zero(request, b.dtype, (5,)))
    c = request.rng.integers(-500, 500, 5).astype(np.int32)
    real = {"types": {"TY": "tensor(float)"}}
    turned = [a.T.copy(), *left[1:]], [b.T.copy(), *right[1:]]
    found = [
        Case([*left, *right], name="float", **real),
        Case([*left, *right, c], {"alpha": 0.5}, name="float with c", **real),
        Case([*left, *columns, c], name="float, columns", **real),
        Case([*turned[0], *right], {"transA": 1}, name="transA", **real),
        Case([*left, *turned[1]], {"transB": 1}, name="transB", **real),
    ]
    if result != np.float32:
        y = [scale(8), zero(request, result)]
        types = {"types": {"TY": f"tensor({result.name})"}, **STEP}
        found.append(Case([*left, *right, None, *y], name="quantised", **types))
        found.append(Case([*left, *columns, c, *y], name="quantised, columns", **types))
    return found


@cases("QLinearAdd", "QLinearMul", domain=DOMAIN)
def binary(request: Request) -> list[Case]:
    dtype = request.dtype("T")

    def inputs(a, b):
        left = [codes(request, dtype, a), scale(0.05), zero(request, dtype)]
        right = [codes(request, dtype, b), scale(0.07), zero(request, dtype)]
        return [*left, *right, scale(0.1 if request.op == "QLinearAdd" else 0.5)]

    planes, values = (2, 3, 24, 25), (3, 1, 1)
    shapes = {
        "alike": ((3, 40), (3, 40)),
        "vector": ((3, 40), (40,)),
        "scalar": ((), (3, 40)),
        "value a plane": (planes, values),
        "planes behind values": (values, planes),
    }
    found = [
        Case([*inputs(a, b), zero(request, dtype)], name=name, **STEP)
        for name, (a, b) in shapes.items()
    ]
    without = inputs((3, 40), (3, 40))
    without[2] = without[5] = None
    a, b = without[0] * np.float64(0.05), without[3] * np.float64(0.07)
    y = a + b if request.op == "QLinearAdd" else a * b
    # ONNX Runtime refuses to leave out an input before others.
    y = in_steps(y / without[6], dtype)
    return [*found, Case(without, name="no zero points", expected=[y], **STEP)]


def in_steps(y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rounded and bounded to an integer type."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(y), info.min, info.max).astype(dtype)


@cases("QLinearWhere", domain=DOMAIN)
def where(request: Request) -> list[Case]:
    dtype = request.dtype("T")
    x = [codes(request, dtype, (3, 40)), scale(0.05), zero(request, dtype)]
    y = [codes(request, dtype, (40,)), scale(0.07), zero(request, dtype)]
    condition = request.random("B", (3, 1))
    return [Case([condition, *x, *y, scale(0.1), zero(request, dtype)], **STEP)]


@cases("QLinearSigmoid", "QLinearLeakyRelu", domain=DOMAIN)
def unary(request: Request) -> list[Case]:
    dtype = request.dtype("T")
    x = codes(request, dtype, (4, 64))
    y_scale = scale(1 / 256 if request.op == "QLinearSigmoid" else 0.03)
    attributes = [{}] if request.op == "QLinearSigmoid" else [{}, {"alpha": 0.2}]
    inputs = [x, scale(0.04), zero(request, dtype), y_scale]
    found = [Case([*inputs, zero(request, dtype)], a, name=str(a), **STEP) for a in attributes]
    inputs[2] = None
    x = x * np.float64(0.04)
    y = 1 / (1 + np.exp(-x)) if request.op == "QLinearSigmoid" else np.where(x < 0, 0.01 * x, x)
    y = in_steps(y / y_scale, dtype)  # which ONNX Runtime does not survive
    return [*found, Case(inputs, name="no zero points", expected=[y], **STEP)]


@cases("QLinearSoftmax", domain=DOMAIN)
def softmax(request: Request) -> list[Case]:
    dtype = request.dtype("T")
    x = codes(request, dtype, (2, 3, 4))
    y_zero = np.asarray(np.array(0 if dtype == np.uint8 else -128).astype(dtype))
    inputs = [x, scale(0.05), zero(request, dtype), scale(1 / 256), y_zero]
    found = []
    for opset in (12, 13):
        for axis in (1, -1):
            attributes = {"axis": axis, "opset": opset}
            found.append(Case(inputs, attributes, name=f"opset {opset} axis {axis}", **STEP))
    return found


@cases("QLinearConcat", domain=DOMAIN)
def concat(request: Request) -> list[Case]:
    dtype = request.dtype("T8")
    inputs = [scale(0.1), zero(request, dtype)]
    for size, value in ((2, 0.1), (3, 0.05), (1, 0.3)):
        inputs += [codes(request, dtype, (2, size, 4)), scale(value), zero(request, dtype)]
    return [Case(inputs, {"axis": 1}, **STEP), Case(inputs[:5], {"axis": -1}, name="one", **STEP)]


@cases("QLinearGlobalAveragePool", domain=DOMAIN)
def global_pool(request: Request) -> list[Case]:
    dtype = request.dtype("T")
    rest = [scale(0.1), zero(request, dtype), scale(0.03), zero(request, dtype)]
    return [
        Case([codes(request, dtype, (2, 3, 5, 4)), *rest], name="channels second", **STEP),
        Case([codes(request, dtype, (2, 5, 4, 3)), *rest], {"channels_last": 1}, **STEP),
    ]


@cases("QLinearAveragePool", domain=DOMAIN)
def pool(request: Request) -> list[Case]:
    dtype = request.dtype("T")
    rest = [scale(0.1), zero(request, dtype), scale(0.07), zero(request, dtype)]
    kernel = {"kernel_shape": [3, 2]}
    padded = {**kernel, "pads": [1, 0, 1, 1], "strides": [2, 1]}
    ceiled = {**kernel, "strides": [2, 2], "ceil_mode": 1}
    x = codes(request, dtype, (2, 3, 6, 5))
    return [
        Case([x, *rest], kernel, name="plain", **STEP),
        Case([x, *rest], padded, name="pads", **STEP),
        Case([x, *rest], {**padded, "count_include_pad": 1}, name="pads count", **STEP),
        Case([x, *rest], ceiled, name="ceil_mode", **STEP),
        Case([x, *rest], {**kernel, "channels_last": 1}, name="channels last", **STEP),
        Case([x, *rest[:3]], kernel, name="no zero point of y", **STEP),
    ]


@cases("QLinearConv", domain=DOMAIN)
def convolution(request: Request) -> list[Case]:
    signed = request.dtype(request.varied) == np.int8 if request.varied else False
    x_type = np.dtype(np.int8 if signed and request.varied != "T2" else np.uint8)
    w_type = np.dtype(np.int8 if signed else np.uint8)
    x, w = codes(request, x_type, (2, 4, 7, 6)), weight_codes(request, w_type, (6, 4, 3, 2))
    bias = request.rng.integers(-500, 500, 6).astype(np.int32)

    def inputs(x, scales=()):
        parts = [x, scale(0.125), zero(request, x_type)]
        parts += [w, scale(0.25, scales), zero(request, w_type, scales)]
        if scales:  # ONNX Runtime takes one zero point for all channels
            parts[-1] = np.full(scales, parts[-1].flat[0], w_type)
        return [*parts, scale(16), zero(request, x_type)]

    types = {"types": {"T3": f"tensor({x_type.name})"}, **STEP}
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    return [
        Case(inputs(x), name="channels second", **types),
        Case([*inputs(x, (6,)), bias], name="scale a channel", **types),
        Case([*inputs(last), bias], {"channels_last": 1}, name="channels last", **types),
        Case(
            inputs(last),
            {"channels_last": 1, "pads": [1, 0, 1, 1], "strides": [2, 1]},
            name="channels last, pads",
            **types,
        ),
    ]


@cases("MatMulIntegerToFloat", domain=DOMAIN)
def matmul_to_float(request: Request) -> list[Case]:
    a, b = matrices(request, "T1", "T2")
    real = request.dtype("T3")
    bias = request.random(real, (5,))
    columns = np.exp2(request.rng.integers(-3, 0, 5)).astype(real)
    a_scale, b_scale = scale(0.125).astype(real), scale(0.25).astype(real)
    a_zero, b_zero = zero(request, a.dtype), zero(request, b.dtype)
    column_zeros = zero(request, b.dtype, (5,))
    found = [
        Case([a, b, a_scale, b_scale]),
        Case([a, b, a_scale, b_scale, a_zero, b_zero, bias], name="zero points and bias"),
        Case([a, b, a_scale, columns, a_zero, column_zeros], name="columns"),
        Case([np.stack([a, a]), b, a_scale, b_scale, a_zero, b_zero], name="batch"),
    ]
    for case in found:
        if real == np.float16:  # not on the CPU in ONNX Runtime
            case.expected = [float_product(*case.inputs)]
    return found


def float_product(a, b, a_scale, b_scale, a_zero=0, b_zero=0, bias=0):
    product = (a.astype(np.float32) - np.float32(a_zero)) @ (
        b.astype(np.float32) - np.asarray(b_zero, np.float32)
    )
    y = product * a_scale.astype(np.float32) * b_scale.astype(np.float32)
    return (y + np.asarray(bias, np.float32)).astype(a_scale.dtype)


@cases("DynamicQuantizeMatMul", domain=DOMAIN)
def dynamic_matmul(request: Request) -> list[Case]:
    a = request.random(request.dtype("T1"), (3, 8))
    b = weight_codes(request, request.dtype("T2"), (8, 5))
    columns = np.exp2(request.rng.integers(-6, -3, 5)).astype(np.float32)
    bias = request.random(request.dtype("T1"), (5,))
    tolerance = {"rtol": 1e-5, "atol": 1e-4}
    return [
        Case([a, b, scale(0.02)], **tolerance),
        Case([a, b, scale(0.02), zero(request, b.dtype), bias], name="bias", **tolerance),
        Case([a, b, columns, zero(request, b.dtype, (5,))], name="columns", **tolerance),
    ]


@cases("MatMulInteger16", domain=DOMAIN)
def matmul16(request: Request) -> list[Case]:
    types = [request.dtype(name) for name in ("T1", "T2")]
    if request.varied == "T3":
        types = [np.dtype(np.uint16 if request.dtype("T3") == np.uint32 else np.int16)] * 2
    a, b = codes(request, types[0], (3, 8)) // 8, codes(request, types[1], (8, 5)) // 8
    unsigned = types == [np.uint16, np.uint16]
    result = np.dtype(np.uint32 if unsigned else np.int32)
    product = (a.astype(np.int64) @ b.astype(np.int64)).astype(result)
    # ONNX Runtime has int16 by int16 alone.
    expected = [product] if np.uint16 in types else None
    return [Case([a, b], expected=expected, types={"T3": f"tensor({result.name})"})]


@cases("DynamicQuantizeLSTM", domain=DOMAIN)
def lstm(request: Request) -> list[Case]:
    dtype = request.dtype("T2")
    steps, batch, size, hidden = 5, 2, 6, 4
    tolerance = {"rtol": 0, "atol": 1e-5}
    found = []
    for direction, count in (("forward", 1), ("bidirectional", 2)):
        for shape in ((count,), (count, 4 * hidden)):
            w = weight_codes(request, dtype, (count, size, 4 * hidden))
            r = weight_codes(request, dtype, (count, hidden, 4 * hidden))
            # Zero points are those of symmetric weights, the only ones a channel may have.
            zeros = np.full(shape, 0 if dtype == np.int8 else 128, dtype)
            b = request.random(np.dtype(np.float32), (count, 8 * hidden))
            inputs = [request.random(np.dtype(np.float32), (steps, batch, size)), w, r, b]
            inputs += [None, None, None, None, scale(0.005, shape), zeros]
            inputs += [scale(0.005, shape), zeros]
            attributes = {"hidden_size": hidden, "direction": direction}
            name = f"{direction} {len(shape)}"
            found.append(
                Case(inputs, attributes, name=name, initializers=(1, 2, 8, 9, 10, 11), **tolerance)
            )
    return found


@cases("MatMulNBits", domain=DOMAIN)
def matmul_nbits(request: Request) -> list[Case]:
    real, k, n = request.dtype("T1"), 40, 6
    zero_type = request.dtype("T3") if request.varied == "T3" else np.dtype(np.uint8)
    if request.varied == "T3" and zero_type != np.uint8:
        real = zero_type
    found = []
    for bits in (2, 4, 8):
        for size in (16, 32):
            blocks = -(-k // size)
            attributes = {"K": k, "N": n, "bits": bits, "block_size": size}
            values = request.rng.integers(0, 2**bits, (n, blocks, size))
            b = packed(values, bits)
            scales = request.rng.uniform(0.01, 0.1, (n, blocks)).astype(real)
            zeros = request.rng.integers(0, 2**bits, (n, blocks))
            float_zeros = zero_type != np.uint8
            given = zeros.astype(zero_type) if float_zeros else packed(zeros, bits)
            a = request.random(real, (3, k))
            bias = request.random(real, (n,))
            middle = np.full((n, blocks), 2 ** (bits - 1))
            name = f"{bits} bits, blocks of {size}"
            variants = {
                name: ([a, b, scales], middle, 0),
                f"{name}, zero points": ([a, b, scales, given], zeros, 0),
                f"{name}, bias": ([np.stack([a, -a]), b, scales, given, None, bias], zeros, bias),
            }
            for label, (inputs, z, shift) in variants.items():
                weights = (values - z[..., None]) * scales.astype(np.float64)[..., None]
                weights = weights.reshape(n, -1)[:, :k]
                y = inputs[0].astype(np.float64) @ weights.T + np.asarray(shift, np.float64)
                # ONNX Runtime has no bfloat16 on the CPU, few sizes with float zero points,
                # and computes float16 with sums of float16.
                case = Case(inputs, attributes, name=label, initializers=range(1, len(inputs)))
                case.types = {"T1": request.type("T3" if real == zero_type else "T1")}
                if real != np.float32 or bits == 2 or float_zeros:
                    case.expected = [y.astype(real)]
                else:
                    case.rtol, case.atol = 1e-4, 1e-4
                found.append(case)
    return found


@cases("GatherBlockQuantized", domain=DOMAIN)
def gather(request: Request) -> list[Case]:
    dtype, real = request.dtype("T1"), request.dtype("T2")
    index = request.dtype("Tind")
    indices = np.array([[2, 0, 5], [1, 1, -1]], index)
    found = []
    for bits in (4, 8) if dtype == np.uint8 else (4,):
        blocks = (6, 3)
        scales = request.rng.uniform(0.01, 0.1, blocks).astype(real)
        attributes = {"block_size": 16, "gather_axis": 0, "quantize_axis": 1}
        if dtype == np.uint8:
            values = request.rng.integers(0, 2**bits, (6, 40))
            zeros = request.rng.integers(0, 2**bits, blocks)
            data, given = packed(values, bits), packed(zeros, bits)
            attributes["bits"] = bits
            default = 2 ** (bits - 1)
        else:
            data = request.random(dtype, (6, 40))
            given = zero(request, dtype, blocks) if "int" in dtype.name else None
            values, zeros = data.astype(np.float64), given
            default = 0
        for z, name in ((None, "no zero points"), (given, "zero points")):
            if z is None and name == "zero points":
                continue
            shift = np.full(blocks, default) if z is None else zeros
            shift = np.repeat(shift.astype(np.float64), 16, 1)[:, :40]
            y = (values - shift) * np.repeat(scales.astype(np.float64), 16, 1)[:, :40]
            inputs = [data, indices, scales] + ([] if z is None else [z])
            # A formula: ONNX Runtime lacks bfloat16 and some of the types of data on the CPU.
            expected = [y[indices].astype(real)]
            found.append(Case(inputs, attributes, name=f"{bits} bits {name}", expected=expected))
            if dtype == np.uint8:
                continue
            # Slices along the axis whose blocks have the scales.
            across = [indices % 40 if i == 1 else x.T.copy() for i, x in enumerate(inputs)]
            along = {**attributes, "quantize_axis": 0}
            expected = [y.T[across[1]].astype(real)]
            found.append(Case(across, along, name=f"{name} along blocks", expected=expected))
    return found
