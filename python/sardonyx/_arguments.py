"""What callers pass, checked: each function returns it in the form that the engine takes."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sardonyx.errors import InvalidArgumentError

Rows = list[tuple[str, list[int]]]


def path(value: str | os.PathLike[str], what: str) -> str:
    """Return a path as text."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidArgumentError(f"{what} must be a path, not {type(value).__name__}")
    return os.fsdecode(value)


def count(value: int, what: str, least: int, most: int) -> int:
    """Return a whole number within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        message = f"{what} must be an int, not {type(value).__name__}"
        raise InvalidArgumentError(message) from None
    if not least <= number <= most:
        raise InvalidArgumentError(f"{what} must be {least} to {most}, is {number}")
    return number


def flag(value: bool, what: str) -> bool:
    """Return a truth value; a text such as "no" is none."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{what} must be True or False, not {value!r}")
    return value


def function(value: Callable[..., None] | None, what: str) -> Callable[..., None] | None:
    """Return a function or None."""
    if value is not None and not callable(value):
        raise InvalidArgumentError(f"{what} must be a function, not {type(value).__name__}")
    return value


def names(values: str | Iterable[str], what: str) -> list[str]:
    """Return a list of names; one name stands for a list of it."""
    if isinstance(values, str):
        return [values]
    if not isinstance(values, Iterable):
        raise InvalidArgumentError(f"{what} must be a list of str, not {type(values).__name__}")
    given = list(values)
    for name in given:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"names in {what} are str, not {type(name).__name__}")
    return given


def shapes(values: Mapping[str, Sequence[int]]) -> Rows:
    """Return shapes by input name as rows."""
    if not isinstance(values, Mapping):
        raise InvalidArgumentError(
            f"shapes must be a dict from input names to sizes, not {type(values).__name__}"
        )
    rows: Rows = []
    for name, shape in values.items():
        names([name], "shapes")
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise InvalidArgumentError(
                f"the shape of input '{name}' must be a list of int, is {shape!r}"
            )
        what = f"a size of input '{name}'"
        rows.append((name, [count(size, what, 0, 2**63 - 1) for size in shape]))
    return rows


def shape_sets(values: Any) -> list[Rows]:
    """Return one or several sets of shapes as rows."""
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        return [shapes(values)]
    return [shapes(each) for each in values]
