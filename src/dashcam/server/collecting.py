"""The journals that lie in the server's own data folder: brought in about twice a second, when nobody waits."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from dashcam.errors import DashcamError, StoreBusy
from dashcam.record.collect import collect_journals
from dashcam.server.logs import tell
from dashcam.server.metrics import Metrics
from dashcam.server.projects import Project, Projects
from dashcam.store.base import Ack

EVERY = 0.5  # seconds
LOOK_AROUND = 5.0  # seconds between two looks for new projects, and for journals whose writer died

Sizes = dict[str, int]  # of the segments of a project


class _Interrupted(Exception):
    """Somebody waits. What was collected so far is in the store, and the rest is collected next time."""


class Journals:
    """Collects for the ingest thread, which is the one that writes."""

    def __init__(self, projects: Projects, metrics: Metrics) -> None:
        self._projects, self._metrics = projects, metrics
        self._seen: dict[str, Sizes] = {}
        self._due = self._look_around_due = 0.0

    def collect(self, somebody_waits: Callable[[], bool]) -> None:
        """Bring in what is new, if it is time; stop where somebody waits for the store."""
        now = time.monotonic()
        if now < self._due:
            return
        if now >= self._look_around_due:
            self._look_around_due = now + LOOK_AROUND
            self._seen.clear()
            self._open_found()
        for name in self._projects.names():
            try:
                self._collect(self._projects.open(name), somebody_waits)
            except _Interrupted:
                return  # with its turn still due
            except (DashcamError, OSError) as error:
                tell("journals not collected", logging.ERROR, error=error, project=name)
        self._due = time.monotonic() + EVERY

    def _open_found(self) -> None:
        for name in self._projects.found():
            if name not in self._projects.names():
                try:
                    self._projects.open(name)
                except StoreBusy:
                    pass  # somebody else's for now
                except DashcamError as error:
                    tell("project not opened", logging.ERROR, error=error, project=name)

    def _collect(self, project: Project, somebody_waits: Callable[[], bool]) -> None:
        folder = project.settings.journals
        sizes = _sizes(folder)
        if sizes == self._seen.get(project.settings.project):
            return

        def pause(done: int, total: int) -> None:
            if somebody_waits():
                raise _Interrupted

        collected = collect_journals(project.store, folder, pause)
        self._seen[project.settings.project] = sizes
        if collected.bytes:
            self._metrics.collected.inc(collected.bytes)
            self._metrics.accepted.labels("records").inc(collected.events + collected.rows)
            self._metrics.quarantined.labels("records").inc(collected.orphans)
            project.committed(Ack(project.store.lag().seq, 0))
        for reason in collected.unreadable:
            tell("journal unreadable", logging.WARNING, reason=reason, project=project.settings.project)


def _sizes(folder: Path) -> Sizes:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.name.endswith(".jsonl")}
    except FileNotFoundError:
        return {}
