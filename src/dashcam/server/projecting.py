"""The projector: a process of its own that keeps what is derived close behind the log.

The server tells it by a pipe which projects there are. Where the pipe ends without a word the server is dead, and the
projector with it, since the lock under which it writes is the server's. Nothing is lost when it dies: how far it has
come stands in the store.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from dashcam.record.collect import SWITCH_SECONDS
from dashcam.record.pipeline import Pipeline, warm_up
from dashcam.sdk.settings import settings_from
from dashcam.server.logs import form, set_up, tell
from dashcam.server.metrics import Metrics
from dashcam.store.sqlite.connection import WriterLock
from dashcam.store.sqlite.store import SqliteReader, SqliteStore

IDLE = 0.02  # seconds between two passes, at least
PAUSE = 0.25  # seconds from one pass to the next: so often at most is a trace that still grows projected
TURN = 1.0  # seconds after which it is the next project's turn
AFTER_FAILURE = 2.0  # seconds
NICE = 19  # who sends has the first claim on the processor; what is left over is plenty at any rate it can sustain
STOP = "."  # no project has this name
STOP_SECONDS = 10.0
FIRST_BACKOFF, LONGEST_BACKOFF = 0.2, 30.0
LONG_ENOUGH = 60.0  # seconds of life after which a crash counts as the first again


class Projector:
    """The server's end: starts the process, tells it of projects, and starts it again where it dies."""

    def __init__(self, data: Path, metrics: Metrics) -> None:
        self._data, self._metrics = data, metrics
        self._projects: list[str] = []
        self._child: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._keep_alive, name="dashcam-projector", daemon=True)

    def start(self) -> None:
        self._watch.start()

    def add(self, project: str) -> None:
        with self._lock:
            self._projects.append(project)
            self._say(project)

    def stop(self) -> None:
        """Let it finish its transaction, and wait for its end."""
        self._stopping.set()
        with self._lock:
            self._say(STOP)
        if self._watch.is_alive():
            self._watch.join(STOP_SECONDS)
            if self._watch.is_alive():
                tell("projector killed", logging.ERROR, seconds=STOP_SECONDS)
                self.kill()
                self._watch.join()

    def kill(self) -> None:
        self._stopping.set()
        if (child := self._child) is not None:
            child.kill()

    def _say(self, line: str) -> None:
        if self._child is not None and self._child.stdin is not None:
            try:
                self._child.stdin.write(f"{line}\n")
                self._child.stdin.flush()
            except OSError:
                pass  # it died; the next one is told all of it

    def _keep_alive(self) -> None:
        backoff = FIRST_BACKOFF
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                child = self._begin()
            except OSError as error:
                tell("projector not started", logging.ERROR, error=error)
            else:
                code = child.wait()
                if child.stdin is not None:
                    with self._lock:
                        self._child = None
                        child.stdin.close()
                if self._stopping.is_set():
                    return
                tell("projector died", logging.ERROR, exit_code=code)
            self._metrics.restarts.inc()
            backoff = FIRST_BACKOFF if time.monotonic() - began > LONG_ENOUGH else min(backoff * 2, LONGEST_BACKOFF)
            self._stopping.wait(backoff)

    def _begin(self) -> subprocess.Popen[str]:
        child = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "dashcam.server.projecting", str(self._data), form()],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        with self._lock:
            self._child = child
            for project in self._projects:
                self._say(project)
            if self._stopping.is_set():
                self._say(STOP)
        return child


class Orders:
    """The projector's end of the pipe."""

    def __init__(self) -> None:
        self.projects: list[str] = []
        self.stop = threading.Event()
        threading.Thread(target=self._read, name="dashcam-orders", daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            if line.strip() == STOP:
                self.stop.set()
            else:
                self.projects.append(line.strip())
        if not self.stop.is_set():
            os._exit(1)  # the server is dead, its lock gone: not one more write


class _Desk:
    """A project that is being projected."""

    def __init__(self, data: Path, name: str) -> None:
        settings = settings_from({}, data=data, project=name)
        self.store = SqliteStore(settings.store, lock=WriterLock(settings.folder))  # the server holds it
        self.reader = SqliteReader(settings.store)
        self.pipeline = Pipeline(self.store, self.reader, self._refused)

    def project(self, stop: threading.Event) -> int:
        """How many traces were projected: up to where the log is now, since what still grows comes again, and for a
        turn at most, since there are other projects."""
        done, newest, until = 0, self.store.lag().seq, time.monotonic() + TURN
        while not stop.is_set() and (found := self.pipeline.project_some()):
            done += found
            if self.store.lag().projected >= newest or time.monotonic() > until:
                break
        return done

    def close(self) -> None:
        self.pipeline.close()
        self.reader.close()
        self.store.close()

    def _refused(self, trace_id: str, error: Exception) -> None:
        tell("trace without a session", logging.ERROR, error=error, trace_id=trace_id)


def main(data: Path) -> None:
    """Project all that is new in all projects, until told to stop."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to us, too; the server says when
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICE)
    # Rows by the thousand and hardly a circle among them: to look for circles as often as Python does costs a tenth.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(SWITCH_SECONDS)  # else the writing thread waits 5 ms for the GIL at every statement
    warm_up()
    orders = Orders()
    desks: dict[str, _Desk] = {}
    try:
        while not orders.stop.is_set():
            began = time.monotonic()
            for name in list(orders.projects):
                _project(data, name, desks, orders.stop)
            orders.stop.wait(max(IDLE, PAUSE - (time.monotonic() - began)))
    finally:
        for desk in desks.values():
            desk.close()


def _project(data: Path, name: str, desks: dict[str, _Desk], stop: threading.Event) -> None:
    """Project what is new in a project. What goes wrong with one is told, and tried again."""
    try:
        if name not in desks:
            desks[name] = _Desk(data, name)
        desks[name].project(stop)
    except Exception as error:
        tell("not projected", logging.ERROR, error=error, project=name)
        if name in desks:
            desks.pop(name).close()
        stop.wait(AFTER_FAILURE)


if __name__ == "__main__":
    set_up("json" if sys.argv[2] == "json" else "text")
    main(Path(sys.argv[1]))
