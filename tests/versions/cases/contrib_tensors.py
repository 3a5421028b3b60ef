"""Contributed operators that gather, cut and resample tensors, checked as those in `contrib.py`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.contrib import DOMAIN, checked


@cases("GatherND", domain=DOMAIN)
def gather_nd(request: Request) -> list[Case]:
    data = request.random("T", (2, 3, 4))
    found = [[[1, -1]], [[1], [0]], [1, 2], [[0, 1, 2]], [[[0, 0]], [[1, 2]]]]
    types = request.dtype("Tind")
    return [
        Case([data, np.array(given, types)], expected=[_gathered(data, given)], name=str(given))
        for given in found
    ]


def _gathered(data: np.ndarray, indices: list) -> np.ndarray:
    return data[tuple(np.moveaxis(np.array(indices), -1, 0))]


@cases("Range", domain=DOMAIN)
def range_(request: Request) -> list[Case]:
    found = []
    for bounds in ((1, 5), (1, 5, 2), (5, 1), (5, 1, -2), (-3, 9, 5)):
        for shape in ((), (1,)):
            given = [np.full(shape, bound, request.dtype("T")) for bound in bounds]
            expected = [np.arange(*bounds).astype(request.dtype("T"))]
            found.append(Case(given, expected=expected, name=f"{bounds} {shape}"))
    return found


@cases("UnfoldTensor", domain=DOMAIN)
def unfold_tensor(request: Request) -> list[Case]:
    x = request.random("T", (2, 9, 4))

    def case(x: np.ndarray, size: int, step: int = 1, dim: int = -1) -> Case:
        windows = np.lib.stride_tricks.sliding_window_view(x, size, dim)
        windows = windows[(slice(None),) * (dim % x.ndim) + (slice(None, None, step),)]
        attributes = {"size": size, "step": step, "dim": dim}
        return Case([x], attributes, expected=[windows.copy()], name=str(attributes))

    return [
        Case([x], {"size": 3}, expected=case(x, 3).expected),
        *(case(x, size, step, dim) for size, step, dim in product((1, 3), (1, 2, 3, 9), (1, -1))),
        case(x, 2, 1, 0),
        case(x, 4, 2, 1),
        case(x, 9, 1, -2),
        case(x[0, :, 0], 4, 4),
        case(x[:, :, :0], 2, 2, 1),
    ]


@cases("DynamicTimeWarping", domain=DOMAIN)
def dynamic_time_warping(request: Request) -> list[Case]:
    found = []
    for shape in ((5, 4), (1, 1), (1, 9), (9, 1), (1, 40, 70), (16, 33), (3, 0), (0, 3)):
        x = request.random("F", shape)
        found.append(Case([x], oracle="onnxruntime", name=str(shape)))
    ties = request.rng.integers(0, 3, (37, 50)).astype(np.float32)
    found.append(Case([ties], oracle="onnxruntime", name="ties"))
    ties[request.rng.random(ties.shape) < 0.1] = np.inf
    found.append(Case([ties], oracle="onnxruntime", name="infinite"))
    return found


@cases("CropAndResize", domain=DOMAIN)
def crop_and_resize(request: Request) -> list[Case]:
    x = request.random("T1", (2, 3, 7, 9))
    # The corners of an image, one pixel, turned around, partly outside and wholly.
    boxes = [[0, 0, 1, 1], [0.5, 0.25, 0.5, 0.25], [0.75, 1, 0.25, 0], [-0.5, 0.5, 0.5, 1.5]]
    rois = np.array([*boxes, [2, 2, 3, 3]], request.dtype("T1"))
    where = np.array([0, 1, 1, 0, 1], np.int32)
    found = []
    for size in ((4, 5), (1, 1), (1, 21), (13, 17)):
        for attributes in ({}, {"mode": "nearest"}, {"extrapolation_value": 7.5}):
            inputs = [x, rois, where, np.array(size, np.int32)]
            found.append(Case(inputs, attributes, name=f"{size} {attributes}"))
    found.append(Case([x, rois[:0], where[:0], np.array([2, 3], np.int32)], name="no boxes"))
    found = checked(request, found)
    for case in found:
        case.initializers = (3,)
    return found


@cases("MaxpoolWithMask", domain=DOMAIN)
def maxpool_with_mask(request: Request) -> list[Case]:
    found = []

    def add(spatial: tuple[int, ...], kernel: list[int], mask: Any = (1, 1), **given) -> None:
        x = request.random("T", (2, 3, *spatial))
        m = (request.rng.random((*mask, *spatial)) < 0.7).astype(np.int32)
        attributes = {"kernel_shape": kernel, **given}
        case = Case([x, m], attributes, name=f"{spatial} {mask} {attributes}")
        if mask == (1, 1):
            case.oracle = "onnxruntime"
        else:  # whatever the mask, ONNX Runtime reads about that of the first channel
            case.expected = lambda x, m: [_pooled(x, m, **attributes)]
        found.append(case)

    add((9,), [3])
    add((9,), [3], strides=[2], pads=[1, 1])
    add((9,), [4], auto_pad="SAME_LOWER", strides=[2])
    add((5, 6), [1, 2])
    add((5, 6), [3, 3], pads=[1, 1, 1, 1])
    add((5, 6), [3, 3], auto_pad="SAME_UPPER", strides=[2, 2])
    add((5, 6), [3, 1], auto_pad="VALID", strides=[1, 2])
    add((5, 6), [2, 3], pads=[0, 1, 1, 2], strides=[2, 1], storage_order=1)
    add((4, 5, 6), [2, 2, 3], pads=[0, 1, 1, 1, 0, 1], strides=[1, 2, 2])
    for mask in ((1, 3), (2, 1), (2, 3)):
        add((5, 6), [3, 3], mask, pads=[1, 1, 1, 1], strides=[2, 2])
    return found


def _pooled(x: np.ndarray, mask: np.ndarray, kernel_shape, pads, strides) -> np.ndarray:
    """Go through two-dimensional windows by the rule: a row counts up to a masked pixel."""
    mask = np.broadcast_to(mask, x.shape).copy()
    mask[:, :, 0, 0] = 1
    rows, columns = ((x.shape[2 + i] + 2 - 3) // strides[i] + 1 for i in range(2))
    y = np.full((*x.shape[:2], rows, columns), np.finfo(np.float32).min)
    for n, c, i, j in np.ndindex(y.shape):
        top, left = i * strides[0] - pads[0], j * strides[1] - pads[1]
        for row in range(max(0, top), min(x.shape[2], top + kernel_shape[0])):
            for column in range(max(0, left), min(x.shape[3], left + kernel_shape[1])):
                if not mask[n, c, row, column]:
                    break
                y[n, c, i, j] = max(y[n, c, i, j], x[n, c, row, column])
    return y


@cases("ConvTransposeWithDynamicPads", domain=DOMAIN)
def conv_transpose_with_dynamic_pads(request: Request) -> list[Case]:
    x, w = request.random("T", (1, 4, 4, 5)), request.random("T", (4, 3, 3, 3), -0.5, 0.5)
    bias = request.random("T", (3,))
    found = []

    def add(name: str, inputs: list, pads: list[int] | None, **attributes) -> None:
        given = inputs[:2] + ([np.array(pads, np.int64)] if pads else [None]) + inputs[2:]
        # Of constant pads, and of those that come with each run.
        for constant in ((2,), ()) if pads else ((),):
            found.append(Case(given, attributes, initializers=constant, name=f"{name} {constant}"))

    add("pads", [x, w], [1, 1, 1, 1])
    add("bias", [x, w, bias], [0, 1, 2, 0], strides=[2, 2])
    add("output_padding", [x, w, bias], [0, 1, 2, 0], strides=[2, 2], output_padding=[1, 0])
    add("kernel_shape", [x, w], [1, 0, 0, 1], kernel_shape=[3, 3], dilations=[2, 1])
    add("group", [x, w.reshape(4, 3, 3, 3)], [1, 0, 1, 0], group=2)
    add("upper", [x, w], [1, 1, 1, 1], auto_pad="SAME_UPPER", strides=[2, 2])
    add("lower", [x, w], [1, 1, 1, 1], auto_pad="SAME_LOWER", strides=[2, 3])
    add("valid", [x, w], [1, 1, 1, 1], auto_pad="VALID", strides=[2, 2])
    add("line", [x[:, :, 0], w[:, :, 0]], [1, 2])
    equals = [None] * len(found)
    zeros = np.zeros(4, np.int64)
    add("no pads", [x, w, bias], None)
    return checked(request, found, [*equals, Case([x, w, zeros, bias])])
