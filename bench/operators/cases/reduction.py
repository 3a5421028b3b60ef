"""Reductions, arg-reductions, cumulative, softmax, sorting."""

from __future__ import annotations

from collections.abc import Iterator

from bench.operators.case import C, Case, X, rows

B = X(64, 128, 128)
P = X(64, 128, 128, low=0.5, high=2)
AXES = ([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2])


def table() -> Iterator[Case]:
    """All rows."""
    for axes in AXES:
        yield from rows("ReduceSum ReduceMax ReduceMean", "f32 f64 i32 i64", [B, C(axes)])
    for axes in AXES[:5]:
        yield from rows(
            "ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceProd", "f32", [B, C(axes)]
        )
        yield from rows("ReduceLogSum ReduceLogSumExp", "f32", [P, C(axes)])
    yield from rows("ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare", "i32", [B, C([2])])
    yield from rows("ReduceMin ReduceMax", "i8 u8", [B, C([0])], [B, C([2])])
    yield from rows("ReduceMin ReduceMax", "bool", [B, C([2])])
    yield from rows("ReduceLogSumExp ReduceLogSum ReduceSumSquare", "f64", [P, C([1])], [P, C([2])])
    yield from rows(
        "ReduceMean",
        "f32",
        [X(8, 64, 56, 56), C([2, 3])],
        [X(8, 56, 56, 64), C([1, 2])],
        [X(14, 4, 14, 4, 256), C([1, 3])],
    )
    yield from rows("ReduceSum ReduceMax", "f32", [X(16, 16, 1024, 8), C([1, 3])])
    yield from rows("ReduceSum", "f32", [X(1000000, 3), C([1])], [X(3, 1000000), C([0])])
    # From memory, of few elements a row, and of few columns.
    yield from rows("ReduceSum ReduceMax ReduceMean", "f32", [X(4096, 4096), C([0])])
    yield from rows("ReduceSum ReduceMax ReduceMean", "f32", [X(1, 256, 256, 21), C([3])])
    yield from rows("ReduceMean ReduceMax", "f32", [X(256, 1024, 3), C([1])])
    yield from rows("ReduceProd ReduceLogSumExp", "f32", [X(1, 256, 256, 21), C([3])])
    for shape, axis in (((4096, 4096), 0), ((1, 256, 256, 21), 3), ((256, 1024, 3), 1)):
        yield from rows("ArgMax Softmax", "f32", [X(*shape)], axis=axis)
    for axis in range(3):
        yield from rows("ArgMax ArgMin", "f32 f64 i32 i8 u8", [B], axis=axis)
        yield from rows("CumSum", "f32 f64 i32 i64", [B, C(axis)])
        yield from rows("Softmax", "f32 f64 f16", [B], axis=axis)
        yield from rows("LogSoftmax", "f32 f64", [B], axis=axis)
        yield from rows("Hardmax", "f32", [B], axis=axis)
    yield from rows("ArgMax", "i64", [B], axis=2)
    yield from rows("ArgMax", "f32", [X(1000, 3000)], axis=1, select_last_index=1, keepdims=0)
    yield from rows("CumSum", "f32", [X(1000000), C(0)])
    yield from rows("CumSum", "f32", [B, C(1)], exclusive=1, reverse=1)
    yield from rows("CumProd", "f32 i64", [P, C(2)], version=26)
    yield from rows("Softmax", "f32", [X(5000, 49)], axis=-1)
    yield from rows("Softmax", "f32", [X(128, 1000)], [X(8, 1000, 1000)], [X(100000, 10)], axis=-1)
    for axis, k in ((2, 5), (2, 64), (1, 5), (0, 10)):
        yield from rows("TopK", "f32 f64 i64 i32", [B, C([k])], axis=axis, outputs=2)
    yield from rows("TopK", "f32", [X(64, 50000), C([1])], [X(64, 50000), C([100])], outputs=2)
    yield from rows("TopK", "f32", [X(64, 1024, 3), C([2])], axis=1, outputs=2)
    yield from rows("TopK", "f32", [X(1000000), C([1000])], outputs=2)
    yield from rows("TopK", "f32", [X(200, 8192), C([8192])], outputs=2)
    yield from rows("TopK", "f32", [X(200, 8192), C([50])], outputs=2, largest=0)
