"""The projector: a process of its own that keeps what is derived close behind the log.

The server tells it by a pipe which projects there are. Where the pipe ends without a word the server is dead, and the
projector with it, since the lock under which it writes is the server's. Nothing is lost when it dies: how far it has
come stands in the store.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from dashcam.record.projector import project_some
from dashcam.sdk.settings import settings_from
from dashcam.server.logs import form, set_up, tell
from dashcam.server.metrics import Metrics
from dashcam.store.sqlite.connection import WriterLock
from dashcam.store.sqlite.store import SqliteStore

IDLE = 0.1  # seconds between two looks where nothing is new
PAUSE = 0.4  # seconds between two passes: so often a trace that still grows is projected
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


def main(data: Path) -> None:
    """Project all that is new in all projects, until told to stop."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to us, too; the server says when
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICE)
    orders = Orders()
    stores: dict[str, SqliteStore] = {}
    try:
        while not orders.stop.is_set():
            done = sum(_project(data, name, stores, orders.stop) for name in list(orders.projects))
            orders.stop.wait(PAUSE if done else IDLE)
    finally:
        for store in stores.values():
            store.close()


def _project(data: Path, name: str, stores: dict[str, SqliteStore], stop: threading.Event) -> int:
    """How many traces of a project were projected. What goes wrong with one project is told, and tried again.

    Up to where its log is now: what still grows is projected again in the next pass, and not all the time.
    """
    try:
        if name not in stores:
            settings = settings_from({}, data=data, project=name)
            stores[name] = SqliteStore(settings.store, lock=WriterLock(settings.folder))  # the server holds it
        store, done = stores[name], 0
        newest, until = store.lag().seq, time.monotonic() + TURN
        while not stop.is_set() and (found := project_some(store)):
            done += found
            if store.lag().projected >= newest or time.monotonic() > until:
                break
        return done
    except Exception as error:
        tell("not projected", logging.ERROR, error=error, project=name)
        if name in stores:
            stores.pop(name).close()
        stop.wait(AFTER_FAILURE)
        return 0


if __name__ == "__main__":
    set_up("json" if sys.argv[2] == "json" else "text")
    main(Path(sys.argv[1]))
