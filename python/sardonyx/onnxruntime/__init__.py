"""What ordinary code uses of the package `onnxruntime`, run by Sardonyx.

Code that can be edited changes its import::

    import sardonyx.onnxruntime as ort

For code that cannot, `install` takes the name `onnxruntime` before that code imports it::

    import sardonyx.onnxruntime
    sardonyx.onnxruntime.install()

What has no counterpart (IO binding, custom operators, other devices, training) raises.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from sardonyx.onnxruntime import exceptions
from sardonyx.onnxruntime.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    LogSeverity,
    RunOptions,
    SessionOptions,
)
from sardonyx.onnxruntime.session import PROVIDER, InferenceSession, ModelMetadata, NodeArg
from sardonyx.onnxruntime.values import OrtValue

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "InferenceSession",
    "LogSeverity",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "install",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]

# Of the interface that is followed, for code that compares versions.
__version__ = "1.31.0"


def get_available_providers() -> list[str]:
    """Return where models can run: the CPU."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """Return where models can run: the CPU."""
    return [PROVIDER]


def get_device() -> str:
    """Return the kind of device: ``CPU``."""
    return "CPU"


def get_version_string() -> str:
    """Return the version of the interface that is followed."""
    return __version__


def get_build_info() -> str:
    """Return which engine this is."""
    import sardonyx

    return f"Sardonyx {sardonyx.__version__}, {sardonyx.target()}"


def set_default_logger_severity(severity: int) -> None:
    """Do nothing: Sardonyx does not log."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Do nothing: Sardonyx does not log."""


def enable_telemetry_events() -> None:
    """Do nothing: nothing is reported to anyone."""


def disable_telemetry_events() -> None:
    """Do nothing: nothing is reported to anyone."""


def install(*, replace: bool = False) -> types.ModuleType:
    """Let `import onnxruntime` mean this module from now on.

    Parameters
    ----------
    replace
        Also if ONNX Runtime itself was imported already. Code that holds on to it keeps it.

    Returns
    -------
    module
        What `import onnxruntime` gives now.

    Raises
    ------
    ImportError
        If ONNX Runtime itself was imported already and `replace` is false.
    """
    this = sys.modules[__name__]
    loaded = sys.modules.get("onnxruntime")
    if loaded is this:
        return this
    if loaded is not None and not replace:
        raise ImportError(
            f"onnxruntime was imported already, from {getattr(loaded, '__file__', '?')}: call "
            "sardonyx.onnxruntime.install() before, or install(replace=True)"
        )
    for name in [name for name in sys.modules if name.startswith("onnxruntime.")]:
        del sys.modules[name]
    sys.modules["onnxruntime"] = this
    for name, module in _submodules().items():
        sys.modules[f"onnxruntime.{name}"] = module
    return this


def _submodules() -> dict[str, types.ModuleType]:
    """Modules of `onnxruntime` that code imports names from."""
    from importlib.machinery import ModuleSpec

    state = {
        name: value
        for name, value in {**vars(exceptions), **globals()}.items()
        if name in exceptions.__all__ or name in __all__
    }
    modules = {}
    for name, content in {
        "capi": {},
        "capi.onnxruntime_pybind11_state": state,
        "capi._pybind_state": state,
        "capi.onnxruntime_inference_collection": state,
    }.items():
        module = types.ModuleType(f"onnxruntime.{name}", "See sardonyx.onnxruntime.")
        module.__spec__ = ModuleSpec(module.__name__, None, is_package=name == "capi")
        module.__dict__.update(content)
        if name == "capi":
            module.__path__ = []
        else:
            setattr(modules["capi"], name.removeprefix("capi."), module)
        modules[name] = module
    this = sys.modules[__name__]
    this.capi = modules["capi"]  # type: ignore[attr-defined]
    return modules


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name == "capi":
        raise AttributeError(name)
    raise AttributeError(
        f"sardonyx.onnxruntime has no '{name}': it holds what running models takes, not all of "
        "onnxruntime"
    )
