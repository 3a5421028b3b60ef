"""The tables in Markdown, from the raw numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection
from typing import Any

from bench.peers import goals
from bench.peers.engines import ENGINES, REFERENCE
from bench.peers.work import Work

OURS = "sardonyx"
COMPILED = "engine_file"
WRONG = 10.0  # an output further than this many tolerances away is called wrong
PAGE = "benchmarks"  # name of the outcome's files
SURVEY_PAGE = "architectures"  # of the survey's

WRITTEN = "Written by `./dev bench peers`; edit `bench/peers/report.py`, not this page."
RATIOS = (
    "Ratios to the best peer on the same model: the peer that is fastest, or loads first, or "
    "takes least memory, whichever the row is about. At the limit: further behind, but within "
    f"{goals.NEAR:.0%} of what the machine's arithmetic and memory allow, Winograd's algorithm "
    "counted wherever it can be taken."
)

Entry = dict[str, Any]
Value = Callable[[dict[str, Any]], float]


def latency(result: dict[str, Any]) -> float:
    """Median over rounds of a run's latency, in milliseconds."""
    return statistics.median(result["rounds_ms"])


def load(result: dict[str, Any]) -> float:
    """Median time of loading and the first run in a fresh process, in milliseconds."""
    return statistics.median(result["load_ms"])


def peak(result: dict[str, Any]) -> float:
    """Peak resident memory in MiB."""
    return max(result["peak_mib"])


def timed(engines: list[str]) -> list[str]:
    """Those of the engines whose runs are timed."""
    return [engine for engine in engines if ENGINES[engine].is_timed]


def ours(peer: str, value: Value) -> str:
    """What of ours stands beside a peer: an engine file where its models are converted ahead."""
    return COMPILED if value is not latency and ENGINES[peer].convert else OURS


def ratio(entry: Entry, engine: str, base: str, value: Value) -> float | None:
    """How many times the value of `base` an engine takes; None if either failed.

    Latencies are compared round by round, so a machine that slows down for a while does not
    count against the engine whose turn it happened to be.
    """
    one, other = entry["results"].get(engine), entry["results"].get(base)
    if not one or not other or one["error"] or other["error"]:
        return None
    if value is latency:
        pairs = zip(one["rounds_ms"], other["rounds_ms"], strict=True)
        return statistics.median(a / b for a, b in pairs)
    return value(one) / value(other)


def best(entry: Entry, engines: list[str], value: Value) -> tuple[float, str] | None:
    """Our ratio to the best peer, and which one that is; None if we or all others failed."""
    shares = [
        (share, engine)
        for engine in engines
        if engine not in (OURS, COMPILED)
        and (share := ratio(entry, ours(engine, value), engine, value)) is not None
    ]
    return max(shares, default=None)


def number(value: float) -> str:
    """Three significant digits, without exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.{2 - math.floor(math.log10(value))}f}" if value > 0 else "0"


def geometric_mean(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def table(entries: list[Entry], engines: list[str], value: Value, unit: str) -> list[str]:
    """A table of one quantity: a row a model, a column an engine, and our ratio to each peer."""
    others = [engine for engine in engines if engine not in (OURS, COMPILED) and OURS in engines]
    head = ["model", "input"]
    head += [f"{ENGINES[engine].title}, {unit}" for engine in engines]
    head += [f"{ENGINES[ours(e, value)].title} / {ENGINES[e].title}" for e in others]
    head += ["Sardonyx / best"] * bool(others)
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    ratios: dict[str, list[float]] = {engine: [] for engine in [*others, "best"]}
    for entry in entries:
        cells = [entry["model"], entry["case"]]
        for engine in engines:
            result = entry["results"].get(engine)
            if result is None:
                cells.append("")
            elif result["error"]:
                cells.append("fails")
            else:
                mark = " (!)" if result["excess"] > WRONG else ""
                cells.append(number(value(result)) + mark)
        for engine in others:
            share = ratio(entry, ours(engine, value), engine, value)
            cells.append("" if share is None else f"{share:.2f}")
            if share is not None:
                ratios[engine].append(share)
        if others:
            closest = best(entry, others, value)
            cells.append("" if closest is None else f"**{closest[0]:.2f}**")
            if closest is not None:
                ratios["best"].append(closest[0])
        lines.append("| " + " | ".join(cells) + " |")
    if others:
        means = [f"**{geometric_mean(r):.2f}**" if r else "" for r in ratios.values()]
        blank = [""] * len(engines)
        lines.append("| " + " | ".join(["**geometric mean**", "", *blank, *means]) + " |")
    return lines


def failures(entries: list[Entry], engines: list[str]) -> list[str]:
    """Who failed on which model, and with what message; and whose outputs are wrong."""
    lines: dict[str, None] = {}  # ordered, and the same message at each thread count once
    for entry in entries:
        for engine in engines:
            result = entry["results"].get(engine)
            if result is None:
                continue
            what = f"- {ENGINES[engine].title}, {entry['model']}: "
            if result["error"]:
                message = result["error"].replace("`", "'")[:400]
                lines[f"{what}`{message}`"] = None
            elif result["excess"] > WRONG:
                lines[
                    f"{what}(!) outputs are up to {result['deviation']:.2g} away from "
                    f"{ENGINES[REFERENCE].title}'s, {result['excess']:.0f} times the tolerance"
                ] = None
    return list(lines)


def of_run(entry: Entry, run: int, runs: int) -> Entry:
    """What one of several runs measured."""
    results = {}
    for engine, result in entry["results"].items():
        results[engine] = dict(result)
        for name in ("rounds_ms", "load_ms", "peak_mib"):
            size = len(result[name]) // runs
            results[engine][name] = result[name][run * size : (run + 1) * size]
    return entry | {"results": results}


def least(work: Work, limit: dict[str, float]) -> list[float]:
    """Milliseconds that the machine's limits leave for a model: arithmetic, reading, steps."""
    flops = work.operations - work.on_bytes
    times = [(flops - work.narrow) / limit["arithmetic"], work.constants / limit["reading"], 0.0]
    times[0] += work.narrow_constants / limit["reading"]
    if work.on_bytes:
        times[0] += work.on_bytes / limit["bytes"]
    if work.of_steps:
        again = {"smallsteps": work.small, "largesteps": work.large}
        stepping = sum(read / limit[kind] for kind, read in again.items() if read)
        stepping = max(work.of_steps / limit["arithmetic"], stepping)
        times[2] = (flops - work.of_steps) / limit["arithmetic"] + stepping
    return [1e3 * time for time in times]


def by_turn(raw: dict[str, Any], entry: Entry, work: Work) -> list[list[float]]:
    """`least` in each turn: the machine's limits are measured in turns as well, but for reading."""
    reading = raw["limits"][str(entry["threads"])]
    return [least(work, reading | limit) for limit in entry["limits"]]


def beside_limit(raw: dict[str, Any], entry: Entry, work: Work) -> float:
    """The part of our time that the machine's limits leave for a model, turn by turn."""
    turns = zip(by_turn(raw, entry, work), entry["results"][OURS]["rounds_ms"], strict=True)
    return statistics.median(max(times) / taken for times, taken in turns)


def is_at_limit(raw: dict[str, Any], entry: Entry) -> bool:
    """Whether a model runs so close to the machine's limits that no ratio to a peer counts.

    The arithmetic is that of the fewest operations, not of the direct algorithm. Of vectors: it is
    no limit where matrix tiles multiply float32 faster.
    """
    if "work" not in entry or "amx_bf16" in raw["machine"]["simd"]:
        return False
    work = Work(**entry["work"])
    work = work._replace(operations=work.fewest, on_bytes=work.fewest_on_bytes)
    return beside_limit(raw, entry, work) >= goals.NEAR


def verdicts(raw: dict[str, Any], threads: int) -> list[str]:
    """The table of goals: by group the mean (and that of each run, if there are several), the
    model furthest behind, and how many reach it, or the machine's limit if that is nearer."""
    entries, engines, runs = raw["entries"], raw["engines"], raw["options"]["runs"]
    lines = [
        f"| {threads} thread{'s' * (threads > 1)} | at most | geometric mean | furthest behind "
        "| reached by |",
        "|---|---:|---:|---|---:|",
    ]

    def shares(
        chosen: list[Entry], value: Value, group: goals.Goal | None
    ) -> list[tuple[float, Entry]]:
        return [
            (closest[0], entry)
            for entry in chosen
            if entry["threads"] == threads
            and (group is None or goals.goal(entry["model"]) is group)
            and (closest := best(entry, engines, value)) is not None
        ]

    by_run = [[of_run(entry, run, runs) for entry in entries] for run in range(runs)]

    def row(name: str, ratio: float, value: Value, group: goals.Goal | None = None) -> None:
        found = shares(entries, value, group)
        if not found:
            return
        worst, furthest = max(found, key=lambda pair: pair[0])
        behind = [entry for share, entry in found if share > ratio]
        reached = f"{len(found) - len(behind)} of {len(found)}"
        if value is latency and (near := sum(is_at_limit(raw, entry) for entry in behind)):
            reached += f" and {near} at the limit"
        mean = f"{geometric_mean([share for share, _ in found]):.2f}"
        if runs > 1:
            means = (geometric_mean([s for s, _ in shares(r, value, group)]) for r in by_run)
            mean += f" ({', '.join(f'{share:.2f}' for share in means)})"
        lines.append(
            f"| {name} | {ratio:.2f} | {mean} "
            f"| {furthest['model']} {furthest['case']} {worst:.2f} | {reached} |"
        )

    for group in goals.GOALS:
        row(group.group, group.ratio, latency, group)
    row("no model slower", 1.00, latency)
    row("loading and first run", goals.LOAD, load)
    row("peak memory", goals.MEMORY, peak)
    return lines


def twins(entries: list[Entry]) -> list[str]:
    """How long models in half precision take, turn by turn relative to the same in float32."""
    lines = ["| model | threads | time / float32 twin's |", "|---|---|---:|"]
    for entry in entries:
        if shares := entry.get("beside_twin"):
            share = statistics.median(shares)
            lines.append(f"| {entry['model']} | {entry['threads']} | {share:.2f} |")
    return lines


def threading(raw: dict[str, Any]) -> list[str]:
    """What a second thread gives, for models of 10 ms and more, and what the limits allow."""
    times: dict[tuple[str, str], dict[int, float]] = {}
    floors: dict[tuple[str, str], dict[int, float]] = {}
    for entry in raw["entries"]:
        key, threads = (entry["model"], entry["case"]), entry["threads"]
        result = entry["results"].get(OURS)
        if result and not result["error"]:
            times.setdefault(key, {})[threads] = latency(result)
        if "work" in entry:
            turns = by_turn(raw, entry, Work(**entry["work"]))
            floors.setdefault(key, {})[threads] = statistics.median(map(max, turns))
    lines = ["| model | input | 1 thread / 2 threads | of the limits |", "|---|---|---:|---:|"]
    for (model, case), taken in times.items():
        if taken.keys() >= {1, 2} and taken[1] >= 10:
            floor = floors.get((model, case), {})
            allowed = f"{floor[1] / floor[2]:.2f}" if floor.keys() >= {1, 2} else ""
            lines.append(f"| {model} | {case} | {taken[1] / taken[2]:.2f} | {allowed} |")
    return lines


def beside_limits(raw: dict[str, Any], threads: int) -> list[str]:
    """By model: its work, the time that the machine's limits leave for it, and its time."""
    lines = [
        f"| {threads} thread{'s' * (threads > 1)} | 10^9 operations | constants, MB "
        "| arithmetic, ms | reading, ms | steps, ms | Sardonyx, ms | limit / Sardonyx |",
        "|---|" + "---:|" * 7,
    ]
    for entry in raw["entries"]:
        ours = entry["results"].get(OURS)
        if entry["threads"] != threads or "work" not in entry or not ours or ours["error"]:
            continue
        work = Work(**entry["work"])
        times = map(statistics.median, zip(*by_turn(raw, entry, work), strict=True))
        figures = (work.operations / 1e9, work.constants / 1e6, *times, latency(ours))
        cells = [entry["model"], *(number(figure) for figure in figures)]
        lines.append(f"| {' | '.join(cells)} | {beside_limit(raw, entry, work):.0%} |")
    return lines if len(lines) > 2 else []


def apart(checks: dict[str, int]) -> str:
    """How often a turn with several threads waited for the host to place the processors well."""
    if not sum(checks.values()):
        return ""
    return (
        f" Before each of {sum(checks.values())} turns and loads with several threads arithmetic "
        "on all processors at once was timed against arithmetic on one, and how fast a line of the "
        "cache goes from one to the other, for the host of a virtual machine may put them on one "
        f"core or on cores that share no cache: {checks.get('later', 0)} waited for that to end, "
        f"{checks.get('never', 0)} were measured all the same."
    )


def described(machine: dict[str, Any]) -> str:
    """The processor in words."""
    name, design = machine["processor"], machine["design"]
    return f"{name} ({design})" if design else name


def overview(outcomes: dict[str, dict[str, Any]], surveyed: Collection[str] = ()) -> str:
    """The page above those of each kind of machine, by the name of its folder: plots and goals;
    of the kinds `surveyed` there is a page of the survey too."""
    lines = ["# Sardonyx and its peers", "", WRITTEN, "", RATIOS]
    for kind, raw in sorted(outcomes.items()):
        machine = raw["machine"]
        lines += [
            "",
            f"## {described(machine)}, {machine['cores']} cores, {raw['date'][:10]}",
            "",
            "Model by model, with loading, memory and deviations: "
            f"[{kind}/{PAGE}.md]({kind}/{PAGE}.md)."
            + f" [Many more architectures]({kind}/{SURVEY_PAGE}.md)."
            * (kind in surveyed),
            "",
            f"![Latency relative to {ENGINES[REFERENCE].title}]({kind}/{PAGE}.svg)",
        ]
        for threads in raw["threads"]:
            lines += ["", *verdicts(raw, threads)]
    return "\n".join(lines) + "\n"


def markdown(raw: dict[str, Any], plot: str) -> str:
    """The whole page."""
    engines: list[str] = raw["engines"]
    machine = raw["machine"]
    lines = ["# Sardonyx and its peers", "", WRITTEN, ""]
    lines.append(f"- Machine: {described(machine)}, {machine['cores']} cores allowed")
    lines.append(f"- SIMD: {' '.join(machine['simd']) or 'none of those looked for'}")
    lines.append(f"- Date: {raw['date']}; {machine['system']}, Python {machine['python']}")
    for engine in engines:
        remark = f" ({ENGINES[engine].remark})" if ENGINES[engine].remark else ""
        lines.append(f"- {ENGINES[engine].title} {raw['versions'].get(engine) or '?'}{remark}")
    options = raw["options"]
    runs = options["runs"]
    lines += [
        "",
        "The engines run one after the other in short turns "
        f"({runs} run{'s' * (runs > 1)} with {options['rounds']} turns of {options['seconds']} s "
        "for each model), each in a process of its own, "
        "pinned to the same cores. Latency is the median over turns; its ratio is taken turn by "
        "turn. Loading includes the first run, is timed in a fresh process without the imports "
        f"(median of {options['loads'] * runs}, each right after one that is not counted), and "
        "memory is the peak of the process that did both, interpreter and libraries included. "
        "Both are compared like for like: peers that read ONNX with Sardonyx reading ONNX, ncnn, "
        "whose models PNNX has converted ahead, with Sardonyx's engine file. "
        "Outputs are compared with "
        f"{ENGINES[REFERENCE].title}'s at 1e-4 relative and 1e-5 absolute."
        + apart(raw.get("cores", {})),
        "",
        f"![Latency relative to {ENGINES[REFERENCE].title}]({plot})",
        "",
        "## Goals",
        "",
        RATIOS + " In brackets: the mean of each run." * (runs > 1),
    ]
    for threads in raw["threads"]:
        lines += ["", *verdicts(raw, threads)]
    floors = [row for threads in raw["threads"] for row in ["", *beside_limits(raw, threads)]]
    if any(floors):
        lines += [
            "",
            "## Beside the machine's limits",
            "",
            "Models in float32 and int8. Their work is what the direct algorithm multiplies and "
            "adds, and the constants it reads. The limits are the machine's (`./dev bench "
            "machine`), measured in turns with the engines, so what slows them all down for a "
            "while counts for none: products and sums of float32 in vector registers, and of bytes "
            "in the first-level cache. Reading from memory was measured once a run. Arithmetic of "
            "products of one row or few is the reading of their weights, where these come from "
            "memory. Recurrent cells read all their weights in each step, from the caches: steps "
            "are the arithmetic of the rest and this reading, at the speed at which a thread reads "
            "512 KiB (weights up to 1 MiB) or "
            "4 MiB again and again. Above 100 %: Winograd's convolutions, which take fewer "
            "operations: ResNet-50's 16 layers of 3x3 fall from 3.70 to 1.33 GFLOP (tiles of 4x4 "
            "pixels, of 2x2 where the output has 7x7; edges counted), and the model from 8.18 to "
            "5.81, the transforms' additions not counted; and float32 by matrix tiles where the "
            "processor has them (amx_bf16), as three bfloat16: up to 1.9 times what vectors "
            "multiply.",
            *floors,
        ]
    for title, rows in (
        (f"What two threads give (goal: {goals.THREADS} from 10 ms on)", threading(raw)),
        ("Half precision beside float32 (goal: never slower)", twins(raw["entries"])),
    ):
        if len(rows) > 2:
            lines += ["", f"## {title}", "", *rows]
    for threads in raw["threads"]:
        entries = [entry for entry in raw["entries"] if entry["threads"] == threads]
        count = f"{threads} thread" + ("s" if threads > 1 else "")
        for title, shown, value, unit in (
            (f"Latency, {count}", timed(engines), latency, "ms"),
            (f"Loading and first run, {count}", engines, load, "ms"),
            (f"Peak memory, {count}", engines, peak, "MiB"),
        ):
            lines += ["", f"## {title}", "", *table(entries, shown, value, unit)]
    lines += ["", "## Deviations", "", "Largest absolute difference of any output.", ""]
    others = [engine for engine in engines if engine != REFERENCE]
    lines.append("| model | threads | " + " | ".join(ENGINES[e].title for e in others) + " |")
    lines.append("|---|---|" + "---:|" * len(others))
    for entry in raw["entries"]:
        cells = []
        for engine in others:
            result = entry["results"].get(engine)
            failed = result is not None and result["error"]
            figure = "" if result is None else f"{result['deviation']:.1e}"
            cells.append("fails" if failed else figure)
        lines.append(f"| {entry['model']} | {entry['threads']} | " + " | ".join(cells) + " |")
    failed = failures(raw["entries"], engines)
    if failed:
        lines += ["", "## Failures", "", *failed]
    return "\n".join(lines) + "\n"
