"""Operators of com.microsoft on texts, and those that cut, hash and resample tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.operators.case import C, Case, Input, W, X, rows

MS = "com.microsoft"


def Texts(count: int, words: int) -> Input:
    """Sentences of so many words of two to nine letters, some with a comma behind them."""

    def make(random: np.random.Generator, row_type: str) -> np.ndarray:
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        known = ["".join(random.choice(letters, random.integers(2, 10))) for _ in range(5000)]
        texts = [
            " ".join(
                known[i] + ("," if i % 7 == 0 else "") for i in random.integers(0, 5000, words)
            )
            for _ in range(count)
        ]
        return np.array(texts, object)

    return Input(f"{count} of {words} words", make)


def table() -> Iterator[Case]:
    """All rows."""
    texts = dict(domain=MS, mark=0, mincharnum=1, pad_value="#")
    for separators in ([" "], [" ", ","], [r"[\s,]+"], [r",? "], [""]):
        yield from rows("Tokenizer", "str", [Texts(200, 50)], separators=separators, **texts)
    for tokenexp in ("[a-zA-Z0-9_]+", r"\b\w\w+\b"):
        yield from rows("Tokenizer", "str", [Texts(200, 50)], tokenexp=tokenexp, **texts)
    yield from rows("MurmurHash3", "i32 i64 f64 str", [X(500000)], domain=MS)
    yield from rows(
        "GatherND", "f32", [X(512, 512, 8), W(4096, 2, high=511, type="i64")], domain=MS
    )
    yield from rows("Range", "f32 i64", [C(0, "T"), X(low=900000, high=900001)], domain=MS)
    image = X(1, 16, 128, 128)
    for size, step, dim in ((3, 1, -1), (16, 16, -1), (512, 256, 1), (32, 16, 2), (5, 2, 2)):
        given = X(4, 4096, 64) if dim == 1 else image
        yield from rows("UnfoldTensor", "f32", [given], domain=MS, size=size, step=step, dim=dim)
    ids = X(8, 1024, low=0, high=40, type="i64")
    yield from rows("NGramRepeatBlock", "f32", [ids, X(8, 50257)], domain=MS, ngram_size=3)
    tokens = [X(200000, low=0, high=30000, type="i64"), X(1000, low=0, high=30000, type="i64")]
    guess = [C([0]), X(200001, low=0, high=30000, type="i64")]
    yield from rows("BifurcationDetector", "i64", [*tokens, *guess], domain=MS, outputs=2)
    yield from rows("DynamicTimeWarping", "f32", [X(448, 1500)], domain=MS)
    boxes = X(64, 4, low=0, high=1)
    where = X(64, low=0, high=2, type="i32")
    for shape, size in (((2, 64, 56, 56), 14), ((2, 3, 512, 512), 224)):
        given = [X(*shape), boxes, where, C([size, size], "i32")]
        for mode in ("bilinear", "nearest"):
            yield from rows("CropAndResize", "f32", given, domain=MS, mode=mode)
    for channels in (1, 32):
        mask = X(1, channels, 112, 112, low=0, high=2, type="i32")
        pooled = dict(domain=MS, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        pooled["exact"] = channels == 1  # theirs reads the mask of the first channel alone
        yield from rows("MaxpoolWithMask", "f32", [X(1, 32, 112, 112), mask], **pooled)
    upwards = [X(1, 32, 56, 56), W(32, 32, 4, 4), C([1, 1, 1, 1]), W(32)]
    yield from rows("ConvTransposeWithDynamicPads", "f32", upwards, domain=MS, strides=[2, 2])
