"""The demo reads a picture as a user starts it, and reads what it would with ONNX Runtime."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(importlib.util.find_spec("skimage").origin).parent / "data" / "page.png"

WITH_ONNXRUNTIME = """
import sys
from rapidocr_onnxruntime import RapidOCR
for _, text, confidence in RapidOCR()(sys.argv[1])[0]:
    print(f"{float(confidence):.3f} {text}")
"""


def _demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "examples/ocr/demo.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_reads_the_default_picture(tmp_path):
    out = tmp_path / "page.png"
    done = _demo("--out", str(out))
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-c", WITH_ONNXRUNTIME, str(PAGE)]
    expected = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    lines = expected.stdout.splitlines()
    assert len(lines) >= 5
    table = [line.split(None, 5) for line in done.stdout.splitlines()]
    found = [(row[1], row[5]) for row in table if len(row) == 6 and row[0].isdigit()]
    for (confidence, text), line in zip(found, lines, strict=True):
        expected_confidence, expected_text = line.split(None, 1)
        assert text == expected_text
        assert float(confidence) == pytest.approx(float(expected_confidence), abs=2e-3)
    for network in ("detection", "direction", "recognition"):
        assert network in done.stdout
    assert str(out) in done.stdout
    assert out.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no/such/picture.png", "no such file"),
        ("src", "is a folder"),
        ("CMakeLists.txt", "not a picture"),
    ],
)
def test_says_why_a_picture_cannot_be_read(path, message):
    done = _demo(path)
    assert done.returncode == 1
    assert message in done.stderr and path in done.stderr
    assert "Traceback" not in done.stderr


def test_says_that_a_picture_is_cut_off(tmp_path):
    path = tmp_path / "cut.png"
    path.write_bytes(PAGE.read_bytes()[:3000])
    done = _demo(str(path))
    assert done.returncode == 1
    assert "cannot be read" in done.stderr


def test_a_picture_without_text(tmp_path):
    from PIL import Image

    path = tmp_path / "blank.png"
    Image.new("RGB", (200, 100), "white").save(path)
    done = _demo(str(path), "--out", str(tmp_path / "out.png"))
    assert done.returncode == 0, done.stderr
    assert "no text found" in done.stdout
