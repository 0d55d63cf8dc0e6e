"""The outcomes of outages as Markdown, written between two markers of the page."""

from pathlib import Path

from benchmarks import fillings
from benchmarks.figures import Bound
from benchmarks.outage_cases import CASES, Outcome
from benchmarks.page import bound_table, markdown, measured, put_between

BEGIN = "<!-- outage: written by `make outage`, do not edit between the markers -->"
END = "<!-- end of outage -->"
NAMES = {
    "mosquitto": "Mosquitto's bridge", "inline": "Bridgehead inline", "spark": "Bridgehead through Spark",
    "inline-memory": "Bridgehead inline, in memory",
}
DRAINED = 150_000   # messages/s, demanded


def write(page: Path, found: list[Outcome], about: dict[str, str], when: str) -> None:
    put_between(page, BEGIN, END, f"{measured(about, when)}: payloads of {fillings.DEFAULT}.\n\n{tables(found)}\n")


def tables(found: list[Outcome]) -> str:
    parts = []
    for case in CASES:
        rows = [outcome for outcome in found if outcome.case == case.key]
        if rows:
            parts += [f"### {case.title[0].upper()}{case.title[1:]}", case_table(rows, flood=case.qos == 0)]
    parts += ["### Against what is demanded in an outage", bound_table(bounds(found))]
    return "\n\n".join(parts)


def case_table(rows: list[Outcome], flood: bool) -> str:
    head = ["", "published", "delivered", "not delivered" if flood else "lost", "doubled", "out of order", "s to publish",
            "s to deliver", "messages/s delivered", "RSS MiB before", "in the first half", "in the second half", "peak"]
    table = [head, ["---", *["---:"] * (len(head) - 1)]]
    for row in rows:
        if row.error:
            why = row.error if not row.measured else f"failed: {row.error}"
            table.append([NAMES[row.system], why, *[""] * (len(head) - 2)])
            continue
        sizes = (row.rss_before, row.rss_half, row.rss_end, row.rss_peak)
        table.append([
            NAMES[row.system], f"{row.sent:,}", f"{row.arrived:,}", _bad(row.lost, flood), _bad(row.doubled),
            _bad(row.reordered), f"{row.publish_seconds:.1f}", f"{row.drain_seconds:.1f}", f"{row.drained_per_second:,.0f}",
            *(f"{size / 2**20:,.0f}" if size else "–" for size in sizes)])
    return markdown(table)


def bounds(found: list[Outcome]) -> list[Bound]:
    """What the project demands of itself, against what this run gave."""
    result = []
    for system in ("inline", "inline-memory"):
        outcome = next((each for each in found if (each.case, each.system) == ("backlog", system) and not each.error), None)
        rate = outcome.drained_per_second if outcome else None
        result.append(Bound(f"backlog at QoS 1, {NAMES[system]}: delivered", f"≥ {DRAINED:,}/s", rate,
                            None if rate is None else rate >= DRAINED, "/s"))
    kept = [each for each in found if each.system in ("inline", "spark") and each.case != "flood" and each.measured]
    if kept:
        wrong = sum(each.lost + each.doubled + each.reordered for each in kept)
        reached = wrong == 0 and not any(each.error for each in kept)   # a scenario that broke off has promised nothing
        result.append(Bound("Bridgehead, QoS 1 and 2: lost, doubled or out of order", "none", wrong, reached, "messages"))
    return result


def summary(outcome: Outcome) -> str:
    """One line for the terminal."""
    if outcome.error:
        return f"{outcome.case:9} {outcome.system:13} failed: {outcome.error}"
    return (f"{outcome.case:9} {outcome.system:13} {outcome.arrived:,} of {outcome.sent:,} delivered, {outcome.lost:,} lost, "
            f"{outcome.doubled:,} doubled, {outcome.reordered:,} out of order; {outcome.publish_seconds:.1f} s to publish, "
            f"{outcome.drain_seconds:.1f} s to deliver ({outcome.drained_per_second:,.0f}/s), "
            f"{outcome.rss_peak / 2**20:,.0f} MiB")


def _bad(count: int, expected: bool = False) -> str:
    return f"**{count:,}**" if count and not expected else f"{count:,}"
