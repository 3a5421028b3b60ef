"""What a case of an operator is, and what its function is asked for.

Case functions stand in `tests/versions/cases/`, a file for each family of operators. The table of
schemas calls them: for every (operator, version, type parameter P, type T that P may have) the
function of the operator returns one or more cases in which P is T.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.versions.element_types import dtype_of, element_of

ABSENT = object()  # an input left out, where None would be an empty optional

PREFERRED = ("tensor(float)", "tensor(int64)", "tensor(bool)")

WORDS = ("a", "b", "Zebra", "zebra", "two words", "", "grün", "犬", "10", "-3.5")


class Case:
    """A node's inputs and attributes, and how its result is checked.

    inputs: arrays, lists for sequences, dicts for maps, None for an optional input that is absent
    (of a parameter of type optional(...): for an optional that is empty).
    outputs: how many are asked for, or for each whether; all that are single by default, and one
    of a variadic parameter.
    expected: the results, or a function of the inputs that computes them; only where neither the
    reference evaluator nor ONNX Runtime gets them right.
    oracle: "onnxruntime" passes over the reference evaluator where that is wrong.
    opset: version of the domain that the model imports, if not the schema's.
    initializers: positions of inputs that are constants of the model.
    types: of type parameters, where the case has others than those asked for.
    note: what the standard leaves contradictory here, and what we chose; goes into the page.
    refused: what the error says, where the schema allows a type that has no meaning here; `note`
    says why.
    """

    def __init__(
        self,
        inputs: Iterable[Any],
        attributes: dict[str, Any] | None = None,
        *,
        outputs: int | list[bool] | None = None,
        expected: list[Any] | Callable[..., Any] | None = None,
        oracle: str = "",
        rtol: float | None = None,
        atol: float | None = None,
        name: str = "",
        opset: int | None = None,
        initializers: Iterable[int] = (),
        types: dict[str, str] | None = None,
        note: str = "",
        refused: str = "",
    ):
        self.inputs = [
            np.asarray(value) if isinstance(value, np.generic) else value for value in inputs
        ]
        self.attributes = attributes or {}
        self.outputs = outputs
        self.expected = expected
        self.oracle = oracle
        self.rtol, self.atol = rtol, atol
        self.name = name
        self.opset = opset
        self.initializers = tuple(initializers)
        self.types = types or {}
        self.note = note
        self.refused = refused


@dataclass(frozen=True)
class Entry:
    """A row of the table: one type of one type parameter of one version of an operator."""

    schema: onnx.defs.OpSchema
    varied: str
    type: str

    def __str__(self):
        suffix = f":{self.varied}={self.type}" if self.varied else ""
        return f"{operator_of(self.schema)}-{self.schema.since_version}{suffix}"


def operator_of(schema: onnx.defs.OpSchema) -> str:
    """Domain and name, such as ``ai.onnx::Add``."""
    return f"{schema.domain or 'ai.onnx'}::{schema.name}"


class Request:
    """What a case function is asked for; P below is the name of a type parameter."""

    def __init__(self, entry: Entry):
        self.schema = entry.schema
        self.op = entry.schema.name
        self.domain = entry.schema.domain
        self.version = entry.schema.since_version
        self.varied = entry.varied
        self.rng = np.random.default_rng(zlib.crc32(str(entry).encode()))
        self._types = {
            constraint.type_param_str: _preferred(list(constraint.allowed_type_strs))
            for constraint in self.schema.type_constraints
        }
        if entry.varied:
            self._types[entry.varied] = entry.type
        if entry.varied in ("O", "S", "T", "V"):  # sequences and optionals go with what they hold
            for constraint in self.schema.type_constraints:
                for type_ in constraint.allowed_type_strs:
                    if _holds(entry.type, type_) or _holds(type_, entry.type):
                        self._types[constraint.type_param_str] = type_
            self._types[entry.varied] = entry.type

    def type(self, parameter: str) -> str:
        """Type of a parameter, such as ``seq(tensor(int64))``; of a literal type, that."""
        return self._types.get(parameter, parameter)

    def dtype(self, parameter: str) -> np.dtype:
        """NumPy's dtype of the elements of a parameter."""
        return dtype_of(element_of(self.type(parameter)))

    def having(self, types: dict[str, str]) -> Request:
        """Give these types to parameters; return the request."""
        self._types.update(types)
        return self

    def random(self, parameter: Any, shape: Iterable[int] = (), low=None, high=None) -> np.ndarray:
        """Values for P, or of a dtype: floats in [-2, 2], small integers, a few words."""
        known = isinstance(parameter, str) and (parameter in self._types or "(" in parameter)
        dtype = self.dtype(parameter) if known else np.dtype(parameter)
        return random_array(self.rng, dtype, tuple(shape), low, high)


def _holds(outer: str, inner: str) -> bool:
    return outer in (f"seq({inner})", f"optional({inner})")


def _preferred(allowed: list[str]) -> str:
    return next((type_ for type_ in PREFERRED if type_ in allowed), allowed[0])


def random_array(rng, dtype: np.dtype, shape: tuple[int, ...], low=None, high=None) -> np.ndarray:
    """Values of any type; `high` is included."""
    if dtype.kind in "OUST":
        return np.array(rng.choice(WORDS, shape), object)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype.name == "float8_e8m0fnu":  # nothing but powers of two
        exponents = rng.integers(-2, 3, shape).astype(np.float32)
        return np.asarray(np.exp2(exponents).astype(dtype))
    if "int" in dtype.name:
        limits = onnx.numpy_helper.ml_dtypes.iinfo(dtype)
        low = max(int(limits.min), -5 if low is None else int(low))
        high = min(int(limits.max), 5 if high is None else int(high))
        return np.asarray(rng.integers(low, high + 1, shape).astype(dtype))
    low, high = -2 if low is None else low, 2 if high is None else high
    values = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(low, high, shape)
    return np.asarray(np.asarray(values).astype(dtype))


Function = Callable[[Request], "Case | list[Case]"]
_functions: dict[tuple[str, str], Function] = {}
twice: list[str] = []  # operators that more than one file has a function for


def cases(*operators: str, domain: str = "") -> Callable[[Function], Function]:
    """Make a function that of these operators."""

    def register(function: Function) -> Function:
        for operator in operators:
            key = (domain, operator)
            if key in _functions:
                twice.append(operator)
            _functions[key] = function
        return function

    return register


def load_cases() -> dict[tuple[str, str], Function]:
    """Import every file of `cases/`; return the functions by domain and operator."""
    for path in sorted(Path(__file__).with_name("cases").glob("*.py")):
        importlib.import_module(f"tests.versions.cases.{path.stem}")
    return _functions


def cases_of(entry: Entry) -> list[Case]:
    """Ask the operator's function for its cases."""
    found = _functions[entry.schema.domain, entry.schema.name](Request(entry))
    found = found if isinstance(found, list) else [found]
    assert found, "the function returned no case"
    return found
