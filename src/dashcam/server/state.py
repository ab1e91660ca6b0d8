"""Everything that a running server is made of, put together and taken apart again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dashcam import __version__
from dashcam.errors import DashcamError, Stopping
from dashcam.sdk.redaction.redactor import Redactor
from dashcam.sdk.redaction.rules import Redaction
from dashcam.server.access import Doorman
from dashcam.server.ingest import Ingest
from dashcam.server.limits import Limits
from dashcam.server.logs import tell
from dashcam.server.metrics import Gauge, Metrics
from dashcam.server.projecting import Projector
from dashcam.server.projects import Projects
from dashcam.store.base import Batch

DRAIN_SECONDS = 20.0
OPEN_SECONDS = 30.0
PATIENCE = 10.0  # seconds, for a command that is just collecting
READY_FOR = 1.0  # seconds that an answer of `fault` is good for
PROBE_SECONDS = 5.0


class Server:
    """`app.state.server`: what the routes need."""

    def __init__(self, data: Path, project: str, limits: Limits, doorman: Doorman) -> None:
        self.data, self.project, self.limits, self.doorman = data, project, limits, doorman
        self.metrics = Metrics()
        self.projector = Projector(data, self.metrics)
        self.projects = Projects(data, self.projector.add)
        self.ingest = Ingest(self.projects, limits, Redactor(Redaction()), self.metrics)
        self.projects.have_opened = self._have_opened
        self.version = __version__
        self.draining = False
        self._started = time.monotonic()
        self._probed: tuple[float, str | None] = (-READY_FOR, None)
        self.metrics.watch(self._gauges)

    def uptime(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._started

    def start(self) -> None:
        """Open the project that is served by default; raises if it can't be written."""
        self.ingest.start()
        self._have_opened(self.project, PATIENCE)
        self.projector.start()

    def stop(self) -> None:
        """Finish what waits, then let go of everything. Blocks."""
        drained = self.ingest.close(DRAIN_SECONDS)
        self.projector.stop()
        if drained:
            self.projects.close()
        else:  # the thread still writes; what it has not acknowledged its senders send again
            tell("queue not drained", logging.ERROR, seconds=DRAIN_SECONDS)

    async def fault(self) -> str | None:
        """Why nothing can be taken at the moment, or None. Found out by writing, at most once a second."""
        if self.draining:
            return str(Stopping())
        probed, fault = self._probed
        if time.monotonic() - probed > READY_FOR:
            fault = None
            try:
                probe = self.ingest.errand(lambda: self.projects.open(self.project).store.append(Batch()))
                await asyncio.wait_for(asyncio.wrap_future(probe), PROBE_SECONDS)
            except TimeoutError:
                fault = f"Nothing was written for {PROBE_SECONDS:g} seconds. Look at the disk."
            except DashcamError as error:
                fault = str(error)
            self._probed = (time.monotonic(), fault)
        return fault

    def _have_opened(self, name: str, patience: float = 0.0) -> None:
        self.ingest.errand(partial(self.projects.open, name, patience)).result(OPEN_SECONDS)

    def _gauges(self) -> Sequence[Gauge]:
        gauges: list[Gauge] = [
            ("dashcam_queue_requests", "Requests that wait to be written.", {}, self.ingest.queue_requests),
            (
                "dashcam_queue_bytes",
                "Bytes of bodies that are being read or wait to be written.",
                {},
                self.ingest.queue_bytes,
            ),
            ("dashcam_open_projects", "Projects whose store is open.", {}, len(self.projects.names())),
        ]
        for name in self.projects.names():
            try:
                records, seconds = self.projects.lag(name)
            except DashcamError as error:
                tell("lag unknown", logging.WARNING, error=error, project=name)
                continue
            labels = {"project": name}
            gauges.append(("dashcam_projection_lag_records", "Log records not projected yet.", labels, records))
            gauges.append(("dashcam_projection_lag_seconds", "Age of the oldest of them.", labels, seconds))
        return gauges
