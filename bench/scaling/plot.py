"""Draws time along each axis: `python -m bench.scaling.plot RAW.json OUT.svg`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from bench.peers.engines import ENGINES
from bench.peers.plot import MARKERS
from bench.peers.report import described, latency


def main() -> None:
    """Draw a panel a curve, a line an engine."""
    raw = json.loads(Path(sys.argv[1]).read_text())
    matplotlib.rcParams["svg.hashsalt"] = "sardonyx"  # the same numbers give the same file
    columns = min(3, len(raw["curves"]))
    rows = -(-len(raw["curves"]) // columns)
    figure, panels = pyplot.subplots(
        rows, columns, squeeze=False, figsize=(4.2 * columns, 3.4 * rows)
    )
    for panel in panels.flat[len(raw["curves"]) :]:
        panel.axis("off")
    for panel, curve in zip(panels.flat, raw["curves"], strict=False):
        for engine in raw["versions"]:
            points = [
                (point["x"], latency(result) / (point["x"] if curve["per_item"] else 1))
                for point in curve["points"]
                if (result := point["results"].get(engine)) and not result["error"]
            ]
            if points:
                colour, marker = MARKERS[engine]
                x, y = zip(*points, strict=True)
                panel.plot(x, y, color=colour, marker=marker, label=ENGINES[engine].title)
        panel.set_xscale("log", base=2 if curve["points"][-1]["x"] <= 1024 else 10)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_yscale("log")
        panel.set_title(curve["model"])
        panel.set_xlabel(curve["axis"])
        unit = f"ms a {curve['axis'].removesuffix('s')}" if curve["per_item"] else "ms a run"
        panel.set_ylabel(unit)
        panel.grid(alpha=0.3)
    panels[0][0].legend(loc="best")
    figure.suptitle(f"{described(raw['machine'])}, {raw['date'][:10]}")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
