"""Sardonyx runs ONNX models.

>>> import sardonyx
>>> session = sardonyx.load("model.onnx")
>>> outputs = session.run({"x": array})

`sardonyx.backend` is the Backend interface of the onnx package; `sardonyx.onnxruntime` stands in
for the package onnxruntime.
"""

from __future__ import annotations

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
from sardonyx.session import Profile, Session, Step, ValueInfo, load

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
    "inspect",
    "load",
    "passes",
    "supports",
    "target",
]


def supports(op: str, domain: str = "", version: int = 0) -> bool:
    """Whether an operator of the standard runs.

    Parameters
    ----------
    op
        Such as ``Conv``.
    domain
        ``""`` or ``ai.onnx`` for the default domain.
    version
        Of the opset; 0: the newest known.
    """
    from sardonyx import _sardonyx

    return _sardonyx.supports(op, domain, version)
