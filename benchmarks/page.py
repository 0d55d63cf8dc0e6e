"""The results as Markdown, written between two markers of a page so that no figure is ever typed by hand."""

from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures import LATENCY_RATES, MANY, NAMES, PEER, Bound, Figures, bounds, strangers
from benchmarks.measure import QUIET_SECONDS, Job, Load, Result

BEGIN = "<!-- results: written by `make bench`, do not edit between the markers -->"
END = "<!-- end of results -->"
SYSTEMS = ("spark", "messages", "inline", PEER)   # in this order
STRANGERS_DOUBTFUL = 0.1   # of one core


def write(page: Path, figures: Figures, load: Load, job: Job, machine: dict[str, str], when: str, plot: str) -> None:
    """The whole of what a run found."""
    put_between(page, BEGIN, END, results(figures, load, job, machine, when, plot))


def put_between(page: Path, begin: str, end: str, found: str) -> None:
    """Replace what is between the markers; a page without them gets them at its end."""
    text = page.read_text() if page.exists() else "# Benchmarks\n"
    if begin not in text:
        text += f"\n{begin}\n{end}\n"
    head, _, rest = text.partition(begin)
    tail = rest.partition(end)[2]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"{head}{begin}\n\n{found}\n{end}{tail}")


def results(figures: Figures, load: Load, job: Job, machine: dict[str, str], when: str, plot: str) -> str:
    parts = [
        f"{measured(machine, when)}: {load.seconds:g} s a measurement after {load.warmup:g} s of warm-up, {load.payload}-byte "
        f"payloads ({job.filling}), {job.connections} publishing connection{'s' if job.connections > 1 else ''}, "
        f"{load.topics} topics, a window of {job.window} unacknowledged messages.",
        *doubt(figures.all),
        table(figures),
        f"![messages per second, latency and CPU time of the three systems]({plot})",
        "## Against what is demanded",
        bound_table(bounds(figures)),
        "What is demanded of syncs, of many routes and of outages is judged in their sections below.",
        "## The tools alone",
        "Generator straight into the counter: a system that came near it would be measured by them.",
        direct_table(figures),
    ]
    if any(result.connections == MANY != figures.connections for result in figures.all):
        parts += [f"## {MANY} publishing connections", many_table(figures)]
    parts += faults(figures.all)
    return "\n\n".join(parts) + "\n"


def measured(machine: dict[str, str], when: str) -> str:
    """When, where and how to do it again."""
    return (f"Measured {when} on {machine['cores']} cores ({machine['processor']}), {machine['memory']}, "
            f"Linux {machine['kernel']}, Python {machine['python']}, Spark {machine['pyspark']}, "
            f"Mosquitto {machine['mosquitto']}; `{machine['command']}`")


def doubt(found: Iterable[Result]) -> list[str]:
    """A warning if the machine was not ours alone."""
    share = strangers(found)
    return [] if share <= STRANGERS_DOUBTFUL else [
        f"**Other programs took {share:.2f} of a core while this was measured: read it as a sketch.**"]


def faults(found: Iterable[Result]) -> list[str]:
    """What went wrong in any measurement, the repeated ones too."""
    lines = [f"- {result.system}, QoS {result.qos}{_at(result.rate)}: {result.error}" for result in found if result.error]
    return ["### What went wrong", "\n".join(lines)] if lines else []


def shown(rows: Iterable[Result]) -> list[Result]:
    """The rows, each printed as soon as it is there."""
    found = []
    for result in rows:
        print(summary(result), flush=True)
        found.append(result)
    return found


def table(figures: Figures) -> str:
    head = ["", "QoS", "messages/s", "× Mosquitto", "CPU s per million", "× Mosquitto", "peak RSS MiB"]
    head += [f"p50 / p99 ms at {rate:,}/s" for rate in LATENCY_RATES]
    head += ["lost", "doubled", "out of order"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for system in SYSTEMS:
        for qos in range(3):
            result = figures.find(system, qos)
            if result is not None:
                rows.append([NAMES[system], str(qos), *_cells(figures, result)])
    return markdown(rows)


def _cells(figures: Figures, result: Result) -> list[str]:
    if not result.arrived:
        return ["failed", *["–"] * 8]
    rate = figures.ratio(result.system, result.qos, lambda found: found.per_second)
    cpu = figures.ratio(result.system, result.qos, lambda found: found.cpu_per_million)
    return [
        f"{result.per_second:,.0f}", _number(rate), _number(result.cpu_per_million, 1), _number(cpu),
        f"{(result.peak_rss or 0) / 2**20:,.0f}",
        *(_latency(figures.find(result.system, result.qos, at)) for at in LATENCY_RATES),
        f"{result.lost:,}", f"{result.doubled:,}", f"{result.reordered:,}",
    ]


def _latency(result: Result | None) -> str:
    if result is None:
        return ""
    if result.p50_ms is None:
        return "failed"
    return f"{_milliseconds(result.p50_ms)} / {_milliseconds(result.p99_ms or 0.0)}"


def bound_table(found: list[Bound]) -> str:
    answer = {True: "reached", False: "**not reached**", None: "–"}
    rows = [["what", "demanded", "measured", ""], ["---", "---", "---:", "---"]]
    rows += [[bound.what, bound.demanded, bound.shown, answer[bound.reached]] for bound in found]
    return markdown(rows)


def direct_table(figures: Figures) -> str:
    rows = [["QoS", "messages/s", "the fastest system reaches", "lost"], ["---:"] * 4]
    for qos in range(3):
        result = figures.find("direct", qos)
        if result is not None and result.arrived:
            others = [found.per_second for name in SYSTEMS if (found := figures.find(name, qos)) is not None]
            rows.append([str(qos), f"{result.per_second:,.0f}", _number(max(others) / result.per_second if others else None),
                         f"{result.lost:,}"])
    return markdown(rows)


def many_table(figures: Figures) -> str:
    missing = f"not delivered ({QUIET_SECONDS:.0f} s after the last arrival)"
    rows = [["", "QoS", "messages/s", "peak RSS MiB", missing], ["---", *["---:"] * 4]]
    for system in (*SYSTEMS, "direct"):
        for qos in range(3):
            result = figures.find(system, qos, connections=MANY)
            if result is not None and result.arrived:
                memory = "" if result.peak_rss is None else f"{result.peak_rss / 2**20:,.0f}"
                rows.append([NAMES[system], str(qos), f"{result.per_second:,.0f}", memory,
                             f"{result.lost:,} of {result.sent:,}"])
    return markdown(rows)


def summary(result: Result) -> str:
    """One line for the terminal."""
    where = f"{result.system:13} × {result.connections} of {result.window:<6,} QoS {result.qos}{_at(result.rate):12}"
    if not result.arrived:
        return f"{where} failed: {result.error}"
    latency = f"p50 {_milliseconds(result.p50_ms or 0.0)} p99 {_milliseconds(result.p99_ms or 0.0)} ms"
    cpu = f", {result.cpu_per_million:.1f} CPU s/million" if result.cpu_per_million is not None else ""
    memory = f", {result.peak_rss / 2**20:.0f} MiB" if result.peak_rss is not None else ""
    wrong = f", lost {result.lost:,}" if result.lost else ""
    wrong += f", doubled {result.doubled:,}" if result.doubled else ""
    wrong += f", out of order {result.reordered:,}" if result.reordered else ""
    wrong += f", {result.error}" if result.error else ""
    return f"{where} {result.per_second:>11,.0f}/s, {latency}{cpu}{memory}{wrong}"


def _at(rate: int) -> str:
    return f" at {rate:,}/s" if rate else ""


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def markdown(rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
