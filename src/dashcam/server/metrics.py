"""The server's own figures, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

disable_created_metrics()  # type: ignore[no-untyped-call]  # when a figure began is nobody's question here, and doubles their number

Gauge = tuple[str, str, dict[str, str], float]  # name, help, labels, value


class Metrics:
    """Counted as things happen; `gauges` is asked for the state of the moment when somebody looks."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter("dashcam_requests", "Requests answered.", "route", "status")
        self.received = self._counter("dashcam_received_bytes", "Bytes of bodies, as they were sent.", "door")
        self.accepted = self._counter("dashcam_accepted", "Spans, log records, journal lines kept.", "what")
        self.counted = self._counter("dashcam_metrics_not_kept", "Metrics accepted, counted and not kept.")
        self.rejected = self._counter("dashcam_rejected", "Records not kept, told as partial success.", "what")
        self.quarantined = self._counter("dashcam_quarantined", "Records kept aside that join to nothing.", "what")
        self.redacted = self._counter("dashcam_redacted", "Spans and log records with secrets taken out.")
        self.refused = self._counter("dashcam_refused_requests", "Requests of which nothing was kept.", "status")
        self.restarts = self._counter("dashcam_projector_restarts", "Times that the projector had to be restarted.")
        self.collected = self._counter("dashcam_collected_bytes", "Bytes of local journals brought in.")
        self.commits = Histogram(
            "dashcam_commit_seconds", "From the start of a transaction until it is on the disk.",
            buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def watch(self, gauges: Callable[[], Sequence[Gauge]]) -> None:
        self._registry.register(_Gauges(gauges))

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _Gauges(Collector):
    def __init__(self, gauges: Callable[[], Sequence[Gauge]]) -> None:
        self._gauges = gauges

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for name, text, labels, value in self._gauges():
            family = families.setdefault(name, GaugeMetricFamily(name, text, labels=list(labels)))
            family.add_metric(list(labels.values()), value)
        yield from families.values()
