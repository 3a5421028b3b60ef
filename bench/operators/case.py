"""The words that the tables of cases are written in."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  (its types get names in numpy)
import numpy as np
import onnx
from onnx import helper

Value = np.ndarray | list[np.ndarray]  # a list is a sequence
OPSETS = {"": 25, "ai.onnx.ml": 5, "com.microsoft": 1}
SHORT = {"f": "float", "i": "int", "u": "uint", "bf": "bfloat"}


def element_type(name: str) -> np.dtype:
    """The numpy type of a short name: f32, i8, u16, bf16, bool, str."""
    if name == "str":
        return np.dtype(object)
    letters = name.rstrip("0123456789")
    return np.dtype(SHORT.get(letters, letters) + name[len(letters) :])


@dataclass(frozen=True)
class Input:
    """One input: made once the row's element type is known; a constant is an initializer."""

    label: str
    make: Callable[[np.random.Generator, str], Value]
    constant: bool = False


def X(*shape: int, low: float = -3, high: float = 3, type: str = "") -> Input:
    """Random values in [low, high), of the row's type unless another is named."""

    def make(random: np.random.Generator, row_type: str) -> np.ndarray:
        dtype = element_type(type or row_type)
        if dtype.kind == "b":
            return random.random(shape) < 0.5
        if dtype.kind == "O":
            words = np.array([f"word {i}" for i in range(1000)], dtype=object)
            return words[random.integers(0, 1000, shape)]
        if dtype.kind in "iu":
            # Whole ranges of integers: small values hide overflow and make branches easy.
            bottom = 0 if dtype.kind == "u" else math.floor(low)
            return random.integers(max(bottom, math.floor(low)), math.ceil(high), shape, dtype)
        return random.uniform(low, high, shape).astype(dtype)

    return Input("x".join(map(str, shape)) or "scalar", make)


def C(value: Any, type: str = "i64") -> Input:
    """A constant, by default of int64; type "T" is the row's."""

    def make(_: np.random.Generator, row_type: str) -> np.ndarray:
        return np.array(value, element_type(row_type if type == "T" else type))

    text = str(value).replace(" ", "")
    label = text if len(text) < 30 else f"{type}[{len(value)}]"
    return Input(f"={label}", make, constant=True)


def W(*shape: int, low: float = -3, high: float = 3, type: str = "") -> Input:
    """As X, but a constant: weights."""
    made = X(*shape, low=low, high=high, type=type)
    return Input("=" + made.label, made.make, constant=True)


def S(count: int, *shape: int) -> Input:
    """A sequence of `count` tensors of this shape."""
    element = X(*shape)
    return Input(
        f"[{count} of {element.label}]",
        lambda random, row_type: [element.make(random, row_type) for _ in range(count)],
    )


def Unique(*shape: int, type: str = "") -> Input:
    """A permutation of 0 ... n-1 in this shape."""

    def make(random: np.random.Generator, row_type: str) -> np.ndarray:
        values = random.permutation(math.prod(shape)).reshape(shape)
        return values.astype(element_type(type or row_type))

    return Input("x".join(map(str, shape)), make)


@dataclass(frozen=True)
class Body:
    """A graph attribute, made when a model is."""

    label: str
    make: Callable[[], onnx.GraphProto]

    def __str__(self) -> str:
        return self.label


NONE = Input("-", lambda random, row_type: np.empty(0))  # an absent optional input


def value_info(name: str, value: Value) -> onnx.ValueInfoProto:
    """What a graph says of an input of this value."""
    one = value[0] if isinstance(value, list) else value
    make = helper.make_tensor_value_info
    if isinstance(value, list):
        make = helper.make_tensor_sequence_value_info
    return make(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)


@dataclass(frozen=True)
class Case:
    """A model of one node with its inputs."""

    op: str
    type: str
    inputs: tuple[Input, ...]
    attributes: dict[str, Any]
    domain: str = ""
    outputs: int = 1
    version: int = 0
    exact: bool = True  # False: results may differ from ONNX Runtime's (random, ties)

    @property
    def name(self) -> str:
        """Operator, type, shapes and attributes in a line."""
        shown = [f"{key}={value}" for key, value in self.attributes.items()]
        shown = [text for text in shown if len(text) < 60]
        text = " ".join(", ".join([*(i.label for i in self.inputs), *shown]).split())
        domain = "ms." if self.domain == "com.microsoft" else ""
        return f"{domain}{self.op} {self.type} {text[:100]}"

    def values(self) -> list[Value]:
        """The inputs' values, the same in every run."""
        random = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [given.make(random, self.type) for given in self.inputs]

    def model(self, values: list[Value]) -> bytes:
        """The model; every input of it has its shape declared."""
        names = ["" if given is NONE else f"x{i}" for i, given in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        rows = list(zip(names, self.inputs, values, strict=True))
        attributes = {
            key: getattr(onnx.TensorProto, value[1:]) if str(value)[:1] == "@" else value
            for key, value in self.attributes.items()
        }
        attributes = {
            key: value.make() if isinstance(value, Body) else value
            for key, value in attributes.items()
        }
        graph = helper.make_graph(
            [helper.make_node(self.op, names, outputs, domain=self.domain, **attributes)],
            "one_node",
            [value_info(name, value) for name, given, value in rows if name and not given.constant],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [onnx.numpy_helper.from_array(value, n) for n, given, value in rows if given.constant],
        )
        opset = self.version or OPSETS[self.domain]
        opsets = [helper.make_opsetid(self.domain, opset)]
        if self.domain:
            opsets.append(helper.make_opsetid("", OPSETS[""]))
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()

    def feeds(self, values: list[Value]) -> dict[str, Value]:
        """The values of those inputs that are not constant."""
        return {
            f"x{i}": value
            for i, (given, value) in enumerate(zip(self.inputs, values, strict=True))
            if not given.constant and given is not NONE
        }


def rows(
    ops: str,
    types: str,
    *inputs: list[Input],
    domain: str = "",
    outputs: int = 1,
    version: int = 0,
    exact: bool = True,
    **attributes: Any,
) -> Iterator[Case]:
    """Cases of every operator with every type and every list of inputs.

    Parameters
    ----------
    ops, types
        Names, separated by blanks.
    inputs
        Each a list of the inputs of a node.
    attributes
        The node's; "@INT8" is the number of an element type.
    """
    for op in ops.split():
        for given in inputs:
            for name in types.split():
                yield Case(op, name, tuple(given), attributes, domain, outputs, version, exact)
