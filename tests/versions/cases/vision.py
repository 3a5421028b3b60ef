"""Regions, boxes, sampling and blocks of images; expected values in float64 by NumPy."""

import itertools
import math

import numpy as np

from tests.versions.case import Case, Request, cases


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _narrow(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Interpolated values as `dtype`: integers round to nearest and stay in range."""
    if dtype.kind == "b":
        return np.round(values) != 0
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.clip(np.round(values), limits.min, limits.max).astype(dtype)
    return values.astype(dtype)


# ---- blocks and matrices


@cases("Col2Im")
def col2im(request: Request) -> list[Case]:
    made = []
    text = request.dtype("T").kind == "O"
    for name, image, block, attributes in (
        ("apart", (4, 6), (2, 3), {"strides": [2, 3]}),
        ("overlapping", (5, 5), (2, 3), {}),
        ("padded", (5, 4), (3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ("dilated", (6, 7), (2, 2), {"dilations": [2, 3]}),
        ("one axis", (6,), (3,), {}),
        ("three axes", (3, 4, 2), (2, 2, 1), {"pads": [0, 1, 0, 0, 1, 0]}),
    ):
        rank = len(image)
        strides = attributes.get("strides", [1] * rank)
        dilations = attributes.get("dilations", [1] * rank)
        pads = attributes.get("pads", [0] * 2 * rank)
        blocks = [
            (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i]
            + 1
            for i in range(rank)
        ]
        x = request.random("T", (2, 3 * math.prod(block), math.prod(blocks)))
        y = np.zeros((2, 3, *image), x.dtype if x.dtype.kind in "bO" else _wide(x).dtype)
        if text:
            y[...] = ""
        view = x.reshape(2, 3, *block, *blocks)
        for step in itertools.product(*map(range, block)):
            for at in itertools.product(*map(range, blocks)):
                to = [at[i] * strides[i] + step[i] * dilations[i] - pads[i] for i in range(rank)]
                if all(0 <= to[i] < image[i] for i in range(rank)):
                    y[(slice(None), slice(None), *to)] += view[
                        (slice(None), slice(None), *step, *at)
                    ].astype(y.dtype)
        sizes = [np.array(image, np.int64), np.array(block, np.int64)]
        note = "Where blocks of text overlap, their sum is one behind the other." if text else ""
        made.append(Case([x, *sizes], attributes, expected=[y], name=name, note=note))
        made.append(
            Case(
                [x, *sizes],
                attributes,
                expected=[y],
                name=f"{name}, constants",
                initializers=(1, 2),
            )
        )
    return made


@cases("Det")
def det(request: Request) -> list[Case]:
    made = [
        Case(
            [request.random("T", shape)],
            name=str(shape),
            expected=lambda x: [np.linalg.det(_wide(x))],
        )
        for shape in ((2, 2), (3, 4, 4), (2, 1, 1, 1), (2, 3, 3, 3), (0, 2, 2))
    ]
    singular = np.array([[1, 2], [2, 4]]).astype(request.dtype("T"))
    pivoted = np.array([[0, 1], [1, 0]]).astype(request.dtype("T"))
    return [
        *made,
        Case([singular], expected=[np.array(0.0)], name="singular"),
        Case([pivoted], expected=[np.array(-1.0)], name="pivoted"),
    ]


# ---- sampling


def _linear(image: np.ndarray, point: tuple[float, ...]) -> np.ndarray:
    """image [..., spatial] between its pixels; zero outside."""
    rank = len(point)
    total = np.zeros(image.shape[: image.ndim - rank], image.dtype)
    for corner in itertools.product((0, 1), repeat=rank):
        at = [math.floor(p) + c for p, c in zip(point, corner, strict=False)]
        weight = math.prod(1 - abs(p - i) for p, i in zip(point, at, strict=False))
        if all(0 <= i < size for i, size in zip(at, image.shape[-rank:], strict=False)):
            total = total + weight * image[(..., *at)]
    return total


@cases("DeformConv")
def deform_conv(request: Request) -> list[Case]:
    made = []

    def add(
        name,
        sizes,
        kernel,
        *,
        channels=2,
        outputs=2,
        group=1,
        offset_group=1,
        bias=False,
        mask=False,
        **window,
    ):
        rank = len(sizes)
        strides = window.get("strides", [1] * rank)
        dilations = window.get("dilations", [1] * rank)
        pads = window.get("pads", [0] * 2 * rank)
        out = [
            (sizes[i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i]
            + 1
            for i in range(rank)
        ]
        x = request.random("T", (2, channels, *sizes))
        w = request.random("T", (outputs, channels // group, *kernel))
        area = math.prod(kernel)
        offset = request.random("T", (2, offset_group * area * rank, *out))
        b = request.random("T", (outputs,)) if bias else None
        m = request.random("T", (2, offset_group * area, *out)) if mask else None
        moved = _wide(offset).reshape(2, offset_group, area, rank, *out)
        scale = np.ones((2, offset_group, area, *out))
        if mask:
            scale = _wide(m).reshape(scale.shape)
        images = _wide(x).reshape(2, offset_group, channels // offset_group, *sizes)
        columns = np.zeros((2, offset_group, channels // offset_group, area, *out))
        for n, g in itertools.product(range(2), range(offset_group)):
            for t, step in enumerate(itertools.product(*map(range, kernel))):
                for o in itertools.product(*map(range, out)):
                    point = tuple(
                        o[i] * strides[i]
                        + step[i] * dilations[i]
                        - pads[i]
                        + moved[(n, g, t, i, *o)]
                        for i in range(rank)
                    )
                    columns[(n, g, slice(None), t, *o)] = (
                        _linear(images[n, g], point) * scale[(n, g, t, *o)]
                    )
        columns = columns.reshape(2, group, channels // group * area, -1)
        filters = _wide(w).reshape(group, outputs // group, -1)
        y = np.einsum("gok,ngkp->ngop", filters, columns).reshape(2, outputs, *out)
        if bias:
            y = y + _wide(b).reshape(-1, *[1] * rank)
        attributes = {**window, "group": group, "offset_group": offset_group}
        eps = 2.0**-10 if request.dtype("T") == np.float16 else None
        made.append(Case([x, w, offset, b, m], attributes, expected=[y], name=name, atol=eps))

    add("plain", (5, 5), (3, 3))
    add("padded, strided", (5, 6), (2, 3), pads=[1, 0, 1, 2], strides=[2, 1], kernel_shape=[2, 3])
    add("groups", (4, 4), (2, 2), channels=4, outputs=4, group=2, bias=True)
    add(
        "offset groups", (4, 5), (2, 2), channels=4, outputs=2, offset_group=2, mask=True, bias=True
    )
    add("dilated", (6, 6), (2, 2), dilations=[2, 3], mask=True)
    add("one axis", (7,), (3,))
    add("three axes", (3, 4, 3), (2, 2, 2))
    return made


def _reflect(x, low, high):
    if high <= low:
        return np.zeros_like(x)
    span = high - low
    folded = np.mod(x - low, 2 * span)
    return low + np.where(folded > span, 2 * span - folded, folded)


def _grid_sample(x, grid, mode, padding, align):
    """In any number of dimensions; coordinates in the grid's type, or float32 if that is less."""
    rank = x.ndim - 2
    compute = np.float64 if grid.dtype == np.float64 else np.float32
    reach = {"nearest": [0], "linear": [0, 1], "cubic": [-1, 0, 1, 2]}[mode]
    axes = []
    for axis in range(rank):
        n = x.shape[axis + 2]
        at = grid[..., rank - 1 - axis].astype(compute)
        at = (at + 1) / 2 * (n - 1) if align else ((at + 1) * n - 1) / 2
        if mode == "nearest":
            at = np.rint(at)
        at = at.astype(np.float64)
        low, high = (0, n - 1) if align else (-0.5, n - 0.5)
        outside = (at < low) | (at > high)
        if padding == "border":
            beyond = 3 if mode == "cubic" else 0
            at = np.where(outside, np.clip(at, -beyond, n - 1 + beyond), at)
        elif padding == "reflection":
            at = np.where(outside, _reflect(at, low, high), at)
        first = np.floor(at).astype(np.int64)
        taps = []
        for step in reach:
            d = np.abs(at - first - step)
            if mode == "nearest":
                weight = np.ones_like(d)
            elif mode == "linear":
                weight = 1 - d
            else:
                a = -0.75
                near = ((a + 2) * d - (a + 3)) * d * d + 1
                weight = np.where(d <= 1, near, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
            index = first + step
            inside = (index >= 0) & (index < n)
            if padding == "zeros":
                weight = weight * inside
            elif padding == "reflection":
                index = np.where(inside, index, _reflect(index, low, high).astype(np.int64))
            taps.append((np.clip(index, 0, n - 1), weight))
        axes.append(taps)
    image = x if x.dtype.kind == "O" else _wide(x)
    y = 0
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * rank)
    for chosen in itertools.product(*axes):
        values = np.moveaxis(image[(batch, slice(None), *(index for index, _ in chosen))], -1, 1)
        if x.dtype.kind == "O":
            return values
        y = y + values * math.prod(weight for _, weight in chosen)[:, None]
    return _narrow(y, x.dtype)


@cases("GridSample")
def grid_sample(request: Request) -> list[Case]:
    made = []
    text = request.dtype("T1").kind in "Ob"
    plain = request.version < 20
    modes = {
        "nearest": "nearest",
        "linear": "bilinear" if plain else "linear",
        "cubic": "bicubic" if plain else "cubic",
    }
    shapes = (
        [((2, 2, 3, 4), (2, 3))]
        if plain
        else [((2, 2, 3, 4), (2, 3)), ((1, 2, 3, 2, 3), (2, 2, 2)), ((1, 1, 5), (4,))]
    )
    for (shape, points), (mode, name), padding, align in itertools.product(
        shapes, modes.items(), ("zeros", "border", "reflection"), (0, 1)
    ):
        if text and (mode != "nearest" or padding == "zeros"):
            continue
        x = request.random("T1", shape)
        # Far from where `nearest` is undecided.
        grid = (
            np.round(request.rng.uniform(-1.9, 1.9, (shape[0], *points, len(shape) - 2)) * 8) / 8
            + 0.03125
        ).astype(request.dtype("T2"))
        expected = [_grid_sample(x, grid, mode, padding, align)]
        narrow = {"float16": 4e-3, "bfloat16": 3e-2}.get(request.dtype("T1").name)
        made.append(
            Case(
                [x, grid],
                {"mode": name, "padding_mode": padding, "align_corners": align},
                expected=expected,
                atol=narrow,
                name=f"{mode}, {padding}, {align}, rank {len(shape)}",
                note="cubic windows beyond the border see pixels of the border, as in ONNX Runtime "
                "and PyTorch, for which the operator was made; the reference evaluator moves the "
                "place onto the border first"
                if mode == "cubic" and padding == "border"
                else "",
            )
        )
    return made


@cases("AffineGrid")
def affine_grid(request: Request) -> list[Case]:
    made = []
    for size, align in itertools.product(((2, 3, 4, 5), (1, 1, 3, 2, 4), (1, 2, 1, 3)), (0, 1)):
        rank = len(size) - 2
        theta = request.random("T1", (size[0], rank, rank + 1))
        lines = []
        for n in reversed(size[2:]):
            centers = (2 * np.arange(n) + 1) / n - 1
            lines.append(
                np.linspace(-1, 1, n) if align and n > 1 else centers if not align else np.zeros(n)
            )
        points = np.meshgrid(*reversed(lines), indexing="ij")[::-1]
        homogeneous = np.stack([*points, np.ones_like(points[0])], -1)
        wanted = np.einsum("...k,nrk->n...r", homogeneous, _wide(theta))
        made.append(
            Case(
                [theta, np.array(size, np.int64)],
                {"align_corners": align},
                expected=[wanted],
                name=f"{size}, {align}",
            )
        )
    return made


# ---- regions and boxes


@cases("RoiAlign")
def roi_align(request: Request) -> list[Case]:
    x = request.random("T1", (2, 2, 6, 7))
    rois = np.array(
        [[0, 0, 4, 4], [1, 2, 6, 5], [-2, -1, 9, 8], [3, 3, 3.5, 3.25], [10, 10, 14, 14]]
    ).astype(request.dtype("T1"))
    batch = np.array([0, 1, 1, 0, 0], request.dtype("T2"))
    transformations = ["half_pixel", "output_half_pixel"] if request.version >= 16 else [None]
    made = []
    for transformation, mode, ratio, scale in itertools.product(
        transformations, ("avg", "max"), (0, 2), (1.0, 0.5)
    ):
        attributes = {
            "mode": mode,
            "sampling_ratio": ratio,
            "spatial_scale": scale,
            "output_height": 2,
            "output_width": 3,
        }
        if transformation:
            attributes["coordinate_transformation_mode"] = transformation

        def wanted(x, rois, batch, given=attributes):
            return [_roi_align(_wide(x), _wide(rois), batch, given)]

        made.append(
            Case(
                [x, rois, batch],
                attributes,
                expected=wanted,
                name=f"{transformation}, {mode}, {ratio}, {scale}",
                note="max is over products of pixels and weights, as the reference "
                "evaluator and ONNX Runtime have it."
                if mode == "max"
                else "",
            )
        )
    return made


def _roi_align(x, rois, batch, given):
    rows, columns = given["output_height"], given["output_width"]
    half = given.get("coordinate_transformation_mode") == "half_pixel"
    y = np.zeros((len(rois), x.shape[1], rows, columns))
    for r, (x1, y1, x2, y2) in enumerate(rois * given["spatial_scale"] - (0.5 if half else 0)):
        axes = []
        for start, end, count in ((y1, y2, rows), (x1, x2, columns)):
            extent = end - start if half else max(end - start, 1)
            bin_ = extent / count
            samples = given["sampling_ratio"] or math.ceil(bin_)
            axes.append(
                [
                    [start + o * bin_ + (i + 0.5) * bin_ / samples for i in range(samples)]
                    for o in range(count)
                ]
            )
        for o, p in itertools.product(range(rows), range(columns)):
            found = []
            for v, h in itertools.product(axes[0][o], axes[1][p]):
                products = np.zeros((4, x.shape[1]))
                if -1 <= v <= x.shape[2] and -1 <= h <= x.shape[3]:
                    v, h = min(max(v, 0), x.shape[2] - 1), min(max(h, 0), x.shape[3] - 1)
                    for k, (i, j) in enumerate(itertools.product((0, 1), repeat=2)):
                        at = min(int(v) + i, x.shape[2] - 1), min(int(h) + j, x.shape[3] - 1)
                        weight = (1 - abs(v - int(v) - i)) * (1 - abs(h - int(h) - j))
                        products[k] = weight * x[batch[r], :, at[0], at[1]]
                found.append(products)
            if found:
                found = np.stack(found)
                y[r, :, o, p] = (
                    found.max((0, 1)) if given["mode"] == "max" else found.sum(1).mean(0)
                )
    return y


@cases("MaxRoiPool")
def max_roi_pool(request: Request) -> list[Case]:
    x = request.random("T", (2, 3, 6, 7))
    rois = np.array(
        [[0, 0, 0, 4, 4], [1, 1, 2, 6, 5], [1, 3, 3, 3, 3], [0, 5, 4, 12, 9], [0, 8, 8, 9, 9]]
    ).astype(request.dtype("T"))

    def wanted(x, rois, pooled, scale):
        y = np.zeros((len(rois), x.shape[1], *pooled))
        for r, (image, *corners) in enumerate(_wide(rois)):
            x1, y1, x2, y2 = (math.floor(corner * scale + 0.5) for corner in corners)
            for i, j in itertools.product(*map(range, pooled)):
                parts = []
                for start, end, size, count, o in (
                    (y1, y2, x.shape[2], pooled[0], i),
                    (x1, x2, x.shape[3], pooled[1], j),
                ):
                    step = max(end - start + 1, 1) / count
                    low, high = start + math.floor(o * step), start + math.ceil((o + 1) * step)
                    parts.append(slice(min(max(low, 0), size), min(max(high, 0), size)))
                bin_ = _wide(x)[int(image), :, parts[0], parts[1]]
                y[r, :, i, j] = bin_.max((1, 2)) if bin_.size else 0
        return [y]

    return [
        Case(
            [x, rois],
            {"pooled_shape": pooled, "spatial_scale": scale},
            name=f"{pooled}",
            expected=lambda x, rois, p=pooled, s=scale: wanted(x, rois, p, s),
        )
        for pooled, scale in (([2, 2], 1.0), ([3, 1], 0.5), ([1, 1], 1.0))
    ]


@cases("NonMaxSuppression")
def non_max_suppression(request: Request) -> list[Case]:
    corners = request.rng.uniform(0, 1, (2, 12, 4)).astype(np.float32)
    centers = np.concatenate([corners[..., :2], corners[..., 2:] / 2], -1)
    scores = np.round(request.rng.uniform(0, 1, (2, 3, 12)), 1).astype(np.float32)  # with ties

    def scalar(value, dtype=np.float32):
        return np.array([value], dtype)

    most = scalar(5, np.int64)
    made = []
    for center, boxes in enumerate((corners, centers)):
        given = {"center_point_box": center}
        for overlap, least in ((0.0, None), (0.3, None), (0.5, 0.4), (1.0, 0.2), (0.2, 2.0)):
            inputs = [boxes, scores, most, scalar(overlap)]
            inputs += [] if least is None else [scalar(least)]
            made.append(Case(inputs, given, name=f"center {center}, {overlap}, {least}"))
    nothing = np.zeros((0, 3), np.int64)
    return [
        *made,
        Case([corners, scores], expected=[nothing], name="no limit: no boxes"),
        Case([corners, scores, scalar(0, np.int64), scalar(0.5)], expected=[nothing], name="0"),
        Case([corners, scores, most], oracle="onnxruntime", name="default overlap"),
        Case(
            [corners[:, :0], scores[:, :, :0], most, scalar(0.5)],
            expected=[nothing],
            name="no boxes",
        ),
        Case(
            [corners, scores, most, scalar(0.5), scalar(0.0)],
            initializers=(2, 3, 4),
            name="constants",
        ),
    ]


@cases("CenterCropPad")
def center_crop_pad(request: Request) -> list[Case]:
    x = request.random("T", (4, 5, 3))
    kind = request.dtype("Tind")
    made = []
    for axes, shape in (
        (None, (2, 8, 3)),
        (None, (7, 2, 4)),
        ([1], (2,)),
        ([-1, 0], (6, 1)),
        ([2, 1], (0, 5)),
    ):
        order = range(3) if axes is None else axes
        y = x
        for axis, size in zip(order, shape, strict=False):
            have = y.shape[axis]
            if size <= have:
                start = (have - size) // 2
                y = np.take(y, np.arange(start, start + size), axis)
            else:
                sizes = list(y.shape)
                sizes[axis] = size
                room = (
                    np.full(sizes, "", object) if x.dtype.kind == "O" else np.zeros(sizes, x.dtype)
                )
                at = [slice(None)] * 3
                at[axis] = slice((size - have) // 2, (size - have) // 2 + have)
                room[tuple(at)] = y
                y = room
        attributes = {} if axes is None else {"axes": axes}
        inputs = [x, np.array(shape, kind)]
        made.append(Case(inputs, attributes, expected=[y], name=f"{axes} to {shape}"))
        made.append(
            Case(
                inputs,
                attributes,
                expected=[y],
                name=f"{axes} to {shape}, constant",
                initializers=(1,),
            )
        )
    return made
