"""Schemas of contributed operators, as the generator of their table reads them."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from generate_contributed_schemas import DOMAIN
from generate_contributed_schemas import contributed_schemas as all_schemas


def contributed_schemas() -> list[onnx.defs.OpSchema]:
    """Those of the contributed domain."""
    return [schema for schema in all_schemas() if schema.domain == DOMAIN]
