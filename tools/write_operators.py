"""Run every entry of `tests/versions` and write `docs/operators.md`."""

from __future__ import annotations

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
    """Run the entries and write the page, unless an entry fails."""
    from tests.versions import page
    from tests.versions.schemas import FUNCTIONS, SCHEMAS

    rows = run()
    failing = sorted(entry for entry, failure in rows.items() if failure)
    if failing or not rows:
        print("these entries fail:", *failing, sep="\n  ")
        return 1
    PAGE.write_text(page.text(SCHEMAS, page.notes_of(SCHEMAS, FUNCTIONS)), encoding="utf-8")
    print(f"{len(rows)} entries work: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
