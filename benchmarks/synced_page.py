"""In memory against synced to the disk: pairs of measurements, their ratios, and all of it as Markdown."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.figures import NAMES, Bound, median
from benchmarks.measure import Job, Result
from benchmarks.page import doubt, faults, markdown

SYNCED = {"inline": "inline-synced", "spark": "spark-synced"}   # the same in file-native mode
DEMANDED = 0.7                                                  # of the rate in memory
JUDGED_QOS = 1
AT_ONCE = 0.95                                                  # of all windows in one sync: then all wait for it together


@dataclass(frozen=True)
class Pair:
    """One load, in memory and synced: the repetition in the middle of each, and the ratio of every round."""

    system: str
    memory: Result
    synced: Result
    rounds: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        return _ratio(self.memory, self.synced)

    @property
    def bound(self) -> Bound | None:
        """None: nothing is demanded of this load."""
        job, ratio = self.memory.job, self.ratio
        if job.qos != JUDGED_QOS:
            return None
        what = (f"QoS {job.qos}, {NAMES[self.system]}, {job.filling}, connections × window {job.connections} × {job.window:,}: "
                "messages/s synced")
        return Bound(what, f"≥ {DEMANDED} × in memory", ratio, None if ratio is None else ratio >= DEMANDED, "×")

    @property
    def window_ms(self) -> float:
        """What one window of every connection takes in memory."""
        return self.memory.connections * self.memory.window / self.memory.per_second * 1000

    @property
    def most(self) -> float | None:
        """The ratio if nothing were added to what is done in memory but one sync for a window of every connection.

        None: a sync does not cover all of them, so that some go on while others wait.
        """
        synced = self.synced
        if not synced.syncs or synced.arrived < AT_ONCE * synced.syncs * synced.connections * synced.window:
            return None
        return self.window_ms / (self.window_ms + (synced.sync_ms or 0.0))


def pairs(found: Iterable[Result]) -> list[Pair]:
    """In the order of systems, then of loads as they were measured."""
    by_load: dict[tuple[str, Job], list[Result]] = {}
    for result in found:
        by_load.setdefault((result.system, result.job), []).append(result)
    made = []
    for system, other in SYNCED.items():
        for job in [job for name, job in by_load if name == system]:
            memory, synced = by_load[system, job], by_load.get((other, job), [])
            first, second = median(memory, _rate), median(synced, _rate)
            if first is not None and second is not None:
                rounds = [_ratio(*each) for each in zip(memory, synced, strict=False)]
                made.append(Pair(system, first, second, tuple(ratio for ratio in rounds if ratio is not None)))
    return made


def results(found: list[Result], tools: list[Result]) -> list[str]:
    """Paragraphs and tables of a run."""
    made = pairs(found)
    return [
        *doubt(found), verdict(made), table(made),
        "What the windows take in memory, what a sync took in the node under this load (on average, until the node had heard "
        "of its end), and the ratio if that were all that is added, where a sync covers the windows of all connections:",
        window_table(made, tools), *faults([*tools, *found]),
    ]


def verdict(made: list[Pair]) -> str:
    """The most that each system does, durable and in memory, and how many loads reach the bound for themselves."""
    parts = [f"Demanded at QoS {JUDGED_QOS}: at least {DEMANDED} of the messages/s in memory."]
    for system in SYNCED:
        judged = [pair for pair in made if pair.system == system and pair.bound is not None]
        if judged:
            memory, synced = max(pair.memory.per_second for pair in judged), max(pair.synced.per_second for pair in judged)
            reached = [pair.bound is not None and pair.bound.reached for pair in judged].count(True)
            share = f" ({synced / memory:.2f})" if memory else ""
            parts.append(f"{NAMES[system]} does {synced:,.0f} at the most, and {memory:,.0f} in memory{share}; "
                         f"load by load it reaches the bound with {reached} of {len(judged)} loads.")
    return " ".join(parts)


def table(made: list[Pair]) -> str:
    rows = [["", "QoS", "payloads", "connections × window", "messages/s in memory", "synced", "synced / in memory",
             "of the rounds", "", "CPU s per million in memory", "synced", "lost", "doubled"],
            ["---", "---:", "---", *["---:"] * 5, "---", *["---:"] * 4]]
    return markdown(rows + [_cells(pair) for pair in made])


def _cells(pair: Pair) -> list[str]:
    job, both = pair.memory.job, (pair.memory, pair.synced)
    return [
        NAMES[pair.system], str(job.qos), job.filling, f"{job.connections} × {job.window:,}",
        *(f"{result.per_second:,.0f}" if result.arrived else "failed" for result in both),
        "–" if pair.ratio is None else f"{pair.ratio:.2f}", _span(pair.rounds),
        _judgement(pair.bound), *(f"{result.cpu_per_million or 0.0:.1f}" for result in both),
        _bad(pair.memory.lost + pair.synced.lost), _bad(pair.memory.doubled + pair.synced.doubled),
    ]


def _judgement(bound: Bound | None) -> str:
    if bound is None:
        return "no bound"
    return "reached" if bound.reached else "**not reached**"


def window_table(made: list[Pair], tools: list[Result]) -> str:
    """Beside the rate that generator and counter reach without a node between: near it, they are what is measured."""
    rows = [["", "connections × window", "ms in memory", "ms of a sync", "messages of a sync", "ratio at most",
             "messages/s of the tools alone"], ["---", *["---:"] * 6]]
    alone = {result.job: result.per_second for result in tools}
    for pair in made:
        job, synced = pair.memory.job, pair.synced
        if job in alone and pair.bound is not None and pair.memory.arrived and synced.sync_ms is not None:
            rows.append([NAMES[pair.system], f"{job.connections} × {job.window:,}", f"{pair.window_ms:.2f}",
                         f"{synced.sync_ms:.2f}", f"{synced.arrived / synced.syncs:,.0f}",
                         "–" if pair.most is None else f"{pair.most:.2f}", f"{alone[job]:,.0f}"])
    return markdown(rows)


def _span(rounds: tuple[float, ...]) -> str:
    """From the lowest to the highest."""
    return f"{min(rounds):.2f}-{max(rounds):.2f}" if rounds else ""


def _ratio(memory: Result, synced: Result) -> float | None:
    return synced.per_second / memory.per_second if memory.arrived and synced.arrived else None


def _rate(result: Result) -> float:
    return result.per_second


def _bad(count: int) -> str:
    return f"**{count:,}**" if count else "0"
