"""Models that break the standard in one place, and models that may, from one that works."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from tests.versions.case import random_array
from tests.versions.element_types import type_name, type_proto
from tests.versions.model import VARIADIC, parameter_at

EXTREMES = (-1, 0, -2, 7, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63))

SAMPLES: dict[int, Any] = {
    AttributeProto.INT: 1,
    AttributeProto.FLOAT: 1.0,
    AttributeProto.STRING: "text",
    AttributeProto.INTS: [1, 2],
    AttributeProto.FLOATS: [1.0],
    AttributeProto.STRINGS: ["text"],
    AttributeProto.TENSOR: helper.make_tensor("", TensorProto.FLOAT, [1], [1.0]),
}


@dataclass
class Mutant:
    what: str
    model: onnx.ModelProto
    values: dict[str, Any]
    is_invalid: bool  # by the schema, so that an error must come


def mutants(
    schema: onnx.defs.OpSchema, model: onnx.ModelProto, values: dict[str, Any], rng
) -> Iterator[Mutant]:
    """Everything that is tried with a model."""
    for make in (_types, _counts, _attributes):
        yield from make(schema, model, values, rng)
    for make in (_shapes, _integers, _extreme_attributes):
        yield from make(schema, model, values, rng)


def _copy(what: str, model: onnx.ModelProto, values: dict[str, Any], is_invalid: bool) -> Mutant:
    return Mutant(what, copy.deepcopy(model), dict(values), is_invalid)


def _retyped(mutant: Mutant, name: str, dtype: np.dtype, rng) -> Mutant:
    """Give an input of the model another element type."""
    value = random_array(rng, dtype, mutant.values[name].shape)
    mutant.values[name] = value
    for info in mutant.model.graph.input:
        if info.name == name:
            info.type.CopyFrom(type_proto(f"tensor({type_name(dtype)})", value.shape))
    return mutant


def _types(schema, model, values, rng) -> Iterator[Mutant]:
    """A type that the parameter does not allow; two types for one parameter."""
    allowed = {row.type_param_str: set(row.allowed_type_strs) for row in schema.type_constraints}
    node = model.graph.node[0]
    for position, name in enumerate(node.input):
        parameter = parameter_at(schema.inputs, position)
        if not isinstance(values.get(name), np.ndarray) or parameter is None:
            continue
        types = allowed.get(parameter.type_str, {parameter.type_str})
        for dtype in map(np.dtype, (object, "complex64", "bool", "float32", "uint16")):
            if f"tensor({type_name(dtype)})" not in types:
                mutant = _copy(f"{name} of type {dtype}", model, values, True)
                yield _retyped(mutant, name, dtype, rng)
                break
        if position == 0 or parameter.type_str not in allowed or not parameter.is_homogeneous:
            continue
        first = schema.inputs[0]
        if first.type_str != parameter.type_str or not isinstance(
            values.get(node.input[0]), np.ndarray
        ):
            continue
        for dtype in map(np.dtype, ("float64", "int64", "int32", "float16")):
            known = f"tensor({type_name(dtype)})" in types
            if known and dtype != values[node.input[0]].dtype:
                mutant = _copy(f"{name} of another type than the first", model, values, True)
                yield _retyped(mutant, name, dtype, rng)
                break


def _counts(schema, model, values, rng) -> Iterator[Mutant]:
    """Inputs and outputs that are missing or too many."""
    required = [row for row in schema.inputs if row.option.name == "Single"]
    if required:
        mutant = _copy("a required input missing", model, values, True)
        node = mutant.model.graph.node[0]
        node.input[list(schema.inputs).index(required[-1])] = ""
        yield mutant
        mutant = _copy("no inputs", model, values, True)
        del mutant.model.graph.node[0].input[:]
        yield mutant
    if values and not (schema.inputs and schema.inputs[-1].option == VARIADIC):
        mutant = _copy("too many inputs", model, values, True)
        node = mutant.model.graph.node[0]
        node.input.extend([next(iter(values))] * (len(schema.inputs) + 1 - len(node.input)))
        yield mutant
    if not (schema.outputs and schema.outputs[-1].option == VARIADIC):
        mutant = _copy("too many outputs", model, values, True)
        node = mutant.model.graph.node[0]
        node.output.extend(f"more_{i}" for i in range(len(schema.outputs) + 1 - len(node.output)))
        yield mutant


def _attributes(schema, model, values, rng) -> Iterator[Mutant]:
    """Attributes that are missing, unknown, or of a wrong type."""
    given = {attribute.name for attribute in model.graph.node[0].attribute}
    mutant = _copy("an unknown attribute", model, values, True)
    mutant.model.graph.node[0].attribute.append(helper.make_attribute("no_such_attribute", 1))
    yield mutant
    for name, attribute in schema.attributes.items():
        if attribute.required and name in given:
            mutant = _copy(f"attribute {name} missing", model, values, True)
            _remove(mutant, name)
            yield mutant
        for kind in (AttributeProto.STRING, AttributeProto.FLOATS):
            if kind != attribute.type.value:
                mutant = _copy(f"attribute {name} of type {kind}", model, values, True)
                _remove(mutant, name)
                _add(mutant, name, SAMPLES[kind])
                yield mutant


def _remove(mutant: Mutant, name: str) -> None:
    node = mutant.model.graph.node[0]
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def _add(mutant: Mutant, name: str, value: Any) -> None:
    mutant.model.graph.node[0].attribute.append(helper.make_attribute(name, value))


def _shapes(schema, model, values, rng) -> Iterator[Mutant]:
    """Other sizes and ranks."""
    arrays = [name for name, value in values.items() if isinstance(value, np.ndarray)]
    for _ in range(6 if arrays else 0):
        name = arrays[rng.integers(len(arrays))]
        shape = list(values[name].shape)
        change = rng.integers(4)
        if change == 0 and shape:
            shape[rng.integers(len(shape))] = int(rng.choice([0, 1, 2, 3, 7]))
        elif change == 1 and shape:
            del shape[rng.integers(len(shape))]
        else:
            shape.insert(rng.integers(len(shape) + 1), int(rng.choice([0, 1, 2, 5])))
        mutant = _copy(f"{name} of shape {shape}", model, values, False)
        value = np.resize(values[name], shape).astype(values[name].dtype)
        mutant.values[name] = value
        for info in mutant.model.graph.input:
            if info.name == name:
                sizes = shape if rng.integers(2) else [f"s{i}" for i in range(len(shape))]
                info.type.CopyFrom(type_proto(f"tensor({type_name(value.dtype)})", sizes))
        yield mutant


def _integers(schema, model, values, rng) -> Iterator[Mutant]:
    """Integers of inputs, such as shapes and indices, at their extremes; constants too."""
    for name, value in values.items():
        if not isinstance(value, np.ndarray) or value.dtype.name not in ("int64", "int32"):
            continue
        if schema.name == "Loop":  # that many trips take their time, and rightly so
            continue
        for extreme in EXTREMES if value.size else ():
            limits = np.iinfo(value.dtype)
            array = value.copy()
            array.flat[rng.integers(array.size)] = min(max(extreme, limits.min), limits.max)
            mutant = _copy(f"{name} with {extreme}", model, values, False)
            if rng.integers(2):
                mutant.values[name] = array
            else:
                mutant.what += ", constant"
                del mutant.values[name]
                graph = mutant.model.graph
                kept = [info for info in graph.input if info.name != name]
                del graph.input[:]
                graph.input.extend(kept)
                graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            yield mutant


def _extreme_attributes(schema, model, values, rng) -> Iterator[Mutant]:
    """Integers of attributes at their extremes; lists that are empty or too long."""
    given = {attribute.name: attribute for attribute in model.graph.node[0].attribute}
    for name, attribute in schema.attributes.items():
        if attribute.type.value == AttributeProto.INT:
            variants: list[Any] = list(EXTREMES)
        elif attribute.type.value == AttributeProto.INTS:
            now = list(given[name].ints) if name in given else [1, 1]
            variants = [[*now, 1], now[:-1]]
            for extreme in EXTREMES if now else ():
                changed = list(now)
                changed[rng.integers(len(now))] = extreme
                variants.append(changed)
        else:
            continue
        for variant in variants:
            mutant = _copy(f"attribute {name}={variant}", model, values, False)
            _remove(mutant, name)
            mutant.model.graph.node[0].attribute.append(
                helper.make_attribute(name, variant, attr_type=attribute.type.value)
            )
            yield mutant
