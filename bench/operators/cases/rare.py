"""Signals, vision, strings, recurrent cells, sequences, random numbers, old operators."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.operators.case import NONE, C, Case, Input, S, W, X, rows

IMAGE = X(2, 32, 112, 112)
GRID = X(2, 112, 112, 2, low=-1, high=1)
WORDS = [X(100000)]


def boxes(count: int) -> Input:
    """Corners x1 y1 x2 y2 of boxes."""

    def make(random: np.random.Generator, _: str) -> np.ndarray:
        corners = np.sort(random.uniform(0, 110, (count, 2, 2)), axis=1)
        return corners.reshape(count, 4).astype(np.float32)

    return Input(f"{count} boxes", make)


def pooled(*shape: int) -> Input:
    """Where a max pool of 2 x 2 found its values: a place in each window."""

    def make(random: np.random.Generator, _: str) -> np.ndarray:
        plane, *place = np.indices((int(np.prod(shape[:-2])), *shape[-2:]))
        row, column = (2 * p + random.integers(0, 2, plane.shape) for p in place)
        return ((plane * 2 * shape[-2] + row) * 2 * shape[-1] + column).reshape(shape)

    return Input("x".join(map(str, shape)), make)


def table() -> Iterator[Case]:
    """All rows."""
    for mode in ("linear", "nearest", "cubic"):
        yield from rows("GridSample", "f32", [IMAGE, GRID], mode=mode)
    yield from rows("GridSample", "f32", [IMAGE, GRID], padding_mode="reflection")
    photo = [X(1, 3, 480, 640), X(1, 480, 640, 2, low=-1, high=1)]
    yield from rows("GridSample", "f32", photo)
    yield from rows("GridSample", "f64", [X(1, 16, 64, 64), X(1, 64, 64, 2, low=-1, high=1)])
    volume, directions = X(1, 4, 32, 32, 32), X(1, 32, 32, 32, 3, low=-1, high=1)
    yield from rows("GridSample", "f32", [volume, directions], mode="linear")
    theta = X(2, 2, 3)
    yield from rows("AffineGrid", "f32 f64", [theta, C([2, 3, 256, 256])])
    rois, which = boxes(100), X(100, low=0, high=2, type="i64")
    for mode in ("avg", "max"):
        yield from rows(
            "RoiAlign",
            "f32",
            [IMAGE, rois, which],
            version=21,
            mode=mode,
            output_height=7,
            output_width=7,
        )
    yield from rows(
        "MaxRoiPool", "f32", [IMAGE, X(100, 5, low=0, high=1)], version=21, pooled_shape=[7, 7]
    )
    scored = [X(1, 3000, 4, low=0, high=9), X(1, 4, 3000, low=0, high=1), C([100])]
    yield from rows(
        "NonMaxSuppression", "f32", [*scored, C([0.5], "f32"), C([0.3], "f32")], center_point_box=1
    )
    yield from rows("Col2Im", "f32", [X(2, 64 * 9, 54 * 54), C([56, 56]), C([3, 3])])
    kernel, offsets = W(32, 32, 3, 3), X(1, 18, 56, 56)
    yield from rows(
        "DeformConv", "f32", [X(1, 32, 56, 56), kernel, offsets], kernel_shape=[3, 3], pads=[1] * 4
    )
    maxima = [X(2, 32, 56, 56), pooled(2, 32, 56, 56)]
    yield from rows("MaxUnpool", "f32", maxima, kernel_shape=[2, 2], strides=[2, 2])
    yield from rows("Det", "f32", [X(1000, 16, 16)])
    for length in (1024, 1000, 1021):  # theirs loses digits where the length is no power of two
        yield from rows("DFT", "f32", [X(64, length, 1), NONE, C(1)], exact=length == 1024)
    yield from rows("DFT", "f32", [X(64, 1024, 1), NONE, C(1)], onesided=1)
    yield from rows("DFT", "f32", [X(64, 1024, 2), NONE, C(1)], inverse=1)
    yield from rows("STFT", "f32", [X(1, 160000, 1), C(160), W(400), C(400)])
    yield from rows(
        "HannWindow HammingWindow BlackmanWindow", "i64", [X(low=1 << 20, high=(1 << 20) + 1)]
    )
    yield from rows(
        "MelWeightMatrix", "i64", [C(128), C(2048), C(16000), C(0.0, "f32"), C(8000.0, "f32")]
    )
    yield from rows("StringConcat", "str", [X(100000), X(100000)])
    yield from rows("StringSplit", "str", WORDS, outputs=2)
    yield from rows("RegexFullMatch", "str", WORDS, pattern="wo.* [0-9]+")
    yield from rows("StringNormalizer", "str", WORDS, case_change_action="UPPER", locale="C")
    words = dict(
        mode="TFIDF",
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=1,
        ngram_counts=[0, 100],
        ngram_indexes=list(range(300)),
        pool_int64s=[*range(100), *range(400)],
        weights=[0.5] * 300,
    )
    yield from rows("TfIdfVectorizer", "i64", [X(100, 1000, low=0, high=200)], **words)
    yield from rows("Unique", "f32 i64", [X(200000, low=0, high=5000)], outputs=4)
    yield from rows("Unique", "f32", [X(2000, 16, low=0, high=2)], axis=0, outputs=1)
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for batch, width in ((1, 128), (8, 256)):
            shapes = [X(50, batch, width), W(1, gates * width, width, low=-0.1, high=0.1)]
            shapes.append(W(1, gates * width, width, low=-0.1, high=0.1))
            yield from rows(op, "f32", shapes, outputs=2, hidden_size=width)
    step = [X(1, 1, 256), W(1, 512, 256, low=-0.1, high=0.1), W(1, 512, 512, low=-0.1, high=0.1)]
    yield from rows("RNN", "f32", step, outputs=2, hidden_size=512)
    rotary = [X(2, 8, 256, 64), X(2, 256, 32), X(2, 256, 32)]
    yield from rows("RotaryEmbedding", "f32", rotary)
    yield from rows("Attention", "f32", [X(1, 12, 128, 64)] * 3)
    cache = [X(2, 8, 1024, 64), X(2, 8, 16, 64), X(2, low=0, high=1000, type="i64")]
    yield from rows("TensorScatter", "f32", cache)
    for op in ("RandomNormalLike", "RandomUniformLike"):
        yield from rows(op, "f32", [X(1024, 1024)], exact=False, version=21, seed=1.0)
    for op in ("RandomNormal", "RandomUniform"):
        yield from rows(op, "f32", [], exact=False, version=21, seed=1.0, shape=[1024, 1024])
    yield from rows(
        "Multinomial", "f32", [X(64, 1000)], exact=False, version=21, sample_size=100, seed=1.0
    )
    yield from rows(
        "Scatter",
        "f32",
        [X(1024, 1024), X(64, 1024, low=0, high=1024, type="i64"), X(64, 1024)],
        exact=False,
        version=10,
    )
    yield from rows("Upsample", "f32", [X(1, 3, 480, 640), C([1, 1, 2, 2], "f32")], version=9)
    yield from rows("SequenceConstruct", "f32", [X(512, 1024), X(512, 1024)])
    yield from rows("SplitToSequence", "f32", [X(1024, 1024), C(64)])
    many = S(64, 64, 256)
    yield from rows("SequenceAt SequenceErase", "f32", [many, C(7)])
    yield from rows("SequenceInsert", "f32", [many, X(64, 256), C(7)])
    yield from rows("SequenceLength", "f32", [many])
    yield from rows("ConcatFromSequence", "f32", [many], axis=0)
    yield from rows("ConcatFromSequence", "f32", [many], axis=1, new_axis=1)
    old = [X(1024, 1024)]
    yield from rows(
        "ParametricSoftplus ScaledTanh Affine", "f32", old, version=1, alpha=0.5, beta=2.0
    )
    yield from rows(
        "ImageScaler", "f32", [X(1, 3, 480, 640)], version=1, scale=2.0, bias=[0.1, 0.2, 0.3]
    )
    yield from rows("Crop", "f32", [X(1, 3, 480, 640)], version=1, border=[9, 9, 9, 9])
