"""Reductions: Reduce*, ArgMax, ArgMin, CumSum, CumProd, and the variadic Max, Min, Sum, Mean."""

import numpy as np

from tests.versions.case import Case, Request, cases

REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]


def _reduce(op: str, x: np.ndarray, axes, keepdims: bool) -> list[np.ndarray]:
    """The operator in float64 (integers: int64, uint64), rounded once."""
    wide = x
    if x.dtype != bool:
        integer = np.issubdtype(x.dtype, np.integer)
        if op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean") or not integer:
            wide = x.astype(np.float64)
    axis = tuple(axes) if axes is not None else None
    how = {"axis": axis, "keepdims": keepdims}
    with np.errstate(all="ignore"):
        match op:
            case "ReduceL1":
                y = np.abs(wide).sum(**how)
            case "ReduceL2":
                y = np.sqrt((wide * wide).sum(**how))
            case "ReduceLogSum":
                y = np.log(wide.sum(**how))
            case "ReduceLogSumExp":
                y = np.log(np.exp(wide).sum(**how))
            case "ReduceMax":
                y = wide.max(**how)
            case "ReduceMean":
                y = wide.mean(**how)
            case "ReduceMin":
                y = wide.min(**how)
            case "ReduceProd":
                y = wide.prod(**how)
            case "ReduceSum":
                y = wide.sum(**how)
            case _:
                y = (wide * wide).sum(**how)
        if x.dtype != bool and np.issubdtype(x.dtype, np.integer) and y.dtype == np.float64:
            y = np.trunc(y)
        return [np.asarray(y).astype(x.dtype)]


@cases(*REDUCTIONS)
def reductions(request: Request) -> list[Case]:
    op = request.op
    positive = op in ("ReduceLogSum",)
    x = request.random("T", (3, 2, 4), low=1 if positive else None, high=4 if positive else None)
    axes_are_input = request.version >= (13 if op == "ReduceSum" else 18)
    made = []
    for name, axes, keepdims in (
        ("default", None, 1),
        ("middle", [1], 0),
        ("two", [0, 2], 1),
        ("negative", [-1], 1),
    ):
        if axes == [-1] and request.version < 11:
            continue
        attributes = {"keepdims": keepdims}
        inputs = [x]
        if axes is not None and axes_are_input:
            inputs.append(np.array(axes, np.int64))
        elif axes is not None:
            attributes["axes"] = axes
        made.append(
            Case(
                inputs,
                attributes,
                name=name,
                # One formula for all versions: the reference evaluator sums halves in halves.
                expected=_reduce(op, x, axes, bool(keepdims)),
                rtol=None if x.dtype.itemsize > 2 else 2e-2,
            )
        )
    if axes_are_input:
        empty = np.zeros(0, np.int64)
        made.append(
            Case(
                [x, empty],
                {"noop_with_empty_axes": 0},
                name="empty axes: all",
                expected=_reduce(op, x, None, True),
                rtol=None if x.dtype.itemsize > 2 else 2e-2,
            )
        )
    return made


@cases("ArgMax", "ArgMin")
def arg_reductions(request: Request) -> list[Case]:
    x = request.random("T", (3, 4, 2))
    x[0, 1] = x[0, 2]  # ties
    made = [
        Case([x]),
        Case([x], {"axis": 1, "keepdims": 0}, name="without the axis"),
    ]
    if request.version >= 11:
        made.append(Case([x], {"axis": -1}, name="negative axis"))
    if request.version >= 12:
        made.append(Case([x], {"axis": 1, "select_last_index": 1}, name="last"))
    return made


@cases("CumSum", "CumProd")
def cumulative(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 4))
    wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x.astype(np.int64)
    accumulate = np.cumsum if request.op == "CumSum" else np.cumprod
    neutral = 0 if request.op == "CumSum" else 1

    def expected(axis: int, exclusive: int, reverse: int) -> list[np.ndarray]:
        y = np.moveaxis(wide, axis, 0)
        if reverse:
            y = y[::-1]
        y = accumulate(y, axis=0)
        if exclusive:
            y = np.concatenate([np.full_like(y[:1], neutral), y[:-1]])
        if reverse:
            y = y[::-1]
        return [np.moveaxis(y, 0, axis).astype(x.dtype)]

    made = []
    for axis, exclusive, reverse in ((0, 0, 0), (1, 1, 0), (-1, 0, 1), (2, 1, 1)):
        made.append(
            Case(
                [x, np.array(axis, request.dtype("T2"))],
                {"exclusive": exclusive, "reverse": reverse},
                expected=expected(axis, exclusive, reverse),
                name=f"axis {axis}",
                rtol=None if x.dtype.itemsize > 2 else 2e-2,
            )
        )
    return made


@cases("Max", "Min", "Sum", "Mean")
def variadic(request: Request) -> list[Case]:
    x, y, z = (request.random("T", (2, 3)) for _ in range(3))
    fold = {"Max": np.maximum, "Min": np.minimum}.get(request.op, np.add)

    def expected(*arrays: np.ndarray) -> list[np.ndarray]:
        wide = [a if a.dtype.kind in "iu" else a.astype(np.float64) for a in arrays]
        total = wide[0]
        for other in wide[1:]:
            total = fold(total, other)
        if request.op == "Mean":
            total = total / len(arrays)
        return [np.asarray(total).astype(arrays[0].dtype)]

    made = [
        Case([x], expected=expected, name="one"),
        Case([x, y, z], expected=expected, name="three"),
    ]
    if request.version >= 8:
        made.append(Case([x, y[0], z[:, :1]], expected=expected, name="broadcast"))
    return made
