"""A metric as a line of a table: its name, what it is, and where its value is read when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Part = TypeVar("Part")

Values = float | None | dict[str, float] | dict[str, int] | dict[tuple[str, ...], float]
"""A value; none; or, for a metric with labels of its own, a value for each of their values."""


@dataclass(frozen=True, slots=True)
class Family(Generic[Part]):
    """``labels`` are those that it has beyond the labels of its part."""

    kind: Literal["counter", "gauge"]
    name: str  # of a counter without _total
    text: str
    read: Callable[[Part], Values]
    labels: tuple[str, ...] = ()

    def of(self, labels: Sequence[str], parts: Iterable[tuple[Sequence[str], Part]]) -> Metric:
        """The value of each part, under the labels of the part."""
        kind = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        metric = kind(f"bridgehead_{self.name}", self.text, labels=[*labels, *self.labels])
        for given, part in parts:
            for own, value in _each(self.read(part)):
                metric.add_metric([*given, *own], value)
        return metric


def _each(found: Values) -> Iterator[tuple[tuple[str, ...], float]]:
    if isinstance(found, dict):
        for label, value in found.items():
            yield (label if isinstance(label, tuple) else (label,)), value
    elif found is not None:
        yield (), found
