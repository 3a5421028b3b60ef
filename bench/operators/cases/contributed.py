"""Other operators of com.microsoft that Sardonyx has."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import NONE, C, Case, W, X, rows

MS = "com.microsoft"


def table() -> Iterator[Case]:
    """All rows."""
    tokens, width = X(2, 256, 768), W(768, low=0.5, high=2)
    yield from rows("Gelu FastGelu QuickGelu", "f32", [tokens], domain=MS)
    yield from rows("BiasGelu FastGelu", "f32", [tokens, width], domain=MS)
    yield from rows(
        "SkipLayerNormalization", "f32", [tokens, tokens, width, width, width], domain=MS
    )
    yield from rows("SkipSimplifiedLayerNormalization", "f32", [tokens, tokens, width], domain=MS)
    yield from rows(
        "FusedMatMul", "f32", [X(12, 128, 64), X(12, 128, 64)], domain=MS, transB=1, alpha=0.1
    )
    yield from rows(
        "FusedGemm", "f32", [X(256, 512), W(512, 256), W(256)], domain=MS, activation="Relu"
    )
    conv = [X(1, 64, 56, 56), W(64, 64, 3, 3), W(64)]
    yield from rows("FusedConv", "f32", conv, domain=MS, activation="Relu", pads=[1] * 4)
    yield from rows("MultiHeadAttention", "f32", [X(1, 128, 768)] * 3, domain=MS, num_heads=12)
    packed = [X(1, 128, 768), W(768, 2304, low=-0.1, high=0.1), W(2304)]
    yield from rows("Attention", "f32", packed, domain=MS, num_heads=12)
    turned = [X(2, 256, 512), C([0]), W(512, 32), W(512, 32)]
    yield from rows("RotaryEmbedding", "f32", turned, domain=MS, num_heads=8)
    blocks = [
        X(16, 1024),
        W(1024, 32, 16, low=0, high=255, type="u8"),
        W(1024 * 32, low=0.1, high=1),
    ]
    narrow = dict(domain=MS, K=1024, N=1024, bits=4, block_size=32)
    yield from rows("MatMulNBits", "f32", blocks, **narrow)
    blocks[0] = X(1, 1024)  # level 4: theirs multiplies bytes
    yield from rows("MatMulNBits", "f32", blocks, exact=False, accuracy_level=4, **narrow)
    cache = [X(1, 256, 512), X(1, 256, 128), X(1, 256, 128), X(1, 2, 0, 64), X(1, 2, 0, 64)]
    lengths = [C([255], "i32"), C(256, "i32")]
    heads = dict(num_heads=8, kv_num_heads=2)
    yield from rows("GroupQueryAttention", "f32", [*cache, *lengths], domain=MS, outputs=3, **heads)
    grown = [X(1, 1, 512), X(1, 1, 128), X(1, 1, 128), X(1, 2, 1024, 64), X(1, 2, 1024, 64)]
    for total in (1025, 700):  # a cache that grows, and one that has room
        lengths = [C([total - 1], "i32"), C(total, "i32")]
        theirs = dict(exact=total > 1024)  # fills what is behind the tokens with zeros
        inputs = [*grown, *lengths]
        yield from rows(
            "GroupQueryAttention", "f32", inputs, domain=MS, outputs=3, **theirs, **heads
        )
        window = dict(local_window_size=128, smooth_softmax=1)
        yield from rows(
            "GroupQueryAttention", "f32", inputs, domain=MS, outputs=3, **theirs, **heads, **window
        )
    yield from rows("Inverse", "f32", [X(1000, 8, 8)], [X(64, 64)], domain=MS, exact=False)
    yield from rows("Trilu", "f32", [X(1024, 1024)], domain=MS)
    yield from rows("ExpandDims", "f32", [X(1024, 1024), C(0, "i32")], domain=MS)
    yield from rows("Pad", "f32", [X(1024, 1024), C([3, 5, 7, 9])], domain=MS)
    yield from rows("Unique", "f32", [X(100000, low=0, high=900)], domain=MS, outputs=3)
    yield from rows(
        "GridSample", "f32", [X(1, 16, 64, 64), X(1, 64, 64, 2, low=-1, high=1)], domain=MS
    )
    yield from rows(
        "NhwcMaxPool", "u8", [X(1, 56, 56, 64, high=255)], domain=MS, kernel_shape=[3, 3]
    )
    texts = [
        X(8, 128, low=0, high=100, type="i32"),
        NONE,
        W(1000, 768),
        W(512, 768),
        NONE,
        width,
        width,
    ]
    yield from rows("EmbedLayerNormalization", "f32", texts, domain=MS, outputs=2)
