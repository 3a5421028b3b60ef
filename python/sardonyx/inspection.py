"""What a model is, without making it ready to run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from sardonyx import _arguments, _sardonyx
from sardonyx.session import ValueInfo


@dataclass(frozen=True)
class ModelSummary:
    """A model's face. Exists for models that cannot run as well.

    Attributes
    ----------
    opsets : dict
        Version by domain; the default domain is ``ai.onnx``.
    operators : dict
        Number of nodes by operator (``Conv`` or ``domain::Name``), those in bodies included.
    parameters, parameter_bytes : int
        Elements of the initializers, and the memory that they take.
    functions : int
        Functions that the model defines.
    unsupported : list of str
        A line for each operator that would not run: the reason and its nodes.
    """

    ir_version: int
    producer: str
    opsets: dict[str, int]
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    operators: dict[str, int]
    parameters: int
    parameter_bytes: int
    functions: int
    unsupported: list[str]
    metadata: dict[str, str] = field(default_factory=dict)


def inspect(path: str | os.PathLike[str]) -> ModelSummary:
    """Summarise the model at `path`.

    Raises
    ------
    NotFoundError
        If there is no such file.
    InvalidModelError
        If it is no ONNX model.
    """
    found = _sardonyx.inspect(_arguments.path(path, "a model to inspect"))
    for key in ("inputs", "outputs"):
        found[key] = [ValueInfo._from_row(row) for row in found[key]]
    return ModelSummary(**found)
