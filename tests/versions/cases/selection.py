"""Operators that choose, scatter, count and order elements."""

import numpy as np

from tests.versions.case import Case, Request, cases


@cases("Compress")
def compress(request: Request) -> list[Case]:
    x = request.random("T", (3, 4))
    condition = np.array([True, False, True])
    flat = np.array([False, True, True, False, False, True])
    return [
        Case([x, condition], {"axis": 0}, expected=[x[condition]]),
        Case(
            [x, np.array([False, True])],
            {"axis": 1},
            expected=[x[:, 1:2].copy()],
            name="short condition",
        ),
        Case([x, flat], expected=[x.reshape(-1)[:6][flat]], name="flat"),
        *(
            [Case([x, condition], {"axis": -2}, expected=[x[condition]], name="negative axis")]
            if request.version >= 11
            else []
        ),
    ]


@cases("NonZero")
def non_zero(request: Request) -> list[Case]:
    x = request.random("T", (3, 4))
    x[0, 1] = "" if x.dtype == object else np.zeros((), x.dtype)
    kept = np.vectorize(bool, otypes=[bool])(x) if x.dtype == object else x.astype(bool)
    positions = np.array(np.nonzero(kept), np.int64)
    return [Case([x], expected=[positions])]


@cases("OneHot")
def one_hot(request: Request) -> list[Case]:
    depth = 4
    indices = np.array([[0, 3], [2, 1]]).astype(request.dtype("T1"))
    values = request.random("T3", (2,))

    def expected(axis: int, indices=indices) -> list[np.ndarray]:
        chosen = np.asarray(indices).astype(np.int64) % depth
        hot = chosen[..., None] == np.arange(depth)
        y = np.where(hot, values[1], values[0]).astype(values.dtype)
        return [np.moveaxis(y, -1, axis).copy()]

    made = []
    for depth_shape in ((), (1,)):
        d = np.full(depth_shape, depth).astype(request.dtype("T2"))
        for axis in (-1, 0, 1):
            made.append(
                Case(
                    [indices, d, values],
                    {"axis": axis},
                    expected=expected(axis),
                    name=f"axis {axis} depth {depth_shape}",
                )
            )
    if np.issubdtype(indices.dtype, np.signedinteger) and request.version >= 11:
        negative = np.array([-1, -4, 1]).astype(indices.dtype)
        made.append(
            Case(
                [negative, np.array(depth).astype(request.dtype("T2")), values],
                expected=expected(-1, negative),
                name="negative indices",
            )
        )
    return made


def _combine(old, new, reduction: str):
    """One element after another, as the standard's pseudo code does."""
    if reduction == "none":
        return new
    if old.dtype == bool:
        return {"add": old | new, "mul": old & new, "max": old | new, "min": old & new}[reduction]
    wide = (
        (old, new)
        if old.dtype.kind in "iu"
        else (
            np.asarray(old).astype(np.complex128 if old.dtype.kind == "c" else np.float64),
            np.asarray(new).astype(np.complex128 if old.dtype.kind == "c" else np.float64),
        )
    )
    how = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    with np.errstate(over="ignore"):
        return np.asarray(how(*wide)).astype(old.dtype)


def _reductions(request: Request, x: np.ndarray) -> list[str]:
    if "reduction" not in request.schema.attributes or x.dtype == object:
        return ["none"]
    if x.dtype.kind == "c":
        return ["none", "add", "mul"]
    more = ["max", "min"] if request.version >= 18 else []
    return ["none", "add", "mul", *more]


@cases("Scatter", "ScatterElements")
def scatter_elements(request: Request) -> list[Case]:
    x = request.random("T", (3, 4))
    index = request.dtype("Tind")
    made = []
    for reduction in _reductions(request, x):
        for axis in (0, 1, -1):
            if axis < 0 and request.version < 11:
                continue
            if reduction == "none":  # an index twice would leave the result open
                order = np.argsort(request.rng.random((3, 4)), axis=axis)
                indices = (order[:2, :3] % 3 if axis == 0 else order[:2, :3]).astype(index)
            else:
                indices = request.rng.integers(-x.shape[axis], x.shape[axis], (2, 3)).astype(index)
            updates = request.random("T", (2, 3))
            y = x.copy()
            for at in np.ndindex(2, 3):
                target = list(at)
                target[axis] = int(indices[at])
                y[tuple(target)] = _combine(y[tuple(target)], updates[at], reduction)
            attributes = {"axis": axis} | ({"reduction": reduction} if reduction != "none" else {})
            made.append(
                Case(
                    [x, indices, updates], attributes, expected=[y], name=f"{reduction} axis {axis}"
                )
            )
    return made


@cases("ScatterND")
def scatter_nd(request: Request) -> list[Case]:
    x = request.random("T", (4, 3))
    made = []
    for reduction in _reductions(request, x):
        attributes = {"reduction": reduction} if reduction != "none" else {}
        repeated = [[1], [3], [1]] if reduction != "none" else [[1], [3], [-4]]
        rows = np.array(repeated, np.int64)
        updates = request.random("T", (3, 3))
        y = x.copy()
        for i, row in enumerate(rows[:, 0]):
            for j in range(3):
                y[row, j] = _combine(y[row, j], updates[i, j], reduction)
        made.append(Case([x, rows, updates], attributes, expected=[y], name=f"{reduction} rows"))
        elements = np.array([[0, 1], [2, 2]], np.int64)
        updates = request.random("T", (2,))
        y = x.copy()
        for i, (row, column) in enumerate(elements):
            y[row, column] = _combine(y[row, column], updates[i], reduction)
        made.append(
            Case([x, elements, updates], attributes, expected=[y], name=f"{reduction} elements")
        )
    return made


@cases("TopK")
def topk(request: Request) -> list[Case]:
    # All different, since the order of equal elements is the engine's choice but for ties.
    x = request.rng.permutation(20).reshape(4, 5).astype(request.dtype("T"))

    def expected(k: int, axis: int, largest: int = 1) -> list[np.ndarray]:
        wide = x.astype(np.float64)
        order = np.argsort(-wide if largest else wide, axis=axis, kind="stable")
        order = np.take(order, np.arange(k), axis)
        return [np.take_along_axis(x, order, axis), order.astype(np.int64)]

    if request.version == 1:
        return [
            Case([x], {"k": 2}, expected=expected(2, -1)),
            Case([x], {"k": 3, "axis": 0}, expected=expected(3, 0), name="axis"),
        ]
    k = np.array([3], np.int64)
    made = [
        Case([x, k], expected=expected(3, -1)),
        Case([x, k], {"axis": 0}, expected=expected(3, 0), name="axis"),
        Case([x, np.array([0])], expected=expected(0, -1), name="none"),
        Case(
            [x[:, :0], np.array([0])],
            expected=[x[:, :0], x[:, :0].astype(np.int64)],
            name="of none",
        ),
    ]
    if request.version >= 11:
        made.append(
            Case([x, k], {"axis": -2, "largest": 0}, expected=expected(3, 0, 0), name="smallest")
        )
        ties = np.zeros((2, 6), x.dtype)
        made.append(
            Case(
                [ties, k],
                name="ties: lower index first",
                expected=[ties[:, :3], np.tile(np.arange(3), (2, 1))],
            )
        )
    return made


@cases("Range")
def range_(request: Request) -> list[Case]:
    dtype = request.dtype("T")
    made = []
    for start, limit, delta in ((1, 9, 3), (5, 0, -2), (3, 3, 1), (0, 4, 1)):
        y = np.arange(start, limit, delta).astype(dtype)
        made.append(
            Case(
                [np.array(v).astype(dtype) for v in (start, limit, delta)],
                expected=[y],
                name=f"{start} {limit} {delta}",
            )
        )
    if dtype.kind == "f":
        y = np.arange(0.5, 2.0, 0.25).astype(dtype)
        made.append(
            Case(
                [np.array(v).astype(dtype) for v in (0.5, 2.0, 0.25)],
                expected=[y],
                name="fractions",
            )
        )
    return made


@cases("IsInf", "IsNaN")
def classes_of_floats(request: Request) -> list[Case]:
    parameter = "T1" if request.op == "IsInf" or request.version >= 9 else "T"
    dtype = request.dtype(parameter)
    with np.errstate(all="ignore"):
        x = np.array([-1.0, 0.0, 2.0, np.inf, -np.inf, np.nan]).astype(dtype)
    wide = x.astype(np.float32 if dtype.itemsize < 4 else dtype)
    if request.op == "IsNaN":
        return [Case([x], expected=[np.isnan(wide)])]
    made = []
    for negative, positive in ((1, 1), (1, 0), (0, 1), (0, 0)):
        y = (np.isposinf(wide) & bool(positive)) | (np.isneginf(wide) & bool(negative))
        made.append(
            Case(
                [x],
                {"detect_negative": negative, "detect_positive": positive},
                expected=[y],
                name=f"{negative} {positive}",
            )
        )
    return made


@cases("Clip")
def clip(request: Request) -> list[Case]:
    x = request.random("T", (3, 4))
    low, high = (np.array(v).astype(x.dtype) for v in (0, 1))
    wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    limited = np.clip(wide, low.astype(wide.dtype), high.astype(wide.dtype)).astype(x.dtype)
    below = np.minimum(wide, high.astype(wide.dtype)).astype(x.dtype)
    above = np.maximum(wide, low.astype(wide.dtype)).astype(x.dtype)
    if request.version < 11:
        old = {"consumed_inputs": [0]} if request.version == 1 else {}
        return [
            Case([x], {"min": 0.0, "max": 1.0, **old}, expected=[limited]),
            Case([x], {"max": 1.0}, expected=[below], name="max"),
            Case([x], {"min": 0.0}, expected=[above], name="min"),
            Case([x], expected=[x], name="no limits"),
        ]
    return [
        Case([x, low, high], expected=[limited]),
        Case([x, None, high], expected=[below], name="max"),
        Case([x, low], expected=[above], name="min"),
        Case([x], expected=[x], name="no limits"),
        Case([x, low, high], expected=[limited], initializers=[1, 2], name="constants"),
    ]
