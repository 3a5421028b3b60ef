"""Run `tests/versions`; write `tests/versions/failing.txt` and `docs/operators.md`.

The list only shrinks: an entry that worked before and fails now is an error, unless --allow-new.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "docs" / "operators.md"


def run() -> dict[str, str]:
    """Run every entry; return how each fails, nothing if it does not."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-r", "N"]
        command += ["-n", str(min(8, len(os.sched_getaffinity(0))))]
        command += ["tests/versions/test_versions.py", "-k", "test_every_type"]
        environment = {**os.environ, "SARDONYX_RECORD_VERSIONS": folder}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        rows: dict[str, str] = {}
        for path in Path(folder).glob("*.json"):
            for entry, (_, failure) in json.loads(path.read_text(encoding="utf-8")).items():
                rows[entry] = failure
        return rows


def main() -> int:
    """Run the entries and write both files."""
    parser = argparse.ArgumentParser(prog="./dev coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--allow-new", action="store_true", help="let the list grow")
    options = parser.parse_args()
    from tests.versions import page
    from tests.versions.case import operator_of
    from tests.versions.schemas import FUNCTIONS, SCHEMAS
    from tests.versions.test_versions import LIST, LISTED

    failing = {entry for entry, failure in run().items() if failure}
    failing |= {
        operator_of(schema) for schema in SCHEMAS if (schema.domain, schema.name) not in FUNCTIONS
    }
    new = sorted(failing - LISTED)
    if new and not options.allow_new:
        print("these entries worked before:", *new, sep="\n  ")
        return 1
    LIST.write_text("".join(f"{entry}\n" for entry in sorted(failing)), encoding="utf-8")
    notes = page.notes_of(SCHEMAS, FUNCTIONS)
    PAGE.write_text(page.text(SCHEMAS, failing, notes), encoding="utf-8")
    print(f"{len(failing)} entries do not work yet: {LIST}, {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
