"""Models that are ready to run."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sardonyx import _arguments, _sardonyx
from sardonyx.errors import InvalidArgumentError

Dimension = int | str | None


class Readable(Protocol):
    """A file opened for reading bytes, or something like one."""

    def read(self) -> bytes:
        """Return all bytes."""


@dataclass(frozen=True)
class ValueInfo:
    """An input or output as the model declares it.

    Attributes
    ----------
    name : str
    type : str
        Such as ``tensor(float)`` or ``seq(tensor(int64))``.
    dtype : str or None
        Name of the elements' type in NumPy or ml_dtypes, ``str`` for strings; None if not a tensor.
    shape : list or None
        Of each dimension its size, its name if that is all the model says, or None; None if the
        number of dimensions is not known.
    """

    name: str
    type: str
    dtype: str | None
    shape: list[Dimension] | None

    @classmethod
    def _from_row(cls, row: _sardonyx.ValueRow) -> ValueInfo:
        name, type_, dtype, shape = row
        return cls(name, type_, dtype, None if shape is None else list(shape))


class Step(NamedTuple):
    """One step of a profiled run: what ran, for which ONNX node, when and how long."""

    node: str
    op_type: str
    core_op: str
    implementation: str
    shape: str
    start_ns: int
    duration_ns: int


class Profile:
    """Times of the runs made while `Session.profile` was on."""

    def __init__(self, native: _sardonyx.Session) -> None:
        self._native = native
        self._kept: tuple[str, str, list[Step]] | None = None

    def summary(self) -> str:
        """Return the times added up, as a table."""
        return self._kept[0] if self._kept else self._native.profile_summary()

    def trace(self) -> str:
        """Return JSON in the trace-event format, for chrome://tracing or Perfetto."""
        return self._kept[1] if self._kept else self._native.profile_trace()

    def steps(self) -> list[Step]:
        """Every step of every run, in order."""
        return self._kept[2] if self._kept else _steps(self._native)

    def _keep(self) -> None:
        self._kept = (
            self._native.profile_summary(),
            self._native.profile_trace(),
            _steps(self._native),
        )


def _steps(native: _sardonyx.Session) -> list[Step]:
    return [Step(**row) for row in native.profile_steps()]


class Session:
    """A model ready to run; made by `sardonyx.load`. Any number of threads may run it at once."""

    def __init__(self, native: _sardonyx.Session) -> None:
        if not isinstance(native, _sardonyx.Session):
            raise InvalidArgumentError("sessions are made by sardonyx.load")
        self._native = native
        self._inputs = [ValueInfo._from_row(row) for row in native.inputs()]
        self._outputs = [ValueInfo._from_row(row) for row in native.outputs()]
        self._input_names = [info.name for info in self._inputs]
        self._output_names = [info.name for info in self._outputs]

    @property
    def inputs(self) -> list[ValueInfo]:
        """What a run must be given. Inputs that have a default in the model are not listed."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[ValueInfo]:
        """What a run returns."""
        return list(self._outputs)

    @property
    def metadata(self) -> dict[str, str]:
        """Properties of the model: metadata_props, ``producer_name``, ``graph_name`` ..."""
        return self._native.metadata()

    @property
    def threads(self) -> int:
        """Threads that a run may use."""
        return self._native.threads()

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Iterable[str] | None = None,
    ) -> dict[str, Any]:
        """Run the model.

        Parameters
        ----------
        inputs
            Values by name, or a list of them in the order of `inputs`. NumPy arrays (C order,
            aligned) are used where they lie; sequences are lists, maps are dicts, an empty optional
            is None. Python numbers, NumPy scalars and lists of them become the declared type if no
            value is lost by it.
        outputs
            Names of the values wanted: outputs or any other value of the graph. By default all
            outputs.

        Returns
        -------
        dict
            Values by name, in order. Arrays own their memory together with the engine: no copy.

        Raises
        ------
        InvalidArgumentError
            If an input is missing, unknown, or of another type or shape than declared.
        Error
            If the model fails on these values.
        """
        if not isinstance(inputs, dict):
            inputs = dict(inputs) if isinstance(inputs, Mapping) else self._by_name(inputs)
        if outputs is None:
            return self._native.run(inputs, self._output_names, True)
        names = _arguments.names(outputs, "outputs")
        if not names:
            return {}
        return self._native.run(inputs, names, False)

    def _by_name(self, inputs: Sequence[Any]) -> dict[str, Any]:
        if not isinstance(inputs, list | tuple):
            raise InvalidArgumentError(
                f"inputs must be a dict or a list, not {type(inputs).__name__}"
            )
        if len(inputs) > len(self._input_names):
            raise InvalidArgumentError(
                f"{len(inputs)} inputs are given, the model has {len(self._input_names)}: "
                f"{', '.join(self._input_names)}"
            )
        return dict(zip(self._input_names, inputs, strict=False))

    @contextmanager
    def profile(self) -> Iterator[Profile]:
        """Time every step of the runs made within the block, by all threads.

        Examples
        --------
        >>> with session.profile() as profile:
        ...     session.run(inputs)
        >>> print(profile.summary())
        """
        profile = Profile(self._native)
        self._native.start_profile()
        try:
            yield profile
        finally:
            self._native.stop_profile()
            profile._keep()

    def explain(self, shapes: Mapping[str, Sequence[int]] | None = None) -> str:
        """Tell what each step runs on for these input shapes, what was refused and why.

        Parameters
        ----------
        shapes
            By input name; inputs of a fixed shape may be left out.
        """
        return self._native.explain(_arguments.shapes({} if shapes is None else shapes))

    def graph_text(self) -> str:
        """Return the optimised graph as text."""
        return self._native.graph_text()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{info.name}: {info.type}" for info in self._inputs)
        outputs = ", ".join(f"{info.name}: {info.type}" for info in self._outputs)
        return f"<sardonyx.Session ({inputs}) -> ({outputs})>"


def load(
    model: str | os.PathLike[str] | bytes | Readable,
    *,
    threads: int = 0,
    disabled_passes: Iterable[str] = (),
    max_plans: int = 32,
    external_data_folder: str | os.PathLike[str] | None = None,
    trace_passes: Callable[[str, str], None] | None = None,
    tuning: str = "estimate",
    winograd: bool = True,
    progress: Callable[[str], None] | None = None,
    recompile: bool = False,
) -> Session:
    """Load a model, or an engine file that `compile` wrote, and make it ready to run.

    Parameters
    ----------
    model
        A path, the bytes of a model, a file opened for reading bytes, or an `onnx.ModelProto`.
    threads
        Threads that a run may use; 0: as many as the machine gives.
    disabled_passes
        Rewrites to leave out, by name: `passes` lists them.
    max_plans
        Plans that are kept; there is one for each tuple of input shapes.
    external_data_folder
        For models that are not given by path: the folder beneath which external data lies.
    trace_passes
        Called with ``""`` and the graph as text before the first pass, then with a pass's name and
        the graph after each that changed it.
    tuning
        How kernels are chosen: ``"estimate"`` by a model of their costs, ``"measure"`` by running
        the candidates on the shapes at hand, once for a shape.
    winograd
        Whether convolutions may run by Winograd's transforms, which multiply less and round
        somewhat more than direct sums do. An engine file compiled without them stays without.
    progress
        Called with a line for each choice that is measured.
    recompile
        Compile an engine file again, from the model it names, and replace it, if it is of another
        machine or version or its weights were changed. By default it is refused.

    Returns
    -------
    Session

    Raises
    ------
    NotFoundError
        If there is no such file.
    InvalidModelError
        If the model breaks a rule of the standard.
    UnsupportedError
        If it has operators that are not implemented: all of them are named.
    """
    source, folder = _source(model)
    if external_data_folder is not None:
        if isinstance(source, str):
            raise InvalidArgumentError(
                "external_data_folder is for models that are not given by path: "
                "external data lies beneath the model's own folder"
            )
        folder = _arguments.path(external_data_folder, "external_data_folder")
    options = _options(
        threads=threads,
        disabled_passes=disabled_passes,
        max_plans=max_plans,
        folder=folder,
        trace_passes=trace_passes,
        tuning=tuning,
        winograd=winograd,
        progress=progress,
        recompile=recompile,
    )
    return Session(_sardonyx.Session(source, options))


def compile(
    model: str | os.PathLike[str],
    engine: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | Iterable[Mapping[str, Sequence[int]]] = (),
    compact: bool = False,
    threads: int = 0,
    disabled_passes: Iterable[str] = (),
    tuning: str = "estimate",
    winograd: bool = True,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Write an engine file: the optimised graph and the packed weights of a model.

    `load` reads it in milliseconds, on this kind of machine and with this version of Sardonyx, and
    all processes that load it share its memory.

    Parameters
    ----------
    model
        Path of the model.
    engine
        Path of the file to write, by custom ``.sdx``.
    shapes
        Shapes of the inputs that kernels are chosen and weights packed for, by name; or several
        such sets. What is not said is as declared, and 1 where the model fixes no size.
    compact
        Leave out weights that these shapes need in packed form alone: a smaller file, but other
        shapes may need the model beside it.
    threads, disabled_passes, tuning, winograd, progress
        As in `load`.

    Examples
    --------
    >>> sardonyx.compile("model.onnx", "model.sdx", shapes={"x": [1, 3, 224, 224]})
    >>> session = sardonyx.load("model.sdx")
    """
    options = _options(
        threads=threads,
        disabled_passes=disabled_passes,
        tuning=tuning,
        winograd=winograd,
        progress=progress,
    )
    _sardonyx.compile(
        _arguments.path(model, "the model to compile"),
        _arguments.path(engine, "the engine file"),
        options,
        _arguments.shape_sets(shapes),
        _arguments.flag(compact, "compact"),
    )


def _options(
    *,
    threads: int,
    disabled_passes: Iterable[str],
    tuning: str,
    winograd: bool,
    progress: Callable[[str], None] | None,
    max_plans: int = 32,
    folder: str = "",
    trace_passes: Callable[[str, str], None] | None = None,
    recompile: bool = False,
) -> _sardonyx.Options:
    passes = _arguments.names(disabled_passes, "disabled_passes")
    known = {name for name, _ in _sardonyx.passes()}
    for name in passes:
        if name not in known:
            raise InvalidArgumentError(
                f"there is no pass '{name}'; the passes are {', '.join(sorted(known))}"
            )
    if tuning not in ("estimate", "measure"):
        raise InvalidArgumentError(f"tuning is 'estimate' or 'measure', not '{tuning}'")
    return _sardonyx.Options(
        threads=_arguments.count(threads, "threads", 0, 1024),
        disabled_passes=passes,
        max_plans=_arguments.count(max_plans, "max_plans", 1, 2**31 - 1),
        external_data_folder=folder,
        trace_passes=_arguments.function(trace_passes, "trace_passes"),
        measure=tuning == "measure",
        progress=_arguments.function(progress, "progress"),
        recompile=_arguments.flag(recompile, "recompile"),
        winograd=_arguments.flag(winograd, "winograd"),
    )


def _source(model: Any) -> tuple[str | bytes, str]:
    """Path or bytes of a model, and the folder of its external data."""
    if isinstance(model, str | os.PathLike):
        return os.fsdecode(model), ""
    if isinstance(model, bytes):
        return model, ""
    if isinstance(model, bytearray | memoryview):
        return bytes(model), ""  # theirs may change while the session lives
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString(), ""
    if hasattr(model, "read"):
        content = model.read()
        if not isinstance(content, bytes | bytearray | memoryview):
            raise InvalidArgumentError("the file of a model must be opened in binary mode")
        name = getattr(model, "name", None)
        is_file = isinstance(name, str) and not isinstance(model, io.BytesIO)
        return bytes(content), os.path.dirname(os.path.realpath(name)) if is_file else ""
    raise InvalidArgumentError(
        f"a model is a path, bytes, or a file opened for reading, not {type(model).__name__}"
    )
