"""Runs ``onnx_test_tool``, the command line around src/onnx that is made for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("SARDONYX_BUILD_DIR", ROOT / "build" / "release")) / "bin/onnx_test_tool"


def run_tool(command: str, *files: str | Path) -> str:
    """Run the command over the files and return what it prints."""
    result = subprocess.run(
        [TOOL, command, *files], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def rewrite(command: str, sources: Sequence[Path], folder: Path) -> list[Path]:
    """Run ``rewrite`` or ``tensors`` over the sources; return the files written into the folder."""
    targets = [folder / f"{index}.onnx" for index in range(len(sources))]
    pairs = [path for pair in zip(sources, targets, strict=True) for path in pair]
    for begin in range(0, len(pairs), 200):
        run_tool(command, *pairs[begin : begin + 200])
    return targets
