"""The results of a run as figures to compare: the median of each measurement, ratios to the peer, demanded bounds."""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from benchmarks.measure import Result

PEER = "mosquitto"
LATENCY_QOS = 1
LATENCY_RATES = (5_000, 20_000)
MANY = 4   # publishing connections of the second look
NAMES = {
    "spark": "Bridgehead through Spark", "messages": "the same, through the message table",
    "inline": "Bridgehead inline", "mosquitto": "Mosquitto's bridge", "direct": "nothing between (the tools alone)",
}


class Figures:
    def __init__(self, results: Iterable[Result], connections: int) -> None:
        self._results = list(results)
        self.connections = connections   # of the main table

    @property
    def all(self) -> list[Result]:
        return self._results

    def find(self, system: str, qos: int, rate: int = 0, connections: int = 0) -> Result | None:
        """The median repetition of a measurement, by messages/s or (paced) by median latency; a failed one if all failed."""
        wanted = (system, qos, rate, connections or self.connections)
        same = [r for r in self._results if (r.system, r.qos, r.rate, r.connections) == wanted]
        return median(same, lambda result: result.per_second if not rate else result.p50_ms or 0.0)

    def ratio(self, system: str, qos: int, of: Callable[[Result], float | None]) -> float | None:
        """A figure of a system as a multiple of the peer's."""
        ours, theirs = self.find(system, qos), self.find(PEER, qos)
        if ours is None or theirs is None or not of(ours) or not of(theirs):
            return None
        return (of(ours) or 0.0) / (of(theirs) or 1.0)


def median(same: list[Result], of: Callable[[Result], float]) -> Result | None:
    """The repetition in the middle (the lower one of two), with what went wrong in any of them; a failed one if all failed."""
    good = sorted((result for result in same if result.arrived), key=of)
    if not good:
        return next(iter(same), None)
    return replace(
        good[(len(good) - 1) // 2], sent=sum(result.sent for result in good), lost=sum(result.lost for result in good),
        doubled=sum(result.doubled for result in good), reordered=sum(result.reordered for result in good))


def strangers(results: Iterable[Result]) -> float:
    """The share of a core that other programs took while it was measured (the median measurement's)."""
    shares = [result.stranger_cpu / result.seconds for result in results if result.seconds]
    return statistics.median(shares) if shares else 0.0


@dataclass(frozen=True)
class Bound:
    what: str
    demanded: str
    measured: float | None
    reached: bool | None   # None: not measured in this run
    unit: str

    @property
    def shown(self) -> str:
        return "not measured" if self.measured is None else f"{self.measured:,.2f} {self.unit}"


def bounds(figures: Figures) -> list[Bound]:
    """What the project demands of itself, against what this run gave."""

    def at_least(system: str, qos: int, factor: float) -> Bound:
        ratio = figures.ratio(system, qos, lambda result: result.per_second)
        return Bound(f"QoS {qos}, {NAMES[system]}: messages/s", f"≥ {factor:.1f} × Mosquitto", ratio,
                     None if ratio is None else ratio >= factor, "×")

    def at_most(system: str, rate: int, limit: float) -> Bound:
        result = figures.find(system, LATENCY_QOS, rate)
        median = result.p50_ms if result else None
        return Bound(f"QoS {LATENCY_QOS}, {NAMES[system]}: median at {rate:,}/s", f"≤ {limit:.0f} ms", median,
                     None if median is None else median <= limit, "ms")

    return [
        at_least("spark", 0, 0.5), at_least("spark", 1, 1.0), at_least("spark", 2, 1.0), at_least("inline", 1, 2.0),
        at_most("spark", 20_000, 400.0), at_most("inline", 5_000, 2.0),
    ]
