"""Quantised operators of the standard and of com.microsoft."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import NONE, C, Case, W, X, rows

MS = "com.microsoft"


def codes(*shape: int, type: str = "u8", constant: bool = False):
    """Codes over the whole range of a byte; weights with a sign over half of it.

    With others ONNX Runtime's sums of two products saturate on processors of AVX2 alone.
    """
    low, high = (0, 255) if type == "u8" else (-64, 63) if constant else (-128, 127)
    return (W if constant else X)(*shape, low=low, high=high, type=type)


def scale(value: float = 0.05):
    """A scale of the whole tensor."""
    return C(value, "f32")


def table() -> Iterator[Case]:
    """All rows."""
    for name, middle in (("u8", 128), ("i8", 0)):
        a, zero = codes(1024, 1024, type=name), C(middle, name)
        yield from rows("QuantizeLinear", "f32", [X(1024, 1024), scale(), zero])
        yield from rows(
            "QuantizeLinear",
            "f32",
            [X(1024, 1024), W(1024, low=0.1, high=1), C([middle] * 1024, name)],
        )
        yield from rows("DequantizeLinear", name, [a, scale(), zero])
        yield from rows(
            "DequantizeLinear",
            name,
            [a, W(1024, low=0.1, high=1, type="f32"), C([middle] * 1024, name)],
            axis=0,
        )
        pair = [a, scale(), zero, codes(1024, 1024, type=name), scale(), zero, scale(0.1), zero]
        yield from rows("QLinearAdd QLinearMul", name, pair, domain=MS)
        unary = [a, scale(), zero, scale(0.01), zero]
        yield from rows("QLinearSigmoid", name, unary, domain=MS)
        yield from rows("QLinearLeakyRelu", name, unary, domain=MS, alpha=0.1)
        yield from rows("QLinearSoftmax", name, unary, domain=MS, opset=13, axis=-1)
        image = codes(1, 64, 56, 56, type=name)
        channel = codes(1, 64, 1, 1, type=name)
        by_channel = [image, scale(), zero, channel, scale(), zero, scale(0.1), zero]
        yield from rows("QLinearAdd QLinearMul", name, by_channel, domain=MS)
        pool = [image, scale(), zero, scale(), zero]
        yield from rows(
            "QLinearAveragePool", name, pool, domain=MS, kernel_shape=[3, 3], pads=[1] * 4
        )
        yield from rows("QLinearGlobalAveragePool", name, pool, domain=MS)
        parts = [scale(0.1), zero, a, scale(), zero, a, scale(), zero]
        yield from rows("QLinearConcat", name, parts, domain=MS, axis=1)
        for channels, group, shape, kernel in (
            (64, 1, (56, 56), (3, 3)),
            (96, 96, (28, 28), (3, 3)),
            (104, 13, (28, 28), (3, 3)),
            (512, 32, (28, 28), (3, 3)),
            (64, 1, (16, 28, 28), (3, 3, 3)),
            (64, 1, (12800,), (7,)),
        ):
            image = codes(1, channels, *shape, type=name)
            weights = codes(channels, channels // group, *kernel, type="i8", constant=True)
            conv = [image, scale(), zero, weights, scale(0.01), C(0, "i8"), scale(), zero]
            grouped = {"group": group} if group > 1 else {}
            pads = [size // 2 for size in kernel] * 2
            yield from rows("QLinearConv", name, conv, **grouped, pads=pads)
        product = [
            codes(256, 512, type=name),
            scale(),
            zero,
            codes(512, 512, type="i8", constant=True),
        ]
        yield from rows("QLinearMatMul", name, [*product, scale(0.01), C(0, "i8"), scale(), zero])
    yield from rows("DequantizeLinear", "i16 u16 i32", [X(1024, 1024, low=-99, high=99), scale()])
    for zero in (C(100, "i16"), C(1000, "u16")):
        yield from rows("QuantizeLinear", "f32", [X(1024, 1024), scale(), zero])
    gemm = [codes(256, 512), scale(), C(128, "u8"), codes(512, 512, type="i8", constant=True)]
    gemm += [scale(0.01), C(0, "i8"), W(512, low=-99, high=99, type="i32"), scale(), C(128, "u8")]
    yield from rows("QGemm", "u8", gemm, domain=MS)
    table = [codes(4096, 256, constant=True), X(64, 32, low=0, high=4096, type="i64")]
    table.append(W(4096, 8, low=0.1, high=1, type="f32"))
    yield from rows("GatherBlockQuantized", "u8", table, domain=MS, bits=8, block_size=32)
    where = [X(1024, 1024, type="bool"), codes(1024, 1024), scale(), C(128, "u8")]
    where += [codes(1024, 1024), scale(), C(128, "u8"), scale(0.1), C(128, "u8")]
    yield from rows("QLinearWhere", "u8", where, domain=MS)
    wide = [X(256, 256, low=-99, high=99), X(256, 256, low=-99, high=99)]
    yield from rows("MatMulInteger16", "i16", wide, domain=MS)
    gates = codes(1, 256, 1024, type="i8", constant=True)
    parameters = [C([0.001], "f32"), C([0], "i8")] * 2
    lstm = [X(50, 8, 256), gates, gates, *[NONE] * 5, *parameters]
    yield from rows(
        "DynamicQuantizeLSTM", "f32", lstm, domain=MS, exact=False, outputs=2, hidden_size=256
    )
    yield from rows("DynamicQuantizeLinear", "f32", [X(1024, 1024)], outputs=3)
    weights = codes(512, 512, type="i8", constant=True)
    yield from rows("MatMulInteger", "u8", [codes(256, 512), weights, C(128, "u8")])
    yield from rows("ConvInteger", "u8", [codes(1, 32, 56, 56), codes(32, 32, 3, 3, constant=True)])
    zeros = [C(120, "u8"), C(113, "u8")]  # of all, and of weights
    image, few = codes(1, 3, 448, 448), codes(16, 3, 3, 3, constant=True)
    yield from rows("ConvInteger", "u8", [image, few, *zeros], strides=[2, 2])
    filters = codes(32, 32, 3, 3, constant=True)
    yield from rows("ConvInteger", "u8", [codes(1, 32, 112, 112), filters, *zeros])
    matrix = codes(256, 64, constant=True)
    yield from rows("MatMulInteger", "u8", [codes(4096, 256), matrix, *zeros])
    dynamic = [X(256, 512), weights, scale(0.01)]
    yield from rows("DynamicQuantizeMatMul", "f32", dynamic, domain=MS)
    floating = [codes(256, 512), weights, scale(), scale(0.01), C(128, "u8")]
    yield from rows("MatMulIntegerToFloat", "u8", floating, domain=MS)
