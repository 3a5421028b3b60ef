#!/usr/bin/env python3
"""Write the operator schemas of the ``onnx`` package as C++ tables.

The tables are ``src/onnx/schema_table.inc`` (every version of every operator) and
``src/onnx/function_bodies.inc`` (the standard's context-independent function bodies, serialized).
They are checked in; ``tests/onnx/test_schema_table.py`` makes them again and compares.

Usage: generate_schemas.py [OUTPUT_FOLDER]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import onnx
from onnx.defs import OpSchema

ONNX_VERSION = "1.23.2"
OUTPUT_FOLDER = Path(__file__).resolve().parent.parent / "src" / "onnx"

TYPE_NAMES = {
    "float": "FLOAT",
    "double": "DOUBLE",
    **{
        name.lower(): name
        for name in onnx.TensorProto.DataType.keys()
        if name not in ("UNDEFINED", "FLOAT", "DOUBLE")
    },
}
# In the order of MapKind in schema.h.
MAP_KINDS = [
    ("int64", "float"),
    ("int64", "double"),
    ("int64", "string"),
    ("string", "float"),
    ("string", "double"),
    ("string", "int64"),
]
# In the order of TypeSet's members.
TYPE_PATTERNS = [
    r"tensor\((\w+)\)",
    r"seq\(tensor\((\w+)\)\)",
    r"optional\(tensor\((\w+)\)\)",
    r"optional\(seq\(tensor\((\w+)\)\)\)",
    r"map\((\w+), ?(?:tensor\()?(\w+)\)?\)",
    r"seq\(map\((\w+), ?(?:tensor\()?(\w+)\)?\)\)",
]


def quote(text: str) -> str:
    """Return the text as a C++ string literal."""
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"not plain text: {text!r}")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quote_bytes(data: bytes) -> list[str]:
    """Return the bytes as C++ string literals, one a line."""
    lines = []
    for begin in range(0, len(data), 48):
        text = ""
        for byte in data[begin : begin + 48]:
            char = chr(byte)
            # Three octal digits end an escape whatever follows, unlike hexadecimal ones.
            text += (
                char
                if char.isascii() and char.isprintable() and char not in '"\\?'
                else f"\\{byte:03o}"
            )
        lines.append(f'"{text}"')
    return lines


def type_set(types: list[str]) -> str:
    """Return the C++ initializer of a TypeSet.

    Parameters
    ----------
    types
        Type strings of the standard, such as ``seq(tensor(float))``.
    """
    words = [0] * len(TYPE_PATTERNS)
    for text in types:
        for index, pattern in enumerate(TYPE_PATTERNS):
            if match := re.fullmatch(pattern, text):
                if len(match.groups()) == 1:
                    bit = onnx.TensorProto.DataType.Value(TYPE_NAMES[match[1]])
                else:
                    bit = MAP_KINDS.index((match[1], match[2]))
                words[index] |= 1 << bit
                break
        else:
            raise ValueError(f"no member of TypeSet holds {text}")
    return "{" + ", ".join(f"{word:#x}" for word in words) + "}"


class Table:
    """C++ arrays, equal ones shared."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[tuple[str, tuple[str, ...]], str] = {}

    def array(self, element_type: str, prefix: str, rows: list[str]) -> str:
        """Return the name of a constexpr array with these rows, ``{}`` when there are none."""
        if not rows:
            return "{}"
        key = (element_type, tuple(rows))
        if key not in self._names:
            name = f"{prefix}{sum(k[0] == element_type for k in self._names)}"
            self._names[key] = name
            self.lines.append(f"constexpr {element_type} {name}[] = {{")
            self.lines += [f"    {row}," for row in rows]
            self.lines.append("};")
        return self._names[key]


def parameter_row(parameter: OpSchema.FormalParameter) -> str:
    """Return the initializer of a FormalParameter."""
    literal = "(" in parameter.type_str
    if literal and not re.fullmatch(TYPE_PATTERNS[0], parameter.type_str):
        raise ValueError(f"TypesOf in schema.cc does not know {parameter.type_str}")
    option = f"ParameterOption::k{parameter.option.name}"
    homogeneous = "true" if parameter.is_homogeneous else "false"
    return (
        f"{{{quote(parameter.name)}, {quote(parameter.type_str)}, {option}, {homogeneous}, "
        f"{parameter.min_arity}}}"
    )


def attribute_row(table: Table, attribute: OpSchema.Attribute) -> str:
    """Return the initializer of an AttributeSchema."""
    type_name = "".join(part.capitalize() for part in attribute.type.name.split("_"))
    default = attribute.default_value if attribute.default_value.name else None
    number, integer, ints, strings = "0", "0", "{}", "{}"
    if default is not None:
        value = onnx.helper.get_attribute_value(default)
        if default.type == onnx.AttributeProto.FLOAT:
            number = float(value).hex() + "f"
        elif default.type == onnx.AttributeProto.INT:
            integer = str(value)
        elif default.type == onnx.AttributeProto.INTS:
            ints = table.array("int64_t", "kInts", [str(item) for item in value])
        elif default.type in (onnx.AttributeProto.STRING, onnx.AttributeProto.STRINGS):
            items = [value] if isinstance(value, bytes) else value
            rows = [quote(item.decode()) for item in items]
            strings = table.array("std::string_view", "kStrings", rows)
        else:
            raise ValueError(f"no default of type {default.type} fits AttributeSchema")
    required = "true" if attribute.required else "false"
    has_default = "true" if default is not None else "false"
    return (
        f"{{{quote(attribute.name)}, AttributeType::k{type_name}, {required}, {has_default}, "
        f"{number}, {integer}, {ints}, {strings}}}"
    )


def bound(count: int) -> str:
    """Return a number of inputs or outputs as C++."""
    return "kUnbounded" if count == 2**31 - 1 else str(count)


def schema_row(table: Table, bodies: Table, schema: OpSchema) -> str:
    """Return the initializer of an OpSchema, its arrays added to the tables."""
    parameters = "FormalParameter", "kParameters"
    inputs = table.array(*parameters, [parameter_row(p) for p in schema.inputs])
    outputs = table.array(*parameters, [parameter_row(p) for p in schema.outputs])
    attributes = table.array(
        "AttributeSchema",
        "kAttributes",
        [attribute_row(table, schema.attributes[name]) for name in sorted(schema.attributes)],
    )
    constraints = table.array(
        "TypeConstraint",
        "kConstraints",
        [
            f"{{{quote(c.type_param_str)}, {type_set(c.allowed_type_strs)}}}"
            for c in schema.type_constraints
        ],
    )
    body_rows = []
    for opset in sorted(schema.function_opset_versions):
        data = schema.get_function_with_opset_version(opset)
        literal = "\n         ".join(quote_bytes(data))
        body_rows.append(
            f"{{{opset},\n     std::string_view(\n         {literal},\n         {len(data)})}}"
        )
    body_array = bodies.array(
        "FunctionBodyEntry", f"kBody{schema.name}{schema.since_version}_", body_rows
    )
    flags = [schema.deprecated, schema.has_context_dependent_function]
    fields = [
        quote(schema.name),
        quote(schema.domain),
        str(schema.since_version),
        *("true" if flag else "false" for flag in flags),
        bound(schema.min_input),
        bound(schema.max_input),
        bound(schema.min_output),
        bound(schema.max_output),
        inputs,
        outputs,
        attributes,
        constraints,
        body_array,
    ]
    return "{" + ", ".join(fields) + "}"


def generate() -> dict[str, str]:
    """Return the tables' text by file name."""
    if onnx.__version__ != ONNX_VERSION:
        raise RuntimeError(
            f"onnx {onnx.__version__} is installed, the tables are of {ONNX_VERSION}"
        )
    head = f"// Generated from onnx {ONNX_VERSION} by tools/generate_schemas.py. Do not edit.\n\n"
    schemas = sorted(
        onnx.defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)
    )
    table, bodies = Table(), Table()
    rows = [schema_row(table, bodies, schema) for schema in schemas]
    newest = onnx.defs.C.schema_version_map()
    domains = sorted({schema.domain for schema in schemas} | set(newest))
    domain_rows = [f"    {{{quote(domain)}, {newest[domain][1]}}}," for domain in domains]
    lines = [
        *table.lines,
        "constexpr OpSchema kSchemas[] = {",
        *(f"    {row}," for row in rows),
        "};",
        "constexpr DomainInfo kDomains[] = {",
        *domain_rows,
        "};",
    ]
    return {
        "schema_table.inc": head + "\n".join(lines) + "\n",
        "function_bodies.inc": head + "\n".join(bodies.lines) + "\n",
    }


def write(tables: dict[str, str]) -> None:
    """Write tables into the folder named on the command line, else into the source tree.

    Parameters
    ----------
    tables
        Texts by the names of their files.
    """
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT_FOLDER
    for name, text in tables.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(generate())
