"""What a case's result is to be."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime

from tests.versions.case import Case
from tests.versions.element_types import data_type, dtype_of, element_of

onnxruntime.set_default_logger_severity(4)


def wanted(
    case: Case, model: onnx.ModelProto, values: dict[str, Any], types: list[str | None]
) -> list[Any]:
    """Compute the results by the case's formula, the reference evaluator, or ONNX Runtime."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if case.expected is not None:
            return _by_formula(case, types)
        failures = []
        for name, run in ORACLES.items():
            if case.oracle in ("", name):
                try:
                    return run(model, values)
                except Exception as error:
                    failures.append(f"{name}: {type(error).__name__}: {error}"[:300])
    raise AssertionError("no oracle runs this: " + "; ".join(failures))


def _by_formula(case: Case, types: list[str | None]) -> list[Any]:
    found = case.expected
    if callable(found):
        found = found(*case.inputs)
    if not isinstance(found, list | tuple):
        found = [found]
    assert len(found) == len(types), f"{len(found)} expected results for {len(types)} outputs"
    return [_as_type(value, type_) for value, type_ in zip(found, types, strict=True)]


def _as_type(value: Any, type_: str | None) -> Any:
    """Formulas compute in float64: give the output's type to what they return in it."""
    wide = isinstance(value, np.ndarray | np.generic) and value.dtype in (np.float64, np.complex128)
    if wide and type_ and "map" not in type_:
        return np.asarray(value).astype(dtype_of(element_of(type_)))
    if isinstance(value, list):
        return [_as_type(item, type_) for item in value]
    return value


def _reference(model: onnx.ModelProto, values: dict[str, Any]) -> list[Any]:
    return onnx.reference.ReferenceEvaluator(model).run(None, values)


def _onnxruntime(model: onnx.ModelProto, values: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    outputs = [info.name for info in session.get_outputs()]
    if any(_is_narrow(value) for value in values.values()):
        inputs = {name: _ort_value(value) for name, value in values.items()}
        return [_from_ort_value(found) for found in session.run_with_ort_values(outputs, inputs)]
    return session.run(outputs, values)


def _is_narrow(value: Any) -> bool:
    """Whether it is an array of a type that ONNX Runtime's Python takes no arrays of."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "V"


def _ort_value(value: Any) -> onnxruntime.OrtValue:
    if _is_narrow(value):
        make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        return make(np.ascontiguousarray(value), data_type(value.dtype))
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))


def _from_ort_value(value: onnxruntime.OrtValue) -> np.ndarray:
    return value.numpy().view(dtype_of(element_of(value.data_type())))


ORACLES = {"reference": _reference, "onnxruntime": _onnxruntime}
