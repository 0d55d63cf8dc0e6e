"""The metrics of a node for Prometheus, read at the moment somebody asks from the parts that own the numbers.

Nothing is counted here: no second number stands beside the first, and nothing is on the way of a message. Labels are names of
the configuration and words of fixed lists, never a topic or a client.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import Metric, ProcessCollector, generate_latest
from prometheus_client.core import InfoMetricFamily
from prometheus_client.registry import Collector

from bridgehead import __version__
from bridgehead.telemetry.bridgemetrics import bridge_metrics
from bridgehead.telemetry.nodemetrics import node_metrics
from bridgehead.telemetry.routemetrics import route_metrics

if TYPE_CHECKING:
    from bridgehead.telemetry.snapshot import NodeView


class NodeCollector(Collector):
    """Everything that a node tells about itself, and what the operating system tells about its process."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        view = self._view
        yield InfoMetricFamily("bridgehead", "The node and its version.", {"node": view.name, "version": __version__})
        yield from node_metrics(view)
        yield from bridge_metrics(view)
        yield from route_metrics(view)
        yield from self._process.collect()

    def text(self) -> Iterator[bytes]:
        """Prometheus' text format 0.0.4, all of one moment, in small parts: to make the text takes longer than to read."""
        for metric in list(self.collect()):
            yield generate_latest(_Alone(metric))


class _Alone(Collector):
    """One metric as its own collector, which is what text is made of."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric
