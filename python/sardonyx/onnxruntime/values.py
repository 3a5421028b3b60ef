"""`OrtValue`: a value with its place. The only place is the memory of the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.onnxruntime.exceptions import NotSupported

__all__ = ["OrtValue"]

_ONNX_NAMES = {
    "float16": "float16",
    "float32": "float",
    "float64": "double",
    "object": "string",
}


class OrtValue:
    """A tensor, or a sequence of tensors. Made by `ortvalue_from_numpy` and the like."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(
        array: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Hold an array, without a copy."""
        _check_device(device_type)
        return OrtValue(np.asarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Hold a new array whose elements are zero."""
        _check_device(device_type)
        return OrtValue(np.zeros(tuple(shape), np.dtype(element_type)))

    def numpy(self) -> np.ndarray:
        """Return the array."""
        if not self.is_tensor():
            raise NotSupported("only an OrtValue that holds a tensor is a NumPy array")
        return self._value

    def has_value(self) -> bool:
        """Whether there is a value: an optional may be empty."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether the value is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether the value is a sequence."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """Whether the value is a sparse tensor: never."""
        return False

    def shape(self) -> list[int]:
        """Return the sizes of the tensor's dimensions."""
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """Return the type as ONNX writes it, such as ``tensor(float)``."""
        if self.is_tensor_sequence():
            element = OrtValue(self._value[0]).data_type() if self._value else "tensor(float)"
            return f"seq({element})"
        name = self.numpy().dtype.name
        return f"tensor({_ONNX_NAMES.get(name, name)})"

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.numpy().ctypes.data

    def device_name(self) -> str:
        """Return where the value lies."""
        return "cpu"

    def to_python(self) -> Any:
        """Return the value as `InferenceSession.run` does."""
        return self._value


def _check_device(device_type: str) -> None:
    if device_type.lower() != "cpu":
        raise NotSupported(f"there is no device '{device_type}'; values live on 'cpu'")
