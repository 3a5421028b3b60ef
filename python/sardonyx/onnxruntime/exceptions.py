"""Exceptions under the names of ONNX Runtime. Each is the matching class of Sardonyx as well."""

from __future__ import annotations

from sardonyx import errors

__all__ = [
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "NoModel",
    "NoSuchFile",
    "NotImplemented",
    "NotSupported",
    "RuntimeException",
]


class Fail(errors.Error):
    """The model cannot be loaded."""


class InvalidArgument(errors.InvalidArgumentError):
    """What the caller passed does not fit the model."""


class NoSuchFile(errors.NotFoundError):
    """There is no such file."""


class NoModel(errors.Error):
    """No model was given."""


class EngineError(errors.Error):
    """The engine failed."""


class RuntimeException(errors.InternalError):
    """The model failed while it ran."""


class InvalidProtobuf(errors.InvalidModelError):
    """The file is no ONNX model."""


class ModelLoaded(errors.Error):
    """A model was loaded already."""


class NotSupported(errors.UnsupportedError):
    """Legal, but not implemented. Its other name is ONNX Runtime's."""


NotImplemented = NotSupported


class InvalidGraph(errors.InvalidModelError, Fail):
    """The model breaks a rule of the standard."""


class EPFail(errors.Error):
    """An execution provider failed."""


_LOADING = (
    (errors.NotFoundError, NoSuchFile),
    (errors.InvalidModelError, InvalidGraph),
    (errors.UnsupportedError, NotSupported),
    (errors.InvalidArgumentError, InvalidArgument),
    (errors.Error, Fail),
)
_RUNNING = (
    (errors.InvalidArgumentError, InvalidArgument),
    (errors.UnsupportedError, NotSupported),
    (errors.Error, RuntimeException),
)


def translation(error: errors.Error, *, loading: bool) -> Exception:
    """Return the exception under ONNX Runtime's name that says the same."""
    names = _LOADING if loading else _RUNNING  # of which the last is for every Error
    return next(theirs for ours, theirs in names if isinstance(error, ours))(str(error))
