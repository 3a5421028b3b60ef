"""Attention operators of com.microsoft, and older ones for text."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import NONE, C, Case, W, X, rows
from bench.operators.cases.quantized import codes

MS = "com.microsoft"


def table() -> Iterator[Case]:
    """All rows."""
    scale, other = C(0.02, "f32"), C(0.005, "f32")
    for type, middle in (("i8", 0), ("u8", 128)):
        weights = codes(768, 2304, type=type, constant=True)
        packed = [X(1, 128, 768, high=255, type="u8"), weights, W(2304), scale, other]
        packed += [NONE, C(128, "u8"), C(middle, type)]
        yield from rows("QAttention", "f32", packed, domain=MS, num_heads=12)
    ids = X(8, 128, low=0, high=1000, type="i32")
    segments = X(8, 128, low=0, high=2, type="i32")
    tables = [W(n, 768, low=0, high=255, type="u8") for n in (1000, 512, 2)]
    tables += [W(768, low=0, high=255, type="u8")] * 2
    scales_and_zeros = [scale] * 5 + [C(128, "u8")] * 5
    embedded = [ids, segments, *tables, NONE, *scales_and_zeros]
    yield from rows("QEmbedLayerNormalization", "f32", embedded, domain=MS, outputs=2)
    token = [X(4, 1, 768)] * 3
    cache = [X(4, 12, 256, 64)] * 2
    held = X(1, low=200, high=201, type="i32")
    share = dict(domain=MS, num_heads=12, past_present_share_buffer=1, outputs=3)
    op = "DecoderMaskedMultiHeadAttention"
    yield from rows(op, "f32", [*token, NONE, NONE, *cache, held], **share)
    beams = [C([4], "i32"), X(1, 4, 256, low=0, high=4, type="i32")]
    yield from rows(op, "f32", [*token, NONE, NONE, *cache, held, *beams], **share)
    yield from rows(op, "f32", [token[0], *cache], domain=MS, num_heads=12)
    buffers = [*token, NONE, NONE, NONE, *cache, held, beams[1]]
    yield from rows("MultiHeadAttention", "f32", buffers, domain=MS, num_heads=12, outputs=3)
    words = [X(256, 16, low=1, high=100, type="i32"), W(256, 1, 3, 64), W(256), W(100, 64)]
    yield from rows("WordConvEmbedding", "f32", words, domain=MS)
    size, memory, attended = 256, 256, 128
    lstm = [X(32, 4, size), W(1, 4 * size, size + memory, low=-0.1, high=0.1)]
    lstm += [W(1, 4 * size, size, low=-0.1, high=0.1), W(1, 8 * size), *[NONE] * 4]
    lstm += [W(1, n, attended, low=-0.1, high=0.1) for n in (size, memory)]
    lstm += [W(1, attended), X(4, 64, memory)]
    yield from rows("AttnLSTM", "f32", lstm, domain=MS, outputs=3, hidden_size=size)
