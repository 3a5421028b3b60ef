"""Options of sessions and runs, and the enumerations that they use."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from sardonyx import _sardonyx
from sardonyx.onnxruntime.exceptions import InvalidArgument, NotSupported

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "LogSeverity",
    "RunOptions",
    "SessionOptions",
]


class GraphOptimizationLevel(IntEnum):
    """How much the graph is rewritten. All levels but the first mean all passes here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether nodes run one after the other. They always do here; each uses all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Order of nodes that do not depend on each other; the engine chooses by itself."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class LogSeverity(IntEnum):
    """Least severity of what is logged. Sardonyx does not log: it raises."""

    VERBOSE = 0
    INFO = 1
    WARNING = 2
    ERROR = 3
    FATAL = 4


def _unsupported(what: str) -> NotSupported:
    return NotSupported(f"sardonyx.onnxruntime does not support {what}")


class _Settings:
    """Attributes with defaults; writing one that does not exist is an error."""

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise _unsupported(f"{type(self).__name__}.{name}")
        object.__setattr__(self, name, value)


class SessionOptions(_Settings):
    """Options of an `InferenceSession`.

    ``intra_op_num_threads`` is the number of threads, ``graph_optimization_level`` switches the
    passes on or off, ``enable_profiling`` times every run. The others tune what this engine does by
    itself (memory, order, logging): they are accepted and change nothing.
    """

    _defaults: ClassVar[dict[str, Any]] = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_config", {})

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "optimized_model_filepath" and value:
            raise _unsupported("writing the optimised model; Session.graph_text() shows it")
        super().__setattr__(name, value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none changes what this engine does."""
        self._config[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was added."""
        if key not in self._config:
            raise InvalidArgument(f"there is no session config entry '{key}'")
        return self._config[key]

    def has_session_config_entry(self, key: str) -> bool:
        """Whether an entry was added."""
        return key in self._config

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Not supported: sizes of inputs are taken from the inputs."""
        raise _unsupported(f"overriding dimension '{name}'; sizes are those of the inputs")

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Not supported: sizes of inputs are taken from the inputs."""
        raise _unsupported(f"overriding dimension '{denotation}'; sizes are those of the inputs")

    def add_initializer(self, name: str, value: Any) -> None:
        """Not supported."""
        raise _unsupported("replacing initializers")

    def add_external_initializers(self, names: Any, values: Any) -> None:
        """Not supported."""
        raise _unsupported("replacing initializers")

    def register_custom_ops_library(self, path: str) -> None:
        """Not supported: such a library is built for ONNX Runtime alone."""
        raise _unsupported("libraries of custom operators")

    def load_options(self) -> dict[str, Any]:
        """Return these options as keywords of `sardonyx.load`."""
        keywords: dict[str, Any] = {"threads": max(0, int(self.intra_op_num_threads))}
        if self.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            keywords["disabled_passes"] = [name for name, _ in _sardonyx.passes()]
        return keywords


class RunOptions(_Settings):
    """Options of one run. They are accepted and change nothing."""

    _defaults: ClassVar[dict[str, Any]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
        "training_mode": False,
    }

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("terminate", "training_mode") and value:
            raise _unsupported(f"RunOptions.{name}")
        super().__setattr__(name, value)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Accept an entry; none changes what this engine does."""

    def get_run_config_entry(self, key: str) -> str:
        """Not supported: entries are not kept."""
        raise _unsupported("reading run config entries")
