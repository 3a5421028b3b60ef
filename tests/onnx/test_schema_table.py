"""The checked-in schema tables are what the installed standard and its contributors say."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("generate_schemas", {"schema_table.inc", "function_bodies.inc"}),
        ("generate_contributed_schemas", {"contributed_table.inc"}),
    ],
)
def test_tables_are_current(script, files, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    tables = importlib.import_module(script).generate()
    assert set(tables) == files
    for name, text in tables.items():
        assert (ROOT / "src" / "onnx" / name).read_text() == text, (
            f"src/onnx/{name} is out of date: run tools/{script}.py"
        )
