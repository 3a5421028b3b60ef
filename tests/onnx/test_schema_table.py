"""The checked-in schema tables are what the installed standard says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_tables_are_current() -> None:
    spec = importlib.util.spec_from_file_location(
        "generate_schemas", ROOT / "tools" / "generate_schemas.py"
    )
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    tables = generator.generate()
    assert set(tables) == {"schema_table.inc", "function_bodies.inc"}
    for name, text in tables.items():
        assert (ROOT / "src" / "onnx" / name).read_text() == text, (
            f"src/onnx/{name} is out of date: run tools/generate_schemas.py"
        )
