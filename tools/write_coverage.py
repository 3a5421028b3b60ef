"""Run the ONNX backend suite and write `docs/coverage.md`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"

HEAD = """\
# Coverage of the ONNX standard

Written by `./dev coverage` from a run of the ONNX backend test suite (`onnx.backend.test`, version
{version}) on the CPU, at its own tolerances, with nothing excluded.
[operators.md](operators.md) goes further: every version of every operator with every type.

- Cases: {cases}
- Cases that pass: {passed}
- {operators}

## Cases that nobody can pass honestly

| case | reason |
|---|---|
{reasons}

## Operators and attributes

Every operator with a case that passes, and how many values of each attribute the passing cases
have.

```text
{table}
```
"""


def run_suite() -> dict:
    """Run every case in processes of pytest-xdist; return outcomes and report."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "suite.json"
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-r", "N"]
        command += ["-n", str(min(8, len(os.sched_getaffinity(0))))]
        command += ["tests/backend/test_suite.py", "-k", "_cpu"]
        environment = {**os.environ, "SARDONYX_RECORD_SUITE": str(record)}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if not record.exists():
            sys.exit("the suite did not run")
        return json.loads(record.read_text(encoding="utf-8"))


def write_page(record: dict, impossible: dict[str, str]) -> None:
    """Write the page of coverage."""
    import onnx

    lines = record["report"].splitlines()
    rows = [f"| `{name}` | {reason} |" for name, reason in impossible.items()]
    total = len(record["outcomes"])
    page = HEAD.format(
        version=onnx.__version__,
        cases=total,
        passed=total - len(impossible),
        operators=next(line for line in lines if line.startswith("Operators")),
        reasons="\n".join(rows),
        table="\n".join(line.rstrip() for line in lines[3:]),
    )
    PAGE.write_text(page, encoding="utf-8")


def main() -> int:
    """Run the suite and write the page, unless a case fails."""
    record = run_suite()
    outcomes = sorted(record["outcomes"].items())
    failed = [name for name, found in outcomes if found["outcome"] == "failed"]
    if failed:
        print("these cases fail:", *failed, sep="\n  ")
        return 1
    impossible = {
        name: found["message"].removeprefix("reason: ")
        for name, found in outcomes
        if found["outcome"] != "passed"
    }
    write_page(record, impossible)
    print(f"{len(outcomes)} cases, {len(outcomes) - len(impossible)} pass: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
