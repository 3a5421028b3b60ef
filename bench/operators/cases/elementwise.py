"""Arithmetic, comparison, logic, bits, casts."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import C, Case, X, rows

FLOATS = "f32 f64 f16"
NUMBERS = "f32 f64 i32 i64"
INTEGERS = "i8 i16 i32 i64 u8 u16 u32 u64"
A = X(1024, 1024)
PAIRS = (
    [A, A],
    [A, X(1024)],
    [A, X(1024, 1)],
    [A, X()],
    [X(8, 64, 64, 64), X(64, 1, 1)],
    [X(128, 1, 128), X(1, 128, 128)],
)
POSITIVE = [[X(1024, 1024, low=0.1, high=3)]]
UNIT = [[X(1024, 1024, low=-0.9, high=0.9)]]


def table() -> Iterator[Case]:
    """All rows."""
    yield from rows("Abs Neg Sign", "f32 f64 i8 i32 i64", [A])
    yield from rows("Abs Sign", "u8 i16 u32", [A])
    yield from rows("Ceil Floor Round Reciprocal Sqrt Exp Erf Tanh Sigmoid", FLOATS, [A])
    yield from rows("Relu", "f32 f64 i8 i32", [A])
    yield from rows("Sin Cos Tan Sinh Cosh Asinh Atan Softplus Softsign", "f32 f64", [A])
    yield from rows("Log", FLOATS, *POSITIVE)
    yield from rows("Asin Acos Atanh", "f32 f64", *UNIT)
    yield from rows("Acosh", "f32 f64", [X(1024, 1024, low=1, high=9)])
    yield from rows("Elu Selu Celu LeakyRelu HardSigmoid ThresholdedRelu Gelu", "f32", [A])
    yield from rows("HardSwish Mish", "f32", [A])
    yield from rows("Gelu", "f32", [A], approximate="tanh")
    yield from rows("Shrink", "f32 i8 i32", [A], lambd=1.0, bias=0.5)
    yield from rows("Shrink", "f64", [A], exact=False, lambd=1.0, bias=0.5)  # theirs in float32
    yield from rows("Clip", "f32 f64 i8 u8 i32 i64", [A, C(1, "T"), C(2, "T")])
    yield from rows("IsNaN", FLOATS, [A])
    yield from rows("IsInf", FLOATS, [A])
    yield from rows("Add Sub Mul", NUMBERS, *PAIRS)
    yield from rows("Add Mul", "f16 i8 u8 i16 u32", *PAIRS[:2])
    divisor = X(1024, 1024, low=1, high=9)
    yield from rows("Div", "f32 f64 i32 i64 i8", [A, divisor], [A, X(1024, low=1, high=9)])
    yield from rows("Div", "f32 i64", [A, C(3, "T")], [X(8, 64, 64, 64), X(64, 1, 1, low=1)])
    yield from rows("Max Min", "f32 f64 f16 i32 i64 i8 u8", *PAIRS[:2])
    yield from rows("Sum Mean", "f32 f64", [A, A, A], [A, X(1024)])
    yield from rows("Max Min", "f32", [A, A, A])
    yield from rows("Mod", "i32 i64 u8 i8", [A, divisor])
    yield from rows("Mod", "f32 f64 i32", [A, divisor], fmod=1)
    yield from rows("PRelu", "f32", [A, X(1024)], [X(8, 64, 64, 64), X(64, 1, 1)])
    base = X(1024, 1024, low=0.5, high=3)
    yield from rows("Pow", "f32 f64 i32 i64", [base, X(1024, 1024, low=0, high=4)])
    for power in (2, 3, 0.5, 2.5, -1):
        yield from rows("Pow", "f32 f64", [base, C(power, "T")])
    yield from rows("Pow", "f32", [X(1, 3, 512, 512, low=-0.2), C(2.2, "T")])
    yield from rows("Equal", "f32 f64 i32 i64 bool i8 u8", *PAIRS[:3])
    yield from rows("Greater Less GreaterOrEqual LessOrEqual", "f32 i32 i64 f64", *PAIRS[:2])
    yield from rows("Greater Less", "f32 i64", [A, C(1, "T")])
    yield from rows("And Or Xor", "bool", *PAIRS[:3])
    yield from rows("Not", "bool", [A])
    yield from rows("BitwiseAnd BitwiseOr BitwiseXor", "u8 i32 i64 u16", *PAIRS[:2])
    yield from rows("BitwiseNot", "u8 i32 i64", [A])
    shift = X(1024, 1024, low=0, high=7)
    yield from rows("BitShift", "u8 u32 u64", [shift, shift], direction="LEFT")
    yield from rows("BitShift", "u8 u32 u64", [shift, shift], direction="RIGHT")
    condition = X(1024, 1024, type="bool")
    for shapes in ([condition, A, A], [condition, A, X()], [X(1024, type="bool"), A, A]):
        yield from rows("Where", "f32 f64 i32 i64 u8 f16", shapes)
    yield from rows("Where", "f32", [X(1024, 1, type="bool"), A, X(1, 1024)])
    targets = "FLOAT DOUBLE FLOAT16 BFLOAT16 INT8 UINT8 INT16 INT32 INT64 BOOL".split()
    for target in targets:
        positive = [X(1024, 1024, low=0)]  # negative to unsigned is undefined
        yield from rows("Cast", "f32", positive if target == "UINT8" else [A], to=f"@{target}")
        if target != "BFLOAT16":
            yield from rows(
                "Cast", "f64 i64 i32 u8 i8 bool", [X(1024, 1024, low=0)], to=f"@{target}"
            )
    for target in ("UINT32", "UINT64"):
        yield from rows("Cast", "f32", [X(1024, 1024, low=0)], to=f"@{target}")
    yield from rows("Cast", "f32", [A], exact=False, to="@FLOAT8E4M3FN")  # theirs as plain bytes
    yield from rows("Cast", "f32 i64 bool", [X(100000)], exact=False, to="@STRING")  # texts differ
    yield from rows("Cast", "f16", [A], to="@FLOAT")
    yield from rows("Cast", "f16", [A], to="@INT32")
    yield from rows("CastLike", "i64", [X(1024, 1024, low=0), C(1, "f32")])
    yield from rows("Dropout Identity", "f32", [A])
    yield from rows("BitCast", "f32", [A], to="@INT32", version=26)
