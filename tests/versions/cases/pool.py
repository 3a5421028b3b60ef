"""Pools over windows and over whole images; expected values in float64 by NumPy."""

import itertools
import math
from functools import partial

import numpy as np

from tests.versions.case import Case, Request, cases


def _geometry(size, kernel, stride, dilation, before, after, ceil, auto_pad):
    """Number of windows and padding before the first, by the formulas of the standard's text."""
    extent = (kernel - 1) * dilation + 1
    if auto_pad.startswith("SAME"):
        count = math.ceil(size / stride)
        total = max((count - 1) * stride + extent - size, 0)
        before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        return count, before, total - before
    if auto_pad == "VALID":
        before = after = 0
    count = (math.ceil if ceil else math.floor)((size + before + after - extent) / stride) + 1
    if ceil and (count - 1) * stride >= size + before:
        count -= 1  # it would start behind the image
    return count, before, after


def _pool(
    x,
    finish,
    *,
    kernel_shape,
    strides=None,
    dilations=None,
    pads=None,
    ceil_mode=0,
    auto_pad="NOTSET",
    **_,
):
    """finish(values of a window within the image [N,C,count], positions, padded count)."""
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * 2 * rank
    axes = [
        _geometry(
            x.shape[i + 2],
            kernel_shape[i],
            strides[i],
            dilations[i],
            pads[i],
            pads[rank + i],
            ceil_mode,
            auto_pad,
        )
        for i in range(rank)
    ]
    y = [np.zeros((*x.shape[:2], *(count for count, _, _ in axes))) for _ in range(2)]
    for out in itertools.product(*(range(count) for count, _, _ in axes)):
        inside, padded = [], 0
        for step in itertools.product(*map(range, kernel_shape)):
            at = [out[i] * strides[i] + step[i] * dilations[i] - axes[i][1] for i in range(rank)]
            padded += all(at[i] < x.shape[i + 2] + axes[i][2] for i in range(rank))
            if all(0 <= at[i] < x.shape[i + 2] for i in range(rank)):
                inside.append(at)
        values = np.stack([x[(slice(None), slice(None), *at)] for at in inside], -1)
        for part, value in zip(y, finish(values.astype(np.float64), inside, padded), strict=False):
            part[(slice(None), slice(None), *out)] = value
    return y


def _largest(x, storage_order, values, inside, _):
    """Each window's largest value and its flat index, the first where several are equal."""
    sizes = x.shape[2:]
    order = "F" if storage_order else "C"
    flat = np.array([np.ravel_multi_index(at, sizes, order=order) for at in inside])
    image = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) * math.prod(sizes)
    return values.max(-1), image + flat[values.argmax(-1)]


def _mean(include, values, _, padded):
    return (values.sum(-1) / (padded if include else values.shape[-1]),)


def _norm(p, values, *_):
    return ((np.abs(values) ** p).sum(-1) ** (1 / p),)


GEOMETRIES = [
    ("plain", (2, 3, 8), {"kernel_shape": [3]}),
    ("strided", (1, 2, 7, 9), {"kernel_shape": [3, 2], "strides": [2, 3]}),
    ("padded", (2, 2, 5, 6), {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "strides": [2, 1]}),
    (
        "same upper",
        (1, 2, 7, 6),
        {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    ("same lower", (1, 2, 7, 6), {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER"}),
    ("valid", (1, 2, 7, 6), {"kernel_shape": [2, 3], "auto_pad": "VALID", "strides": [2, 2]}),
    ("three axes", (1, 2, 4, 5, 3), {"kernel_shape": [2, 3, 2], "strides": [1, 2, 1]}),
]
CEILED = [
    ("ceil", (1, 2, 6, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    (
        "ceil, padded",
        (1, 1, 4, 7),
        {"kernel_shape": [2, 3], "strides": [3, 3], "pads": [1, 1, 0, 1], "ceil_mode": 1},
    ),
    (
        "ceil, last window dropped",
        (1, 1, 2, 2),
        {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1},
    ),
]
DILATED = [
    ("dilated", (1, 2, 7, 8), {"kernel_shape": [3, 2], "dilations": [2, 3]}),
    (
        "dilated, same",
        (1, 2, 7, 8),
        {"kernel_shape": [3, 2], "dilations": [2, 1], "auto_pad": "SAME_UPPER"},
    ),
]


def _geometries(request: Request):
    made = list(GEOMETRIES)
    if "ceil_mode" in request.schema.attributes:
        made += CEILED
    if "dilations" in request.schema.attributes:
        made += DILATED
    return made


@cases("MaxPool")
def max_pool(request: Request) -> list[Case]:
    made = []
    for name, shape, attributes in _geometries(request):
        x = request.random("T", shape)
        largest = _pool(x, lambda v, *_: (v.max(-1),), **attributes)[0]
        made.append(Case([x], attributes, outputs=1, expected=[largest], name=name))
        for order in (0, 1) if request.version >= 8 else ():
            both = _pool(x, partial(_largest, x, order), **attributes)
            made.append(
                Case(
                    [x],
                    {**attributes, "storage_order": order},
                    expected=both,
                    name=f"{name}, indices in storage order {order}",
                )
            )
    return made


@cases("AveragePool")
def average_pool(request: Request) -> list[Case]:
    made = []
    for name, shape, attributes in _geometries(request):
        x = request.random("T", shape)
        for include in (0, 1) if request.version >= 7 else (0,):
            mean = _pool(x, partial(_mean, include), **attributes)[0]
            given = {**attributes, "count_include_pad": include} if include else attributes
            made.append(Case([x], given, expected=[mean], name=f"{name}, padding {include}"))
    return made


def _opset(request: Request) -> int | None:
    """A later opset with the same version: the onnx package builds no models of opsets 2 to 4."""
    return 5 if request.version == 2 else None


@cases("LpPool")
def lp_pool(request: Request) -> list[Case]:
    made = []
    for name, shape, attributes in _geometries(request):
        x = request.random("T", shape)
        for p in (1, 2, 3) if request.version > 1 else (1.0, 2.0, 2.5):
            norm = _pool(x, partial(_norm, p), **attributes)[0]
            made.append(
                Case(
                    [x],
                    {**attributes, "p": p},
                    expected=[norm],
                    name=f"{name}, p {p}",
                    opset=_opset(request),
                )
            )
    return made


@cases("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(request: Request) -> list[Case]:
    made = []
    for shape in ((2, 3, 4), (1, 2, 3, 5), (2, 1, 2, 3, 2)):
        x = request.random("T", shape)
        axes = tuple(range(2, len(shape)))
        wide = x.astype(np.float64)
        if request.op != "GlobalLpPool":
            reduce = np.max if request.op == "GlobalMaxPool" else np.mean
            made.append(Case([x], expected=[reduce(wide, axes, keepdims=True)], name=str(shape)))
            continue
        for p in (1, 2, 3) if request.version > 1 else (1.0, 2.0, 2.5):
            norm = (np.abs(wide) ** p).sum(axes, keepdims=True) ** (1 / p)
            made.append(
                Case([x], {"p": p}, expected=[norm], name=f"{shape}, p {p}", opset=_opset(request))
            )
    return made


@cases("MaxUnpool")
def max_unpool(request: Request) -> list[Case]:
    made = []
    for name, shape, attributes in (
        ("plain", (2, 2, 8), {"kernel_shape": [2], "strides": [2]}),
        ("padded", (1, 2, 7, 6), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}),
        ("three axes", (1, 1, 4, 4, 2), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
    ):
        image = np.asarray(request.rng.permutation(math.prod(shape)), np.float64).reshape(shape)
        _, indices = _pool(image, partial(_largest, image, 0), **attributes)
        indices = indices.astype(np.int64)
        x = request.random("T1", indices.shape, low=1, high=2)
        wanted = np.zeros(math.prod(shape), x.dtype)
        wanted[indices.reshape(-1)] = x.reshape(-1)
        wanted = wanted.reshape(shape)
        made.append(Case([x, indices], attributes, expected=[wanted], name=name))
        larger = (*shape[:2], *(size + 2 for size in shape[2:]))
        room = np.zeros(larger, x.dtype)
        room[tuple(map(slice, shape))] = wanted
        made.append(
            Case(
                [x, indices, np.array(larger, np.int64)],
                attributes,
                expected=[room],
                name=f"{name}, larger",
            )
        )
    return made
