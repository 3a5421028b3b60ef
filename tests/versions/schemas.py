"""Every schema that is tested: the standard's, and those of contributed operators."""

from __future__ import annotations

import onnx

from tests.versions.case import load_cases
from tests.versions.contributed import contributed_schemas

FUNCTIONS = load_cases()
SCHEMAS = sorted(
    [*onnx.defs.get_all_schemas_with_history(), *contributed_schemas()],
    key=lambda schema: (schema.domain, schema.name, schema.since_version),
)
