"""Read the text in a picture: three PP-OCRv4 networks run by Sardonyx.

The package `rapidocr-onnxruntime` brings the networks (detection of lines, direction of each line,
recognition) and all that lies between them. It is written for ONNX Runtime and is not modified:
`sardonyx.onnxruntime.install()` takes that name for Sardonyx before the package is imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
STAGES = {"_det_": "detection", "_cls_": "direction", "_rec_": "recognition"}

Corners = list[list[float]]


@dataclass
class Line:
    """A line of text: its corners in pixels (clockwise from the top left), what it says."""

    corners: Corners
    text: str
    confidence: float


@dataclass
class Spent:
    """Time spent in one network, in seconds."""

    loading: float = 0.0
    running: float = 0.0
    runs: int = 0


class DemoError(Exception):
    """Something the user can mend; the message says what."""


def default_picture() -> Path:
    """Find the scanned page that the package scikit-image ships, without importing the package."""
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise DemoError("the default picture is part of scikit-image: pip install scikit-image")
    return Path(spec.origin).parent / "data" / "page.png"


def open_picture(path: Path) -> Image.Image:
    """Open a picture, or say why that is impossible."""
    from PIL import Image, UnidentifiedImageError

    if not path.exists():
        raise DemoError(f"{path}: no such file")
    if path.is_dir():
        raise DemoError(f"{path}: is a folder; give the path of a picture")
    try:
        return Image.open(path).convert("RGB")
    except UnidentifiedImageError as error:
        raise DemoError(f"{path}: not a picture in a format that can be read") from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise DemoError(f"{path}: cannot be read: {error}") from error


def install(threads: int) -> dict[str, Spent]:
    """Put Sardonyx in the place of `onnxruntime`, with sessions that tell how long they take.

    Returns
    -------
    dict
        Time spent in each network, filled while they load and run.
    """
    try:
        from sardonyx import onnxruntime
    except ImportError as error:
        raise DemoError(f"Sardonyx cannot be imported ({error}); ./dev build makes it") from error

    spent = {stage: Spent() for stage in STAGES.values()}

    class TimedSession(onnxruntime.InferenceSession):
        """A session that notes its time under the name of its network."""

        def __init__(self, path: str, sess_options: Any = None, **options: Any) -> None:
            stage = next(stage for part, stage in STAGES.items() if part in Path(path).name)
            sess_options.intra_op_num_threads = threads
            self._spent = spent[stage]
            start = time.perf_counter()
            super().__init__(path, sess_options=sess_options, **options)
            self._spent.loading = time.perf_counter() - start
            print(f"  {stage}: {Path(path).name}, {self._spent.loading * 1e3:.0f} ms", flush=True)

        def run(self, *arguments: Any, **options: Any) -> list[Any]:
            start = time.perf_counter()
            try:
                return super().run(*arguments, **options)
            finally:
                self._spent.running += time.perf_counter() - start
                self._spent.runs += 1

    onnxruntime.install()
    sys.modules["onnxruntime"].InferenceSession = TimedSession
    return spent


def read(path: Path) -> list[Line]:
    """Find and read the lines of text in the picture at `path`."""
    from rapidocr_onnxruntime import RapidOCR

    engine = RapidOCR()
    print(f"reading {path} ...", flush=True)
    found, _ = engine(path)
    return [Line(corners, text, float(confidence)) for corners, text, confidence in found or []]


def print_lines(lines: list[Line]) -> None:
    """Print a row a line of text: number, confidence, position of its top left corner, size."""
    print(f"\n  {'#':>3}  {'confidence':>10}  {'position':>11}  {'size':>9}  text")
    for number, line in enumerate(lines, 1):
        columns, rows = zip(*line.corners, strict=True)
        position = f"{min(columns):.0f}, {min(rows):.0f}"
        size = f"{max(columns) - min(columns):.0f}x{max(rows) - min(rows):.0f}"
        print(f"  {number:>3}  {line.confidence:>10.3f}  {position:>11}  {size:>9}  {line.text}")


def print_times(spent: dict[str, Spent], elapsed: float) -> None:
    """Print the time spent in each network, and in all between them."""
    print(f"\n  {'model':<12} {'load, ms':>9} {'runs':>5} {'total, ms':>10} {'per run, ms':>12}")
    for stage, time_spent in spent.items():
        total, per_run = (
            time_spent.running * 1e3,
            time_spent.running * 1e3 / max(1, time_spent.runs),
        )
        print(
            f"  {stage:<12} {time_spent.loading * 1e3:>9.1f} {time_spent.runs:>5} "
            f"{total:>10.1f} {per_run:>12.1f}"
        )
    rest = elapsed - sum(time_spent.running + time_spent.loading for time_spent in spent.values())
    print(
        f"  {'all the rest':<12} {'':>9} {'':>5} {rest * 1e3:>10.1f}   (imports, image processing)"
    )


def annotate(picture: Image.Image, lines: list[Line], path: Path) -> None:
    """Write the picture with each line framed, and beside it what was read, at the same place."""
    from PIL import Image, ImageDraw, ImageFont

    scale = max(1, round(1600 / (2 * picture.width)))  # small scans are enlarged to be legible
    width, height = picture.width * scale, picture.height * scale
    canvas = Image.new("RGB", (2 * width, height), "white")
    canvas.paste(picture.resize((width, height), Image.Resampling.LANCZOS), (0, 0))
    draw = ImageDraw.Draw(canvas)
    for number, line in enumerate(lines, 1):
        corners = [(x * scale, y * scale) for x, y in line.corners]
        frame = [*corners, corners[0]]
        draw.line(frame, fill=(192, 57, 43), width=2)
        draw.line([(x + width, y) for x, y in frame], fill=(220, 220, 220))
        columns, rows = zip(*corners, strict=True)
        room = (max(columns) - min(columns), max(rows) - min(rows))
        # The built-in font has the Latin letters alone; others show as empty boxes.
        font = ImageFont.load_default(max(8, 0.8 * room[1]))
        length = draw.textlength(line.text, font)
        if length > room[0]:
            font = ImageFont.load_default(max(8, 0.8 * room[1] * room[0] / length))
        middle = (min(rows) + max(rows)) / 2
        place = (min(columns) + width, middle)
        draw.text(place, line.text, fill="black", font=font, anchor="lm")
        small = ImageFont.load_default(11)
        draw.text(corners[0], str(number), fill=(192, 57, 43), font=small, anchor="ls")
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path)


def main() -> int:
    """Read the picture named on the command line."""
    parser = argparse.ArgumentParser(
        prog="./dev demo", description="Read the text in a picture with three PP-OCRv4 networks."
    )
    parser.add_argument(
        "image", nargs="?", type=Path, help="a picture (default: a scan in scikit-image)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads a network (default: all processors, here %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, help="the annotated picture (default: build/demo/<name>-text.png)"
    )
    options = parser.parse_args()
    try:
        path = options.image or default_picture()
        picture = open_picture(path)
        start = time.perf_counter()
        print("loading three networks ...", flush=True)
        spent = install(options.threads)
        lines = read(path)
        elapsed = time.perf_counter() - start
        if lines:
            print_lines(lines)
        else:
            print("\n  no text found")
        print_times(spent, elapsed)
        out = options.out or ROOT / "build" / "demo" / f"{path.stem}-text.png"
        annotate(picture, lines, out)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    print(f"\nannotated picture: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
