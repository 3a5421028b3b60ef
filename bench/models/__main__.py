"""`python -m bench.models [NAME...]`: write the models that tests and benchmarks run."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from bench.models import DEFAULT_FOLDER, collection, ensure, survey


def main() -> int:
    """Export the named models, or all; return the number that failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to write (default: all)")
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, help="folder (%(default)s)")
    parser.add_argument("--survey", action="store_true", help="those of the survey instead")
    parser.add_argument("--list", action="store_true", help="list the names and stop")
    arguments = parser.parse_args()
    known = survey() if arguments.survey else collection()
    if arguments.list:
        print("\n".join(known))
        return 0
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no model named {', '.join(unknown)}; --list shows all")

    names = arguments.names or list(known)
    failed = 0
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name} ... ", end="", flush=True)
        start = time.monotonic()
        there = (arguments.out / f"{name}.onnx").exists()
        try:
            path = ensure(name, arguments.out)
        except Exception as error:  # one export that fails must not hide the others
            failed += 1
            print(f"FAILED: {type(error).__name__}: {error}")
            continue
        size = sum(part.stat().st_size for part in arguments.out.glob(f"{name}.onnx*")) / 2**20
        took = "there" if there else f"{time.monotonic() - start:.1f} s"
        print(f"{took}, {size:.1f} MiB, {path}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
