"""`InferenceSession` and what it tells about its model."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import errors
from sardonyx.onnxruntime.exceptions import InvalidArgument, NotSupported, translation
from sardonyx.onnxruntime.options import RunOptions, SessionOptions
from sardonyx.onnxruntime.values import OrtValue
from sardonyx.session import Dimension, ValueInfo, load

__all__ = ["InferenceSession", "ModelMetadata", "NodeArg"]

PROVIDER = "CPUExecutionProvider"

# Properties that every model has; the others are the model's own.
_STANDARD = (
    "description",
    "domain",
    "graph_description",
    "graph_name",
    "model_version",
    "producer_name",
    "producer_version",
)


class NodeArg:
    """An input or output: its name, type and shape."""

    def __init__(self, info: ValueInfo) -> None:
        self.name = info.name
        self.type = info.type
        self.shape: list[Dimension] = list(info.shape or [])

    def __repr__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


class ModelMetadata:
    """Properties of a model."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self.custom_metadata_map = {k: v for k, v in metadata.items() if k not in _STANDARD}
        self.description = metadata.get("description", "")
        self.domain = metadata.get("domain", "")
        self.graph_description = metadata.get("graph_description", "")
        self.graph_name = metadata.get("graph_name", "")
        self.producer_name = metadata.get("producer_name", "")
        self.version = int(metadata.get("model_version", "0"))


class InferenceSession:
    """A model ready to run.

    Parameters
    ----------
    path_or_bytes
        A path, or the bytes of a model.
    sess_options
        Threads, optimisation, profiling.
    providers
        Names, or pairs of a name and options. Sardonyx runs on the CPU: another name is warned of.
    provider_options
        Accepted; ``CPUExecutionProvider`` has none that matter here.
    **kwargs
        Accepted for code that passes options of other versions.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        options = SessionOptions() if sess_options is None else sess_options
        if not isinstance(options, SessionOptions):
            raise InvalidArgument(
                f"sess_options must be SessionOptions, not {type(options).__module__}."
                f"{type(options).__name__}"
            )
        _check_providers(providers)
        self._options = options
        try:
            self._session = load(path_or_bytes, **options.load_options())
        except errors.Error as error:
            raise translation(error, loading=True) from error
        self._output_names = [output.name for output in self._session.outputs]
        self._profiling = False
        if options.enable_profiling:
            self._profiling = True
            self._session._native.start_profile()

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Return the values of the outputs named, or of all."""
        if not isinstance(input_feed, Mapping):
            message = f"the feed must be a dict from input names, not {type(input_feed).__name__}"
            raise InvalidArgument(message)
        feed: Mapping[str, Any] = input_feed
        for value in input_feed.values():
            if type(value) is OrtValue:
                feed = {name: _unwrapped(value) for name, value in input_feed.items()}
                break
        try:
            found = self._session.run(feed, output_names or None)
        except errors.Error as error:
            raise translation(error, loading=False) from error
        names = output_names or self._output_names
        # A name that stands twice gives its value twice.
        results = found.values() if len(found) == len(names) else [found[name] for name in names]
        return [value if type(value) is np.ndarray else _plain(value) for value in results]

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run, with `OrtValue` in and out."""
        return [OrtValue(value) for value in self.run(output_names, input_dict_ort_values)]

    def run_async(self, *arguments: Any, **keywords: Any) -> None:
        """Not supported: a thread that calls `run` does the same."""
        raise NotSupported("run_async is not supported; call run from a thread of your own")

    def run_with_iobinding(self, *arguments: Any, **keywords: Any) -> None:
        """Not supported: `run` takes and returns arrays without a copy."""
        raise NotSupported("IO binding is not supported; run takes and returns arrays in place")

    def io_binding(self) -> None:
        """Not supported: `run` takes and returns arrays without a copy."""
        raise NotSupported("IO binding is not supported; run takes and returns arrays in place")

    def get_inputs(self) -> list[NodeArg]:
        """Return what a run must be given."""
        return [NodeArg(info) for info in self._session.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return what a run gives."""
        return [NodeArg(info) for info in self._session.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Not told by the engine: inputs with defaults may be given, but are not listed."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """Return the model's properties."""
        return ModelMetadata(self._session.metadata)

    def get_providers(self) -> list[str]:
        """Return where the model runs."""
        return [PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider."""
        return {PROVIDER: {}}

    def set_providers(
        self, providers: Sequence[Any] | None = None, provider_options: Any = None
    ) -> None:
        """Check the providers; there is only one to choose."""
        _check_providers(providers)

    def get_session_options(self) -> SessionOptions:
        """Return the options that the session was made with."""
        return self._options

    def disable_fallback(self) -> None:
        """Do nothing: there is no other provider to fall back to."""

    def enable_fallback(self) -> None:
        """Do nothing: there is no other provider to fall back to."""

    def end_profiling(self) -> str:
        """Write the times of all runs as a Chrome trace.

        Returns
        -------
        str
            Path of the file.
        """
        if not self._profiling:
            raise InvalidArgument("profiling was not switched on: SessionOptions.enable_profiling")
        native = self._session._native
        native.stop_profile()
        self._profiling = False
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
        path = Path(f"{self._options.profile_file_prefix}{stamp}.json")
        path.write_text(native.profile_trace(), encoding="utf-8")
        return str(path)


def _unwrapped(value: Any) -> Any:
    return value.to_python() if isinstance(value, OrtValue) else value


def _plain(value: Any) -> Any:
    """Numbers of maps as Python's own, as ONNX Runtime returns them."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {
            key: item.item() if isinstance(item, np.generic) else item
            for key, item in value.items()
        }
    return value


def _check_providers(providers: Sequence[Any] | None) -> None:
    names = [
        entry if isinstance(entry, str) else entry[0] if isinstance(entry, tuple | list) else entry
        for entry in providers or []
    ]
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgument(f"a provider is a name or a pair of name and options, not {name}")
    others = [name for name in names if name != PROVIDER]
    if others:
        warnings.warn(
            f"there is no {', '.join(others)}; the model runs on {PROVIDER}", stacklevel=3
        )
