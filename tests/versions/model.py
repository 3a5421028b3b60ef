"""A model of one node, from a case."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.versions.case import ABSENT, Case, Entry, Request
from tests.versions.element_types import type_of, type_proto

VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def parameter_at(parameters: list, position: int) -> Any:
    """The formal parameter of a position; the last one again if it is variadic."""
    if position < len(parameters):
        return parameters[position]
    return parameters[-1] if parameters and parameters[-1].option == VARIADIC else None


def _declared(parameter: Any, request: Request, value: Any = ABSENT) -> str | None:
    """Type of an input or output: of the value if there is one, else what the schema says."""
    if parameter is None:
        return None if value is ABSENT else type_of(value)
    from_schema = request.type(parameter.type_str)
    if from_schema.startswith("optional"):
        return from_schema
    from_value = None if value is ABSENT else type_of(value)
    if value is ABSENT and parameter.option == VARIADIC and not parameter.is_homogeneous:
        return None
    return from_value or from_schema


def opset_imports(domain: str, version: int) -> dict[str, int]:
    """Versions to import: of the operator's domain, and of ai.onnx at that time."""
    if not domain:
        return {"": version}
    if domain == "com.microsoft":  # an opset that every oracle knows
        return {domain: version, "": 21}
    columns = {"ai.onnx.ml": 3, "ai.onnx.preview.training": 4}
    table = onnx.helper.VERSION_TABLE
    rows = [
        row
        for row in table
        if domain not in columns or (len(row) > columns[domain] and row[columns[domain]] >= version)
    ]
    row = rows[0] if domain in columns else table[-1]
    return {domain: version, "": row[2]}


def build(entry: Entry, case: Case, *, shapes: bool) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Make the model and its inputs by name; their sizes stand in it, or names of sizes do."""
    request, schema = Request(entry).having(case.types), entry.schema
    names, infos, initializers, values = [], [], [], {}
    for position, value in enumerate(case.inputs):
        parameter = parameter_at(schema.inputs, position)
        declared = _declared(parameter, request, value)
        if value is ABSENT or (value is None and not str(declared).startswith("optional")):
            names.append("")
            continue
        name = f"x{position}"
        names.append(name)
        if position in case.initializers:
            initializers.append(onnx.numpy_helper.from_array(np.asarray(value), name))
            continue
        shape = value.shape if isinstance(value, np.ndarray) else None
        if shape is not None and not shapes:
            shape = [f"{name}_{axis}" for axis in range(len(shape))]
        infos.append(helper.make_value_info(name, type_proto(declared, shape)))
        values[name] = value
    while names and not names[-1]:
        names.pop()
    outputs, results = [], []
    for position, wanted in enumerate(_wanted(schema, case.outputs)):
        outputs.append(f"y{position}" if wanted else "")
        if wanted:
            declared = _declared(parameter_at(schema.outputs, position), request)
            type_ = type_proto(declared) if declared else onnx.TypeProto()
            results.append(helper.make_value_info(f"y{position}", type_))
    node = helper.make_node(schema.name, names, outputs, name="node", domain=schema.domain)
    for name, value in case.attributes.items():
        node.attribute.append(_attribute(schema, name, value))
    graph = helper.make_graph([node], "graph", infos, results, initializers)
    versions = opset_imports(schema.domain, case.opset or schema.since_version)
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    # The table of onnx.helper begins with opset 5 but for 1; all before had IR version 3.
    known = [row for row in imports if row.domain != "com.microsoft"]
    first = not versions.get("", 9) > 5
    ir_version = 3 if first else helper.find_min_ir_version_for(known)
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    return model, values


def _wanted(schema: onnx.defs.OpSchema, outputs: int | list[bool] | None) -> list[bool]:
    if isinstance(outputs, list):
        return outputs
    return [True] * (len(schema.outputs) if outputs is None else outputs)


def _attribute(schema: onnx.defs.OpSchema, name: str, value: Any) -> onnx.AttributeProto:
    """make_attribute, with the schema's type for empty lists and integers that mean floats."""
    if isinstance(value, onnx.AttributeProto):
        return value
    known = schema.attributes.get(name)
    kind = known.type.value if known is not None else None
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, onnx.numpy_helper.from_array(value))
    kinds = onnx.AttributeProto
    if kind == kinds.FLOAT and isinstance(value, int):
        value = float(value)
    elif kind == kinds.FLOATS and isinstance(value, list | tuple):
        value = [float(item) for item in value]
    return helper.make_attribute(name, value, attr_type=kind if value in ([], ()) else None)


def output_types(entry: Entry, case: Case) -> list[str | None]:
    """Declared types of the outputs that are asked for."""
    request = Request(entry).having(case.types)
    return [
        _declared(parameter_at(entry.schema.outputs, position), request)
        for position, wanted in enumerate(_wanted(entry.schema, case.outputs))
        if wanted
    ]
