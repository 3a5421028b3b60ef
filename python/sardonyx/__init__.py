"""Sardonyx runs ONNX models.

>>> import sardonyx
>>> session = sardonyx.load("model.onnx")
>>> outputs = session.run({"x": array})

`sardonyx.backend` is the Backend interface of the onnx package; `sardonyx.onnxruntime` stands in
for the package onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import _arguments, _sardonyx
from sardonyx._sardonyx import __version__, passes, target
from sardonyx.errors import (
    Error,
    InternalError,
    InvalidArgumentError,
    InvalidModelError,
    LimitError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
)
from sardonyx.inspection import ModelSummary, inspect
from sardonyx.session import Profile, Session, Step, ValueInfo, compile, load

__all__ = [
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "InvalidModelError",
    "LimitError",
    "ModelSummary",
    "NotFoundError",
    "OutOfMemoryError",
    "Profile",
    "Session",
    "Step",
    "UnsupportedError",
    "ValueInfo",
    "__version__",
    "compile",
    "inspect",
    "load",
    "passes",
    "supports",
    "target",
]


def supports(
    op: str,
    domain: str = "",
    version: int | None = None,
    types: Sequence[str | None] | None = None,
) -> bool:
    """Whether an operator runs.

    Parameters
    ----------
    op
        Such as ``Conv``.
    domain
        ``""`` or ``ai.onnx`` for the default domain.
    version
        Of the opset; None: the newest known. Newer ones are not supported.
    types
        Of the inputs in their order, as ``tensor(float)`` or ``float`` or ``seq(tensor(int64))``;
        None or ``""`` for an input left out. Inputs behind the last are not asked about.

    Examples
    --------
    >>> sardonyx.supports("Add", types=["bfloat16", "bfloat16"])
    True
    >>> sardonyx.supports("Add", version=7, types=["bfloat16", "bfloat16"])
    False
    """
    opset = 0 if version is None else _arguments.count(version, "version", 1, 2**31 - 1)
    return _sardonyx.supports(op, domain, opset, [kind or "" for kind in types or ()])
