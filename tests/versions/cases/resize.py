"""Resize and Upsample: the reference evaluator where it computes, else a formula by NumPy."""

import itertools

import numpy as np

from tests.versions.case import Case, Request, cases
from tests.versions.cases.vision import _narrow, _wide


def _resized(x, scales, *, mode="nearest", asymmetric=False, choose=None):
    """By factors along the first axes; `choose` rounds the coordinates of `nearest`."""
    y = x if x.dtype.kind in "Ob" else _wide(x)
    for axis, scale in enumerate(np.asarray(scales, np.float64)):
        n = x.shape[axis]
        out = np.arange(np.floor(n * scale))
        at = out / scale if asymmetric else (out + 0.5) / scale - 0.5
        if mode == "nearest":
            index = choose(at, scale) if choose else np.ceil(at - 0.5)
            y = np.take(y, np.clip(index, 0, n - 1).astype(int), axis)
            continue
        low = np.floor(at).astype(int)
        weight = (at - low).reshape(-1, *[1] * (x.ndim - axis - 1))
        y = (
            np.take(y, np.clip(low, 0, n - 1), axis) * (1 - weight)
            + np.take(y, np.clip(low + 1, 0, n - 1), axis) * weight
        )
    return y if x.dtype.kind == "O" else _narrow(y, x.dtype)


def _before_or_after(at, scale):
    """The pixel of versions before 11: the one before where an axis grows, else the one after.

    The text says nothing of it; this is what ONNX Runtime, their first implementation, does.
    """
    return np.floor(at) if scale >= 1 else np.ceil(at)


@cases("Upsample")
def upsample(request: Request) -> list[Case]:
    x = request.random("T", (1, 2, 3, 4))
    made = []
    modes = ["nearest"]
    if request.dtype("T").kind not in "Ob":
        modes.append("bilinear" if request.version == 1 else "linear")
    for mode, scales in itertools.product(modes, ([1, 1, 2, 3], [1, 1, 1.5, 2], [1, 1, 1, 1])):
        attributes, inputs = {"mode": mode}, [x]
        if request.version == 1:
            attributes |= {"height_scale": float(scales[2]), "width_scale": float(scales[3])}
        elif request.version == 7:
            attributes["scales"] = [float(scale) for scale in scales]
        else:
            inputs.append(np.array(scales, np.float32))
        wanted = _resized(x, scales, mode=mode, asymmetric=True, choose=_before_or_after)
        halfway = 1 if mode != "nearest" and x.dtype.kind in "iu" else None
        made.append(
            Case(inputs, attributes, expected=[wanted], atol=halfway, name=f"{mode} by {scales}")
        )
        if request.version == 9:
            made.append(
                Case(
                    inputs,
                    attributes,
                    expected=[wanted],
                    initializers=(1,),
                    atol=halfway,
                    name=f"{mode} by {scales}, constant",
                )
            )
    return made


def _old_resize(request: Request) -> list[Case]:
    x = request.random("T", (1, 2, 3, 4))
    modes = ["nearest"] + ["linear"] * (request.dtype("T").kind not in "Ob")
    made = []
    for mode, scales in itertools.product(
        modes, ([1, 1, 2, 3], [1, 1, 1.5, 2], [1, 1, 0.7, 0.5], [1, 1, 2, 0.5])
    ):
        wanted = _resized(
            x, np.array(scales, np.float32), mode=mode, asymmetric=True, choose=_before_or_after
        )
        halfway = 1 if mode != "nearest" and x.dtype.kind in "iu" else None
        made.append(
            Case(
                [x, np.array(scales, np.float32)],
                {"mode": mode},
                expected=[wanted],
                atol=halfway,
                name=f"{mode} by {scales}",
                note=_before_or_after.__doc__ if mode == "nearest" else "",
            )
        )
    return made


NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
GROWN, SHRUNK, MIXED = [1, 1, 2, 1.5], [1, 1, 0.5, 0.7], [1, 1, 0.6, 2.5]


class _Resizes:
    """The cases of one request, from version 11 on."""

    def __init__(self, request: Request):
        self.version, self.varied = request.version, request.varied
        self.x = request.random("T1", (1, 2, 4, 5))
        self.kind = request.dtype("T1")
        self.roi_type = request.dtype("T2")
        # ONNX Runtime, which is asked where the reference evaluator fails, has coefficients in
        # float32; integers differ where a value lies halfway between two.
        self.tolerance = (
            {"atol": 1}
            if self.kind.kind in "iu"
            else {"rtol": 1e-5, "atol": 1e-5}
            if self.kind.name in ("float32", "float64")
            else {}
        )
        self.made: list[Case] = []

    def add(self, name, mode, attributes=None, *, scales=None, sizes=None, roi=(), **how):
        """A case; an roi of None is left out."""
        none = np.zeros(0, np.float32) if self.version == 11 else None
        inputs = [
            self.x,
            None if roi is None else np.array(roi, self.roi_type),
            none if scales is None else np.array(scales, np.float32),
        ]
        if sizes is not None:
            inputs.append(np.array(sizes, np.int64))
        if mode != "nearest":
            how = self.tolerance | how
        self.made.append(Case(inputs, {"mode": mode, **(attributes or {})}, name=name, **how))

    def by_formula(self):
        """Of types that neither the reference evaluator nor ONNX Runtime takes."""
        floor = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        for scales in (GROWN, SHRUNK, MIXED):
            exact = np.array(scales, np.float32)
            wanted = [_resized(self.x, exact)]
            self.add(f"nearest by {scales}", "nearest", scales=scales, expected=wanted)
            wanted = [_resized(self.x, exact, asymmetric=True, choose=lambda at, _: np.floor(at))]
            self.add(f"floor by {scales}", "nearest", floor, scales=scales, expected=wanted)
            if self.kind.kind == "c":
                wanted = [_resized(self.x, exact, mode="linear")]
                self.add(f"linear by {scales}", "linear", scales=scales, expected=wanted)

    def by_coordinates(self):
        """Every mode of coordinates with every rounding and interpolation."""
        full = self.varied == "T1" and self.kind == np.float32
        coordinates = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
        if self.version >= 19:
            coordinates.append("half_pixel_symmetric")
        targets = [
            {"scales": GROWN},
            {"scales": MIXED},
            {"sizes": [1, 2, 7, 3]},
            {"sizes": [1, 2, 1, 1]},
        ]
        for coordinate, target in itertools.product(
            coordinates if full else coordinates[:1], targets
        ):
            base = {"coordinate_transformation_mode": coordinate}
            label = f"{coordinate}, {target}"
            # Its coordinates are whole numbers but for their last digit here.
            for nearest in NEAREST[: 2 if coordinate == "half_pixel_symmetric" else 4]:
                self.add(
                    f"{nearest}, {label}", "nearest", {**base, "nearest_mode": nearest}, **target
                )
            for exclude in (0, 1):
                outside = {**base, "exclude_outside": exclude}
                self.add(f"linear, {label}, {exclude}", "linear", outside, **target)
                cubic = {**outside, "cubic_coeff_a": -0.5}
                self.add(f"cubic, {label}, {exclude}", "cubic", cubic, **target)
            for mode in ("linear", "cubic") if self.version >= 18 else ():
                self.add(f"antialias {mode}, {label}", mode, {**base, "antialias": 1}, **target)

    def by_region(self):
        """Crops, and no region at all."""
        crop = {
            "extrapolation_value": 3.0,
            "coordinate_transformation_mode": "tf_crop_and_resize",
        }
        roi = [0, 0, 0.25, -0.25, 1, 1, 0.75, 1.25]
        for mode in ("nearest", "linear", "cubic"):
            self.add(f"crop, {mode}", mode, crop, sizes=[1, 2, 3, 6], roi=roi)
        if self.version == 11 and self.kind == np.float32:
            old = "tf_half_pixel_for_nn"
            attributes = {"nearest_mode": "floor", "coordinate_transformation_mode": old}
            self.add(old, "nearest", attributes, scales=[1, 1, 2, 2], oracle="onnxruntime")
        if self.kind == np.float32:
            note = (
                "sizes by scales are products of float32, as ONNX Runtime has them and converters "
                "expect, who write quotients of sizes; the text's exact product may be one less"
            )
            scales = [1, 1, 1, 7 / 5]
            self.add("a quotient", "nearest", scales=scales, oracle="onnxruntime", note=note)
        if self.version >= 13:
            self.add("no roi", "linear", scales=GROWN, roi=None)

    def by_axes(self):
        """Some axes alone, and what keeps their proportions."""
        self.add("axes", "linear", {"axes": [3, 2]}, scales=[1.5, 2])
        self.add("axes, sizes", "cubic", {"axes": [2, 3]}, sizes=[3, 7])
        for policy in ("not_larger", "not_smaller", "stretch"):
            attributes = {"axes": [2, 3], "keep_aspect_ratio_policy": policy}
            self.add(policy, "linear", attributes, sizes=[7, 7])


@cases("Resize")
def resize(request: Request) -> list[Case]:
    if request.version == 10:
        return _old_resize(request)
    resizes = _Resizes(request)
    if resizes.kind.kind in "Obc":
        resizes.by_formula()
    else:
        resizes.by_coordinates()
        resizes.by_region()
        if request.version >= 18:
            resizes.by_axes()
    return resizes.made
