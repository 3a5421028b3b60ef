"""Python values as what the engine takes: arrays, lists, dicts and None.

The engine takes contiguous arrays of the types of ONNX by itself; all else comes here. An array
keeps its type: a wrong one is an error. Python numbers, NumPy scalars and lists of them have no
type of their own in mind, so they become the declared one as long as no value is lost by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sardonyx import _sardonyx
from sardonyx.errors import InvalidArgumentError


def prepare(value: Any, declared: str, name: str) -> Any:
    """Convert a value of the input `name`.

    Parameters
    ----------
    value
        Anything that has a place in a model's input.
    declared
        The input's type, such as ``seq(tensor(float))``; empty if it is not known.
    name
        Of the input, for messages.

    Returns
    -------
    numpy.ndarray, list, dict or None
        Arrays are contiguous and have a type of ONNX; strings stand in arrays of objects.
    """
    kind, arguments = _split(declared)
    if kind == "optional":
        return None if value is None else prepare(value, arguments, name)
    if value is None:
        return None
    if kind == "seq" or (not kind and isinstance(value, list | tuple) and _holds_arrays(value)):
        if not isinstance(value, list | tuple):
            raise _error(name, f"must be a list, for {declared}; is {type(value).__name__}")
        return [prepare(item, arguments, name) for item in value]
    if kind == "map" or (not kind and isinstance(value, Mapping)):
        if not isinstance(value, Mapping):
            raise _error(name, f"must be a dict, for {declared}; is {type(value).__name__}")
        _, _, of_values = arguments.partition(",")
        return {_key(key, name): prepare(item, of_values, name) for key, item in value.items()}
    return _array(value, arguments, name)


def _split(declared: str) -> tuple[str, str]:
    """Split ``seq(tensor(float))`` into ``seq`` and ``tensor(float)``."""
    kind, _, rest = declared.partition("(")
    return kind.strip(), rest[:-1].strip()


def _holds_arrays(values: list[Any] | tuple[Any, ...]) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)


def _key(key: Any, name: str) -> int | str:
    if isinstance(key, str):
        return str(key)
    if isinstance(key, int | np.integer):
        return int(key)
    raise _error(name, f"keys of a map are int or str, not {type(key).__name__}")


def _error(name: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"input '{name}' {message}")


def _array(value: Any, element: str, name: str) -> np.ndarray:
    if isinstance(value, Mapping | set | frozenset):
        raise _error(name, f"must be an array, is {type(value).__name__}")
    if hasattr(value, "toarray") and not isinstance(value, np.ndarray):
        value = np.asarray(value.toarray())  # sparse, as SciPy's
    if not isinstance(value, np.ndarray | np.generic) and hasattr(value, "__array__"):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        return _typed_array(value, element, name)
    if isinstance(value, np.generic) and _sardonyx.is_element_type(value.dtype):
        target = _target(element)
        if target is None or value.dtype == target:
            return np.asarray(value)
    return _untyped(value, element, name)


def _typed_array(array: np.ndarray, element: str, name: str) -> np.ndarray:
    """Copy an array that the engine could not take, into memory that it can."""
    if array.dtype.kind == "O" and element == "string":
        return np.ascontiguousarray(array)
    if array.dtype.kind in "UST":
        return array.astype(object)
    native = array.dtype.newbyteorder("=")
    if array.dtype.kind == "O" or not _sardonyx.is_element_type(native):
        raise _error(name, f"is an array of {array.dtype}, which ONNX has no type for")
    return np.array(array, dtype=native, order="C", copy=True)


def _target(element: str) -> np.dtype | None:
    """NumPy's type for an element type as ONNX writes it, None if it is not known."""
    return _sardonyx.dtype_by_name(element) if element else None


def _untyped(value: Any, element: str, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError, TypeError) as error:
        raise _error(name, f"cannot be made an array: {error}") from error
    target = _target(element)
    if element == "string" or (not element and array.dtype.kind in "US"):
        if array.dtype.kind not in "UST" and array.size:
            raise _error(name, f"must be tensor(string), is {array.dtype}")
        return array.astype(object)
    if target is None:
        return _typed_array(array, element, name)
    if not _may_become(array, target):
        raise _error(name, f"must be tensor({element}); {_show(value)} cannot be taken as such")
    with np.errstate(all="ignore"):
        return np.array(array.astype(target), order="C")


def _may_become(array: np.ndarray, target: np.dtype) -> bool:
    """Whether numbers without a type of their own may take this one."""
    if array.size == 0:
        return True
    kinds = array.dtype.kind
    if kinds == "V":  # a scalar of a small type, of another one than declared
        return False
    if target.kind == "b":
        return kinds == "b"
    if target.kind == "c":
        return kinds in "biufc"
    is_integer = target.kind in "iu" or "int" in target.name
    if not is_integer:
        return kinds in "biuf"
    if kinds not in "biu":
        return False
    back = array.astype(target).astype(array.dtype)
    keeps_sign = (array >= 0) == (array.astype(target) >= np.zeros((), target))
    return bool((back == array).all() and keeps_sign.all())


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
