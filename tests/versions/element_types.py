"""Types as ONNX writes them, NumPy's dtypes, and TypeProtos."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper


def element_of(type_: str) -> str:
    """Element type: ``float`` of ``seq(tensor(float))``, the values' of a map."""
    return re.findall(r"\w+", type_)[-1]


def dtype_of(element: str) -> np.dtype:
    """dtype of an element type by its ONNX name; object for strings."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, element.upper())))


def data_type(dtype: np.dtype) -> int:
    """Number of an element type in TensorProto."""
    if dtype.kind in "OUST":
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(dtype)


def type_name(dtype: np.dtype) -> str:
    """ONNX's name of a dtype: ``float`` for float32."""
    return TensorProto.DataType.Name(data_type(dtype)).lower()


def type_of(value: Any) -> str | None:
    """The type that a value has, None if it cannot be told."""
    if isinstance(value, np.ndarray | np.generic):
        return f"tensor({type_name(value.dtype)})"
    if isinstance(value, list):
        inner = type_of(value[0]) if value else None
        return inner and f"seq({inner})"
    if isinstance(value, dict) and value:
        key, item = next(iter(value.items()))
        name = type_name(np.asarray(item).dtype if not isinstance(item, str) else np.dtype(object))
        return f"map({'string' if isinstance(key, str) else 'int64'}, {name})"
    return None


def type_proto(type_: str, shape: Sequence[int | str] | None = None) -> onnx.TypeProto:
    """TypeProto of ``seq(tensor(float))`` and the like; a shape is for tensors."""
    kind, _, rest = type_.partition("(")
    arguments = rest[:-1]
    if kind == "tensor":
        return helper.make_tensor_type_proto(getattr(TensorProto, arguments.upper()), shape)
    if kind == "seq":
        return helper.make_sequence_type_proto(type_proto(arguments))
    if kind == "optional":
        return helper.make_optional_type_proto(type_proto(arguments))
    assert kind == "map", type_
    key, value = (part.strip() for part in arguments.split(","))
    return helper.make_map_type_proto(
        getattr(TensorProto, key.upper()), type_proto(f"tensor({value})")
    )
