"""Whether two results are the same, by the tolerance that their type deserves."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

TOLERANCES = {  # relative, absolute
    "float64": (1e-7, 1e-9),
    "float32": (1e-5, 1e-6),
    "complex128": (1e-7, 1e-9),
    "complex64": (1e-5, 1e-6),
}


def tolerance(dtype: np.dtype) -> tuple[float, float]:
    """Tolerance of a type: a unit in the last place for the narrow floats, nothing for others."""
    if dtype.name in TOLERANCES:
        return TOLERANCES[dtype.name]
    if "float" not in dtype.name:
        return 0, 0
    step = float(ml_dtypes.finfo(dtype).eps)
    return step, step if dtype.itemsize == 2 else 0


def difference(actual: Any, wanted: Any, rtol=None, atol=None, place="") -> str:
    """Tell how two values differ; nothing if they do not."""
    if wanted is None or actual is None:
        return "" if actual is wanted else f"{place} is {_show(actual)}, not {_show(wanted)}"
    if isinstance(wanted, dict):
        if not isinstance(actual, dict) or list(actual) != list(wanted):
            return f"{place} is {_show(actual)}, not {_show(wanted)}"
        parts = (difference(actual[k], wanted[k], rtol, atol, f"{place}[{k!r}]") for k in wanted)
        return next(filter(None, parts), "")
    if isinstance(wanted, list):
        if not isinstance(actual, list) or len(actual) != len(wanted):
            return f"{place} is {_show(actual)}, not {_show(wanted)}"
        parts = (
            difference(one, other, rtol, atol, f"{place}[{i}]")
            for i, (one, other) in enumerate(zip(actual, wanted, strict=True))
        )
        return next(filter(None, parts), "")
    return _array_difference(np.asarray(actual), np.asarray(wanted), rtol, atol, place)


def _array_difference(actual: np.ndarray, wanted: np.ndarray, rtol, atol, place: str) -> str:
    if wanted.dtype.kind in "UST":
        wanted = wanted.astype(object)
    if actual.dtype.kind in "UST":
        actual = actual.astype(object)
    if actual.dtype != wanted.dtype:
        return f"{place} is {actual.dtype}, not {wanted.dtype}"
    if actual.shape != wanted.shape:
        return f"{place} has shape {actual.shape}, not {wanted.shape}"
    if _close(actual, wanted, rtol, atol):
        return ""
    return f"{place} is {_show(actual)}, not {_show(wanted)}"


def _close(actual: np.ndarray, wanted: np.ndarray, rtol, atol) -> bool:
    dtype = actual.dtype
    default = tolerance(dtype)
    rtol = default[0] if rtol is None else rtol
    atol = default[1] if atol is None else atol
    if dtype.kind == "O" or not (rtol or atol or "float" in dtype.name):
        return bool(np.all(actual == wanted))
    wide = dtype if dtype.kind == "c" else np.float64
    actual, wanted = actual.astype(wide), wanted.astype(wide)
    return bool(np.allclose(actual, wanted, rtol, atol, equal_nan=True))


def _show(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) < 200 else text[:197] + "..."
