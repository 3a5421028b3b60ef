"""Add up the JUnit files of a test run and print the closing line "N passed, N failed"."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count_cases(path: Path) -> tuple[int, int, int]:
    """Return the numbers of passed, failed and skipped cases in a JUnit file."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(folder: Path) -> int:
    """Print the totals of `folder`; return 1 when anything failed or nothing ran."""
    passed = failed = skipped = 0
    for path in sorted(folder.glob("*.xml")):
        counts = count_cases(path)
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    # A test program that crashed leaves no report of its own; ctest's report has it.
    programs = folder / "ctest.junit"
    if programs.exists():
        for case in ElementTree.parse(programs).iter("testcase"):
            reports = folder.glob(f"{case.get('name', '').split('_test')[0]}_test*.xml")
            if case.find("failure") is not None and not any(
                count_cases(report)[1] for report in reports
            ):
                failed += 1
    note = f" ({skipped} skipped)" if skipped else ""
    print(f"{passed} passed, {failed} failed{note}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
