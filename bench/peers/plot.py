"""Draws the latencies relative to ONNX Runtime: `python -m bench.peers.plot RAW.json OUT.svg`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from bench.peers.engines import ENGINES, REFERENCE
from bench.peers.report import described, latency, ratio, timed

MARKERS = {
    "sardonyx": ("#c0392b", "o"),
    "onnxruntime": ("#34495e", "v"),
    "openvino": ("#2471a3", "s"),
    "tract": ("#7d8c4a", "^"),
    "ncnn": ("#b9770e", "D"),
}
LIMITS = (1 / 8, 16)  # what lies beyond is drawn at the edge


def main() -> None:
    """Draw a row a model, a panel a number of threads, a mark an engine."""
    raw = json.loads(Path(sys.argv[1]).read_text())
    engines = [engine for engine in timed(raw["engines"]) if engine != REFERENCE]
    models = list(dict.fromkeys(entry["model"] for entry in raw["entries"]))
    matplotlib.rcParams["svg.hashsalt"] = "sardonyx"  # the same numbers give the same file
    height = 1.6 + 0.24 * len(models)
    figure, panels = pyplot.subplots(
        1, len(raw["threads"]), sharex=True, sharey=True, squeeze=False, figsize=(10, height)
    )
    for panel, threads in zip(panels[0], raw["threads"], strict=True):
        for engine in engines:
            points = [
                (min(max(share, LIMITS[0]), LIMITS[1]), models.index(entry["model"]))
                for entry in raw["entries"]
                if entry["threads"] == threads
                and (share := ratio(entry, engine, REFERENCE, latency)) is not None
            ]
            if points:
                colour, marker = MARKERS[engine]
                x, y = zip(*points, strict=True)
                panel.scatter(x, y, color=colour, marker=marker, label=ENGINES[engine].title)
        panel.axvline(1, color="black", linewidth=1)
        panel.set_xscale("log", base=2)
        panel.set_xlim(LIMITS[0] * 0.9, LIMITS[1] * 1.1)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_title(f"{threads} thread" + ("s" if threads > 1 else ""))
        panel.set_xlabel(f"latency / {ENGINES[REFERENCE].title}'s (left is faster)")
        panel.grid(alpha=0.3)
    panels[0][0].set_yticks(range(len(models)), models)
    panels[0][0].invert_yaxis()
    panels[0][-1].legend(loc="best")
    figure.suptitle(f"{described(raw['machine'])}, {raw['date'][:10]}")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
