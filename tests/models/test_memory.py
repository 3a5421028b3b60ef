"""Memory stays bounded when the shapes of inputs keep changing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.models import ensure

ROOT = Path(__file__).resolve().parents[2]

# A process of its own: what pytest and other tests hold or let go must not count. Lengths up to 64
# with a preference for short ones give about two hundred shapes, more than plans are kept for.
SCRIPT = """
import json, sys
import numpy as np
import sardonyx
from bench.models.table import masked_tokens

def resident_kib():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1])

rng = np.random.default_rng(7)
session = sardonyx.load(sys.argv[1], threads=2)
sizes, shapes = [], set()
for run in range(1, 2001):
    batch, length = int(rng.integers(1, 4)), 1 + int(63 * rng.random() ** 3)
    shapes.add((batch, length))
    session.run(masked_tokens(rng, batch, length))
    if run % 50 == 0:
        sizes.append(resident_kib())
print(json.dumps({"sizes": sizes, "shapes": len(shapes)}))
"""


@pytest.mark.serial
def test_bert_with_changing_shapes_does_not_grow():
    command = [sys.executable, "-c", SCRIPT, str(ensure("bert_base"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["shapes"] > 100
    first, largest = result["sizes"][0], max(result["sizes"])
    assert largest < 1.10 * first, f"grew from {first} KiB to {largest} KiB: {result['sizes']}"
