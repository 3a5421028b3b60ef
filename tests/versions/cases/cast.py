"""Cast and CastLike of every pair of types, and BitCast."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto
from onnx.reference.ops.op_cast import cast_to

from tests.versions.case import Case, Request, cases
from tests.versions.element_types import data_type, dtype_of, element_of

FLOATS8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
WITHOUT_NAN = ("float4e2m1", "float6e2m3", "float6e3m2")
INTEGERS = ("int", "uint")
# Texts of halves and whole numbers that every floating-point format of 8 bits and more holds.
NUMBERS = ("0", "1", "-1.5", "2", "1E1", "5e-1", "+3", "-4")


def is_integer(element: str) -> bool:
    return element.startswith(INTEGERS)


def source(request: Request, element: str, target: str) -> np.ndarray:
    """Values of a type whose conversion the standard defines, the extremes among them."""
    if element == "string":
        if is_integer(target) or target == "bool":
            return np.array(["0", "1", "1", "0"] if target[0] == "u" else ["0", "1", "-1"], object)
        positive = target == "float8e8m0"
        whole = [text for text in NUMBERS if not (positive and (text[0] == "-" or text == "0"))]
        special = [] if target in WITHOUT_NAN else ["NaN", "nan"]
        infinite = [] if target in (*FLOATS8, *WITHOUT_NAN, "float8e8m0") else ["INF", "-inf"]
        return np.array(whole + special + infinite, object)
    dtype = dtype_of(element)
    if element == "bool":  # nothing says which power of two stands for zero
        return np.array([target == "float8e8m0", True, True])
    if is_integer(element):
        limits = ml_dtypes.iinfo(dtype)
        values = [0, 1, 2, int(limits.max), int(limits.max) // 3]
        if limits.min < 0 and target != "float8e8m0":
            values += [-1, int(limits.min)]
        if target == "float8e8m0":  # the reference evaluator goes through float32
            values = [1, max(int(limits.max) // 3, 1)]
        elif limits.max < 2:
            values.remove(2)
        return np.array(values, np.uint64 if limits.min == 0 else np.int64).astype(dtype)
    if element == "float8e8m0":
        values = request.random(dtype, (6,))
        if not (is_integer(target) or target in WITHOUT_NAN):
            values = np.append(values, np.array([np.nan], dtype))
        return values
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
    if target == "float8e8m0":
        values = values[1:]
    elif target[0] != "u":
        values += [-0.5, -1.0, -2.0]
    if not is_integer(target):
        limits = ml_dtypes.finfo(dtype)
        if target == "float8e8m0":
            values += [12.0, 0.1875] if element not in WITHOUT_NAN else []
        elif target != "string":
            values += [float(limits.max), 4 * float(limits.tiny)]
        if element not in WITHOUT_NAN and target not in WITHOUT_NAN:
            values.append(np.nan)
        if target in ("float16", "bfloat16", "float", "double", "bool"):
            values += [np.inf, -np.inf] if element in ("float16", "float", "double") else []
    elif target in ("uint2", "int2"):
        values = [value for value in values if (-2 <= value < 2 if target[0] == "i" else value < 4)]
    return np.array(values).astype(dtype)


def converted(x: np.ndarray, target: str, saturate: bool, round_mode: str) -> np.ndarray:
    """As the reference evaluator, but where its way to a type goes wrong."""
    if x.dtype == object and target != "string":  # it knows no text for bool and small types
        real = np.array([float(text) for text in x.ravel()]).reshape(x.shape)
        x = real.astype(np.int64) if is_integer(target) else real
    if "int" in x.dtype.name and x.dtype != np.uint64:  # NumPy knows no way between small types
        x = x.astype(np.int64)
    elif x.dtype.name.startswith(("float4_", "float6_", "float8_")):
        x = x.astype(np.float32)
    if is_integer(target) and "float" in x.dtype.name:
        x = np.trunc(x.astype(np.float64)).astype(np.int64)
    if target == "bool":
        return np.array([bool(value) for value in x.tolist()])
    return cast_to(x, getattr(TensorProto, target.upper()), saturate, round_mode)


def texts(x: np.ndarray) -> np.ndarray:
    """Fewest digits that tell the number from its neighbours."""
    if x.dtype.kind == "b" or "int" in x.dtype.name:
        return np.array([str(value.item()) for value in x.ravel()], object)
    wide = x if x.dtype in (np.float32, np.float64, np.float16) else x.astype(np.float32)
    return np.array([str(value) for value in wide.ravel()], object)


def named(request: Request, parameter: str) -> list[str]:
    """The type of the varied parameter, every type of the other."""
    if request.varied == parameter:
        return [element_of(request.type(parameter))]
    constraint = next(c for c in request.schema.type_constraints if c.type_param_str == parameter)
    return sorted(element_of(type_) for type_ in constraint.allowed_type_strs)


def modes(request: Request, target: str) -> list[dict]:
    """Attributes that change the conversion to a type."""
    found = [{}]
    if target in FLOATS8 and request.version >= 19:
        found.append({"saturate": 0})
    if target == "float8e8m0":
        found += [{"round_mode": mode} for mode in ("up", "down", "nearest")]
        found.append({"round_mode": "nearest", "saturate": 0})
    return found


@cases("Cast", "CastLike")
def cast(request: Request) -> list[Case]:
    found = []
    for origin in named(request, "T1"):
        for target in named(request, "T2"):
            x = source(request, origin, target)
            for attributes in modes(request, target):
                saturate = attributes.get("saturate", 1) != 0
                mode = attributes.get("round_mode", "up")
                if origin == target:
                    y = x
                elif target == "string":
                    y = texts(x)
                else:
                    y = converted(x, target, saturate, mode)
                name = " ".join(
                    [f"{origin} to {target}", *(f"{k}={v}" for k, v in attributes.items())]
                )
                inputs = [x]
                if request.op == "CastLike":
                    inputs.append(request.random(dtype_of(target), (2,)))
                else:
                    number = getattr(TensorProto, target.upper())
                    text = TensorProto.DataType.Name(number)
                    attributes = {**attributes, "to": text if request.version < 6 else number}
                # The reference evaluator lacks text and numbers by name (Cast-1), round_mode in
                # CastLike, and pairs of small types; `converted` is its function for the others.
                types = {"T2": f"tensor({target})"}
                found.append(Case(inputs, attributes, expected=[y], name=name, types=types))
        if "float8e8m0" in named(request, "T2") and origin == "float" and request.op == "Cast":
            found += scales()
    return found


def scales() -> list[Case]:
    """Special values as float8e8m0, by the table of Cast: codes of the result."""
    x = np.array([0, np.nan, np.inf, 3e38, 1e-39], np.float32)
    to = {"to": TensorProto.FLOAT8E8M0}
    bounded = np.array([0, 255, 254, 254, 0], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    refused = np.full(5, 255, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    types = {"T2": "tensor(float8e8m0)"}
    up, nearest = ({**to, "round_mode": mode} for mode in ("up", "nearest"))
    return [
        Case([x], up, expected=[bounded], name="bounded", types=types),
        Case([x], {**nearest, "saturate": 0}, expected=[refused], name="refused", types=types),
    ]


@cases("BitCast")
def bit_cast(request: Request) -> list[Case]:
    found = []
    for origin in named(request, "T1"):
        for target in named(request, "T2"):
            bits = ml_bits(origin)
            if bits != ml_bits(target):
                continue
            low = 0 if target == "bool" else None  # a bool is one bit of eight
            x = request.random(dtype_of(origin), (2, 3), low=low, high=1 if low == 0 else None)
            if target == "bool" and "float" in origin:
                x = np.zeros((2, 3), np.uint8).view(dtype_of(origin))
            # The dtypes of NumPy hold small elements in a byte each, whose other bits are theirs.
            y = widened(x).view(dtype_of(target)) if bits < 8 else x.view(dtype_of(target))
            to = {"to": data_type(dtype_of(target))}
            types = {"T2": f"tensor({target})"}
            found.append(Case([x], to, expected=[y], name=f"{origin} to {target}", types=types))
    return found


def ml_bits(element: str) -> int:
    """Bits of an element type."""
    for suffix, bits in (("int2", 2), ("int4", 4), ("float4e2m1", 4), ("bool", 8)):
        if element.endswith(suffix):
            return bits
    return dtype_of(element).itemsize * 8


def widened(x: np.ndarray) -> np.ndarray:
    """Codes of small elements, without the sign that fills the rest of the byte."""
    bits = ml_bits(np.dtype(x.dtype).name.replace("float4_e2m1fn", "float4e2m1"))
    return x.view(np.uint8) & (2**bits - 1)
