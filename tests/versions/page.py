"""The page of operators: versions and types, from the table of schemas and a run of the tests."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from tests.versions.case import Entry, cases_of, operator_of
from tests.versions.element_types import element_of

GROUPS = {  # column: element types
    "bool": ("bool",),
    "int": ("int8", "int16", "int32", "int64"),
    "uint": ("uint8", "uint16", "uint32", "uint64"),
    "f16": ("float16",),
    "bf16": ("bfloat16",),
    "f32": ("float",),
    "f64": ("double",),
    "complex": ("complex64", "complex128"),
    "string": ("string",),
    "float8": ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0"),
    "float6, 4": ("float6e2m3", "float6e3m2", "float4e2m1"),
    "int4, 2": ("int4", "uint4", "int2", "uint2"),
}
CONTAINERS = {"seq": "seq(", "optional": "optional(", "map": "map("}

HEAD = """\
# Operators: versions and types

Written by `./dev coverage` from a run of `tests/versions`, where the standard's table of schemas
(onnx {version}) asks for every type of every type parameter of every version of every operator.
Each runs as a model of one node and is compared with the reference evaluator, with ONNX Runtime, or
with a formula beside the case.

- Entries (version, type parameter, type), all of which work: {entries}

`●`: the version allows types of the column, and each works. Int and uint have 8 to 64 bits;
sequences, optionals and maps stand in columns of their own.

## Where the standard contradicts itself

{notes}
"""


def entries_of(schema: onnx.defs.OpSchema) -> list[Entry]:
    """Every type of every type parameter; one entry without, if there is no parameter."""
    found = [
        Entry(schema, constraint.type_param_str, type_)
        for constraint in schema.type_constraints
        for type_ in sorted(constraint.allowed_type_strs)
    ]
    return found or [Entry(schema, "", "")]


def _column(entry: Entry) -> str:
    for column, start in CONTAINERS.items():
        if entry.type.startswith(start):
            return column
    element = element_of(entry.type) if entry.type else ""
    return next((column for column, types in GROUPS.items() if element in types), "")


def _row(schema: onnx.defs.OpSchema) -> str:
    columns = {_column(entry) for entry in entries_of(schema)}
    marks = ["●" if column in columns else "" for column in [*GROUPS, *CONTAINERS]]
    return f"| {schema.name} | {schema.since_version} | {' | '.join(marks)} |"


def text(schemas: Iterable[onnx.defs.OpSchema], notes: list[str]) -> str:
    """Write the whole page."""
    schemas = [schema for schema in schemas if not schema.deprecated]
    entries = [entry for schema in schemas for entry in entries_of(schema)]
    parts = [
        HEAD.format(
            version=onnx.__version__,
            entries=len(entries),
            notes="\n".join(notes) or "No case says so.",
        )
    ]
    columns = [*GROUPS, *CONTAINERS]
    for domain in sorted({schema.domain for schema in schemas}):
        parts.append(f"## {domain or 'ai.onnx'}\n")
        parts.append(f"| operator | version | {' | '.join(columns)} |")
        parts.append(f"|---|---:|{'---|' * len(columns)}")
        parts += [_row(schema) for schema in schemas if schema.domain == domain]
        parts.append("")
    return "\n".join(parts)


def notes_of(schemas: Iterable[onnx.defs.OpSchema], functions: dict) -> list[str]:
    """What cases say the standard leaves contradictory, and what was chosen."""
    found: dict[str, None] = {}
    for schema in schemas:
        if schema.deprecated or (schema.domain, schema.name) not in functions:
            continue
        for entry in entries_of(schema):
            try:
                cases = cases_of(entry)
            except Exception:  # which test_versions.py tells
                continue
            for case in cases:
                if case.note:
                    note = " ".join(case.note.split())
                    found[f"- `{operator_of(schema)}`: {note}"] = None
    return list(found)
