"""The page: how many rows are at most level, which are not, and what else went wrong."""

from __future__ import annotations

import statistics
from typing import Any

from bench.peers.report import described

Row = dict[str, Any]
LEVEL = 1.005  # what rounds to 1.00
WRONG = 1.0  # tolerances


def summary(row: Row) -> str:
    """One line for the terminal."""
    if "skipped" in row:
        return f"   --  {row['name']}: ONNX Runtime: {row['skipped'][:90]}"
    if "error" in row:
        return f" FAILS {row['name']}: {row['error'][:300]}"
    mark = f" (!) {row['excess']:.3g} tolerances" if row["excess"] > WRONG else ""
    return f"{row['ratio']:6.2f} {row['ours_ms']:9.3f} {row['theirs_ms']:9.3f}  {row['name']}{mark}"


def section(rows: list[Row], threads: str) -> list[str]:
    """The outcome at one number of threads."""
    timed = sorted((row for row in rows if "ratio" in row), key=lambda row: -row["ratio"])
    if not timed:
        return []
    level = [row for row in timed if row["ratio"] < LEVEL]
    worst = [row for row in timed if row["ratio"] > 1.5]
    lines = ["", f"## {threads} thread" + ("s" if threads != "1" else ""), ""]
    lines.append(
        f"{len(timed)} rows of {len({row['op'] for row in timed})} operators; at most 1.00: "
        f"**{100 * len(level) / len(timed):.1f} %**; above 1.5: **{len(worst)}**; "
        f"geometric mean {statistics.geometric_mean(row['ratio'] for row in timed):.2f}."
    )
    if len(level) < len(timed):
        lines += [
            "",
            "| above 1.00 | Sardonyx, ms | ONNX Runtime, ms | ratio |",
            "|---|---:|---:|---:|",
        ]
        lines += [
            "| {name} | {ours_ms:.3f} | {theirs_ms:.3f} | {ratio:.2f} |".format(**row)
            for row in timed
            if row["ratio"] >= LEVEL
        ]
    lines += ["", "| operator | rows | geometric mean | worst |", "|---|---:|---:|---:|"]
    by_operator: dict[str, list[float]] = {}
    for row in timed:
        by_operator.setdefault(row["op"], []).append(row["ratio"])
    lines += [
        f"| {op} | {len(ratios)} | {statistics.geometric_mean(ratios):.2f} | {max(ratios):.2f} |"
        for op, ratios in sorted(by_operator.items())
    ]
    for title, chosen in (
        ("Sardonyx fails", [f"{r['name']}: {r['error']}" for r in rows if "error" in r]),
        (
            "Results differ by more than the tolerance",
            [f"{r['name']}: {r['excess']:.2g} times" for r in timed if r["excess"] > WRONG],
        ),
    ):
        if chosen:
            lines += ["", f"{title}:", "", *(f"- {text}" for text in chosen)]
    skipped = sum("skipped" in row for row in rows)
    lines += ["", f"ONNX Runtime has no kernel for {skipped} further rows."] if skipped else []
    return lines


def markdown(raw: dict[str, Any]) -> str:
    """The whole page."""
    machine = raw["machine"]
    lines = [
        "# Operators beside ONNX Runtime",
        "",
        "Written by `./dev bench operators`. One row is a model of one node: an operator with an "
        "element type, shapes and attributes. Both engines run it in turns in one process, inputs "
        "and results as numpy arrays; a ratio is Sardonyx's time to ONNX Runtime's turn by turn, "
        "and of these the median. An input behind = is a constant of the model.",
        "",
        f"- Machine: {described(machine)}, {machine['cores']} cores allowed",
        f"- SIMD: {' '.join(machine['simd']) or 'none of those looked for'}",
        f"- ONNX Runtime {raw['version']}",
    ]
    for threads, rows in sorted(raw["rows"].items()):
        lines += section(list(rows.values()), threads)
    return "\n".join(lines) + "\n"
