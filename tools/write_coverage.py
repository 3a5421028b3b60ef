"""Run the ONNX backend suite; write `tests/backend/failing.txt` and `docs/coverage.md`.

The list only shrinks: a case that passed before and fails now is an error, unless --allow-new.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "backend" / "failing.txt"
PAGE = ROOT / "docs" / "coverage.md"

HEAD = """\
# Coverage of the ONNX standard

Written by `./dev coverage` from a run of the ONNX backend test suite (`onnx.backend.test`, version
{version}) on the CPU, at its own tolerances. `tests/backend/failing.txt` lists what does not pass
yet; `./dev test` fails when another case fails, and when a listed one passes.

- Cases: {cases}
- Cases that pass: {passed}
- Cases that do not pass yet: {failing}
- {operators}

## Cases that do not pass yet, by reason

| cases | reason |
|---:|---|
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


def reason(message: str) -> str:
    """Reduce a failure to what it has in common with others."""
    unsupported = re.search(r"^\s*(\S+) \(opset \d+\): (.+?)(?: \(node|, in node|$)", message, re.M)
    if unsupported:
        return f"`{unsupported[1]}`: not implemented"
    died = re.search(r"died of signal (\d+)", message)
    if died:
        return f"the process died of signal {died[1]}"
    if "Not equal to tolerance" in message or "not equal" in message.lower():
        return "another result"
    if "Not compatible with backend" in message:
        return "an operator of the model is not implemented"
    node = re.search(r"\((\w+)-\d+\)", message)
    kind = message.split(":", 1)[0].rsplit(".", 1)[-1]
    return f"`{node[1]}`: {kind}" if node else kind


def write_page(record: dict, failing: dict[str, str]) -> None:
    """Write the page of coverage."""
    import onnx

    lines = record["report"].splitlines()
    counts = Counter(reason(message) for message in failing.values())
    rows = [
        f"| {count} | {text} |"
        for text, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    total = len(record["outcomes"])
    page = HEAD.format(
        version=onnx.__version__,
        cases=total,
        passed=total - len(failing),
        failing=len(failing),
        operators=next(line for line in lines if line.startswith("Operators")),
        reasons="\n".join(rows) or "| 0 | |",
        table="\n".join(line.rstrip() for line in lines[3:]),
    )
    PAGE.write_text(page, encoding="utf-8")


def main() -> int:
    """Run the suite and write both files."""
    parser = argparse.ArgumentParser(prog="./dev coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--allow-new", action="store_true", help="let the list grow")
    options = parser.parse_args()
    record = run_suite()
    failing = {
        name: found["message"]
        for name, found in sorted(record["outcomes"].items())
        if found["outcome"] != "passed"
    }
    listed = set(LIST.read_text(encoding="utf-8").split()) if LIST.exists() else set()
    new = sorted(set(failing) - listed)
    if new and not options.allow_new:
        print("these cases passed before:")
        for name in new:
            print(f"  {name}: {failing[name].splitlines()[0] if failing[name] else 'failed'}")
        return 1
    LIST.write_text("".join(f"{name}\n" for name in failing), encoding="utf-8")
    write_page(record, failing)
    print(f"{len(record['outcomes'])} cases, {len(failing)} do not pass yet: {LIST}, {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
