"""Models that break the standard: each runs or gives an error that names node and operator.

Starting from the first case of every version of every operator that works. Nothing else may
happen: no other exception, crash, hang, or use of much memory.
"""

from __future__ import annotations

import zlib

import numpy as np
import onnx
import pytest

import sardonyx
from tests.versions.case import Case, Entry, cases_of, operator_of
from tests.versions.children import in_children
from tests.versions.model import build
from tests.versions.mutations import Mutant, mutants
from tests.versions.schemas import FUNCTIONS, SCHEMAS

SECONDS = 5
MEMORY = 1 << 30

OPERATORS: dict[str, list[onnx.defs.OpSchema]] = {}
for _schema in SCHEMAS:
    if (_schema.domain, _schema.name) in FUNCTIONS and not _schema.deprecated:
        OPERATORS.setdefault(operator_of(_schema), []).append(_schema)


def _start(schema: onnx.defs.OpSchema) -> tuple[onnx.ModelProto, dict] | None:
    """The first case that runs, of the first type of the first parameter."""
    rows = schema.type_constraints
    rows = [(row.type_param_str, type_) for row in rows for type_ in sorted(row.allowed_type_strs)]
    preferred = [row for row in rows if row[1] == "tensor(float)"]
    entry = Entry(schema, *next(iter(preferred or rows), ("", "")))
    case: Case = cases_of(entry)[0]
    model, values = build(entry, case, shapes=True)
    sardonyx.load(model, threads=1).run(values)
    return model, values


def _try(mutant: Mutant) -> None:
    op = mutant.model.graph.node[0].op_type
    try:
        sardonyx.load(mutant.model, threads=1).run(mutant.values)
    except sardonyx.Error as error:
        message = str(error)
        if "cannot allocate" in message:  # of all values together
            return
        if "'node'" not in message or op not in message:
            raise AssertionError(f"the error does not name node and operator: {message}") from error
        return
    if mutant.is_invalid:
        raise AssertionError("runs, though the standard forbids it")


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_invalid(operator: str):
    failures = []
    for schema in OPERATORS[operator]:
        name = f"{operator}-{schema.since_version}"
        start, problem = in_children([schema], _start, seconds=SECONDS)[0]
        assert start is not None, f"{name}: {problem}"
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        tried = list(mutants(schema, *start, rng))
        outcomes = in_children(tried, _try, seconds=SECONDS, memory=MEMORY)
        failures += [
            f"{name}: {mutant.what}: {failure}"
            for mutant, (_, failure) in zip(tried, outcomes, strict=True)
            if failure
        ]
    assert not failures, "\n".join(failures)
