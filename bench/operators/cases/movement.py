"""Moving data: layouts, indexing, joining, filling."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.operators.case import C, Case, Unique, X, rows

SIZES = "f32 i64 u8 f16"
A = X(1024, 1024)
IMAGE = X(8, 64, 64, 64)
PERMUTATIONS = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (1, 0, 2, 3), (3, 2, 1, 0))


def index(*shape: int, high: int, low: int = 0) -> list:
    """Random int64 indices."""
    return X(*shape, low=low, high=high, type="i64")


def table() -> Iterator[Case]:
    """All rows."""
    for perm in PERMUTATIONS:
        yield from rows("Transpose", SIZES, [IMAGE], perm=perm)
    yield from rows("Transpose", SIZES + " bool f64", [A], perm=(1, 0))
    for channels in (8, 24):
        yield from rows("Transpose", "u8", [X(1, 224, 224, channels)], perm=(0, 3, 1, 2))
        yield from rows("Transpose", "u8", [X(1, channels, 224, 224)], perm=(0, 2, 3, 1))
    yield from rows("Reshape", "f32 u8", [A, C([512, 2048])])
    yield from rows("Flatten", "f32", [IMAGE])
    yield from rows("Squeeze", "f32", [X(1, 1024, 1024), C([0])])
    yield from rows("Unsqueeze", "f32", [A, C([0])])
    for axis in range(3):
        yield from rows("Concat", SIZES, [X(128, 128, 64), X(128, 128, 64)], axis=axis)
        yield from rows("Split", SIZES, [X(128, 128, 64)], axis=axis, outputs=4, num_outputs=4)
        yield from rows(
            "Gather", SIZES, [X(128, 128, 64), index(256, high=128 >> axis // 2)], axis=axis
        )
        yield from rows(
            "GatherElements", "f32 i64", [X(128, 128, 64), index(128, 128, 64, high=64)], axis=axis
        )
        yield from rows(
            "ScatterElements",
            "f32 i64",
            [X(128, 128, 64), index(128, 128, 64, high=64), X(128, 128, 64)],
            axis=axis,
            reduction="add",
        )
    yield from rows("Concat", "f32", [X(8, 32, 64, 64)] * 4, axis=1)
    yield from rows("Concat", "f32 u8", [X(20000, 20), X(20000, 20)], [X(100000, 1)] * 2, axis=1)
    yield from rows("Split", "f32 u8", [X(20000, 40)], outputs=2, num_outputs=2, axis=1)
    for size, width in ((256, 32), (64, 128)):  # rows of 128 and of 512 bytes
        parts = [X(size, size, width)] * 2
        yield from rows("Concat", "f32", parts, axis=2)
        yield from rows(
            "Split", "f32", [X(size, size, 2 * width)], outputs=2, num_outputs=2, axis=2
        )
    yield from rows("Gather", "f32 i64", [X(50000, 256), index(2048, high=50000)], axis=0)
    yield from rows(
        "Gather", "f32", [X(4096, 256, type="f32"), X(2048, low=0, high=4096, type="i32")]
    )
    yield from rows("GatherND", "f32 i64", [A, index(100000, 2, high=1024)])
    yield from rows("GatherND", "f32 i64", [A, index(2048, 1, high=1024)])
    yield from rows(
        "GatherND", "f32", [X(16, 256, 256), index(16, 1024, 1, high=256)], batch_dims=1
    )
    yield from rows("ScatterElements", "f32 i64 u8", [A, Unique(1, 1024, type="i64"), X(1, 1024)])
    yield from rows("ScatterElements", "f32", [A, index(1024, 1024, high=1024), A], reduction="max")
    # Windows that overlap, and a slice that is assigned to, as exporters write them.
    windows = np.arange(0, 960, 8)[:, None] + np.arange(64)
    yield from rows("Gather", "f32 f16", [X(128, 1024), C(windows)], axis=1)
    columns = np.stack(np.meshgrid(np.arange(1024), np.arange(512), indexing="ij"), -1)
    yield from rows("ScatterND", "f32 f16", [A, C(columns), X(1024, 512)])
    rowset = Unique(1024, 1, type="i64")
    yield from rows("ScatterND", "f32 i64 u8", [A, rowset, A])
    for reduction in ("add", "mul", "max"):
        yield from rows("ScatterND", "f32", [A, rowset, A], reduction=reduction)
    numbers = [A, index(100000, 2, high=1024), X(100000)]
    for reduction in ("add", "mul", "max"):
        yield from rows("ScatterND", "f32 f64 i32 i64", numbers, reduction=reduction)
    for starts, ends, axes, steps in (
        ([0], [512], [0], [1]),
        ([0], [512], [1], [1]),
        ([10, 10], [1000, 1000], [0, 1], [1, 1]),
        ([0], [1024], [1], [2]),
        ([0], [1024], [0], [2]),
        ([-1], [-2000], [1], [-1]),
        ([-1], [-2000], [0], [-1]),
    ):
        yield from rows("Slice", SIZES, [A, C(starts), C(ends), C(axes), C(steps)])
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield from rows("Pad", "f32 u8 i64", [IMAGE, C([0, 0, 1, 1, 0, 0, 1, 1])], mode=mode)
        yield from rows("Pad", "f32", [A, C([3, 5, 7, 9])], mode=mode)
    yield from rows("Tile", SIZES, [X(256, 256), C([4, 4])], [X(1024, 1), C([1, 1024])])
    yield from rows("Tile", "f32", [X(1, 1024), C([1024, 1])], [X(64, 64, 64), C([1, 4, 1])])
    yield from rows("Tile", "f32", [X(1, 64, 10, 10), C([1, 1, 3, 3])], [X(65536, 3), C([1, 3])])
    yield from rows("Expand", SIZES, [X(1024, 1), C([1024, 1024])], [X(1024), C([1024, 1024])])
    yield from rows("Expand", "f32", [X(), C([1024, 1024])], [X(64, 1, 64), C([64, 64, 64])])
    yield from rows("Expand", SIZES, [X(34, 1, 10, 1), C([119, 34, 6, 10, 4])])
    yield from rows("Pad", "f32 u8", [X(64, 30, 57), C([0, 10, 0, 0, 10, 0])], mode="constant")
    yield from rows("Transpose", "f32", [X(8, 5, 100, 100)], perm=(0, 2, 3, 1))
    for mode in ("DCR", "CRD"):
        yield from rows("DepthToSpace", "f32 u8", [IMAGE], blocksize=2, mode=mode)
    yield from rows("SpaceToDepth", "f32", [IMAGE], blocksize=2)
    yield from rows("OneHot", "f32 i64", [index(4096, high=500), C(500), C([0, 1], "T")])
    yield from rows("OneHot", "f32", [index(64, 64, high=256), C(256), C([0, 1], "T")], axis=1)
    yield from rows("NonZero", "f32 i64 bool u8 i32", [X(1024, 1024, low=-1, high=2)])
    yield from rows("Compress", "f32 i64 u8", [A, X(1024, type="bool")], axis=0)
    yield from rows("Compress", "f32", [A, X(1024, type="bool")], axis=1)
    yield from rows("Compress", "f32", [A, X(1024 * 1024, type="bool")])
    yield from rows("Trilu", "f32 f64 i64 bool", [A], upper=1)
    yield from rows("Trilu", "f32", [X(16, 256, 256), C(3)], upper=0)
    yield from rows(
        "Range", "f32 i64 i32 f64", [X(low=0, high=1), X(low=1000000, high=1000001), C(1, "T")]
    )
    yield from rows("ConstantOfShape", "i64", [X(2, low=1024, high=1025)])
    yield from rows("EyeLike", "f32 f64 i64", [A])
    yield from rows("Shape Size", "f32", [A])
    lengths = X(64, low=1, high=128, type="i64")
    yield from rows(
        "ReverseSequence", "f32 i64", [X(128, 64, 64), lengths], batch_axis=1, time_axis=0
    )
