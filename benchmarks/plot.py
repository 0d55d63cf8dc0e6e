"""The results as one picture: messages/s, latency, CPU time."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")   # no display needed

from matplotlib import pyplot

from benchmarks.figures import LATENCY_QOS, LATENCY_RATES, NAMES, PEER, Figures

SYSTEMS = {"spark": "#d9822b", "inline": "#2b6cb0", PEER: "#718096"}
WIDTH = 0.26


def draw(file: Path, figures: Figures) -> None:
    picture, (speed, delay, work) = pyplot.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    levels = range(3)
    for place, (system, colour) in enumerate(SYSTEMS.items()):
        found = [figures.find(system, qos) for qos in levels]
        at = [qos + (place - 1) * WIDTH for qos in levels]
        _bars(speed, at, [r.per_second / 1000 if r else 0.0 for r in found], colour, "{:,.0f}", NAMES[system])
        _bars(work, at, [(r.cpu_per_million or 0.0) if r else 0.0 for r in found], colour, "{:.1f}", NAMES[system])
        paced = [figures.find(system, LATENCY_QOS, rate) for rate in LATENCY_RATES]
        spots = [index + (place - 1) * WIDTH for index in range(len(LATENCY_RATES))]
        medians = [(r.p50_ms or 0.0) if r else 0.0 for r in paced]
        _bars(delay, spots, medians, colour, "{:.3g}", NAMES[system])
        tails = [(r.p99_ms or 0.0) if r else 0.0 for r in paced]
        delay.plot(spots, [tail or None for tail in tails], linestyle="none", marker="_", markersize=18, color="black")
    speed.set(title="thousand messages/s through the bridge", xticks=list(levels), xticklabels=[f"QoS {qos}" for qos in levels])
    work.set(title="CPU seconds per million messages", xticks=list(levels), xticklabels=[f"QoS {qos}" for qos in levels])
    delay.set(title=f"latency in ms, QoS {LATENCY_QOS}: median (bar), p99 (line)", yscale="log",
              xticks=list(range(len(LATENCY_RATES))), xticklabels=[f"{rate:,}/s" for rate in LATENCY_RATES])
    for axes in (speed, delay, work):
        axes.spines[["top", "right"]].set_visible(False)
    speed.legend(frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(file, dpi=110)
    pyplot.close(picture)


def _bars(axes: Any, at: list[float], heights: list[float], colour: str, form: str, label: str) -> None:
    bars = axes.bar(at, heights, WIDTH * 0.94, color=colour, label=label)
    axes.bar_label(bars, [form.format(height) if height else "" for height in heights], fontsize=8, padding=2)
