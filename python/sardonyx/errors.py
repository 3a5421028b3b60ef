"""What Sardonyx raises: `Error`, and a class for each kind that is also the fitting builtin."""

from __future__ import annotations

__all__ = [
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "InvalidModelError",
    "LimitError",
    "NotFoundError",
    "OutOfMemoryError",
    "UnsupportedError",
]


class Error(Exception):
    """Base of all exceptions of Sardonyx.

    The message names the model, the node, the operator and the value concerned, as far as known.
    """


class NotFoundError(Error, FileNotFoundError):
    """A file does not exist or cannot be opened: a model, its external data, an input."""


class InvalidModelError(Error, ValueError):
    """The model breaks a rule of the ONNX standard."""


class InvalidArgumentError(Error, ValueError):
    """What the caller passed does not fit the model."""


class UnsupportedError(Error, NotImplementedError):
    """Legal, but not implemented."""


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed or would exceed a limit."""


class LimitError(Error, ValueError):
    """A limit was reached: of nesting, of dimensions, of sizes."""


class InternalError(Error, RuntimeError):
    """A bug in Sardonyx."""
