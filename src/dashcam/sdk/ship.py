"""Journals to a server: a background thread that the journal knows nothing of.

The journal on disk is the buffer. What isn't acknowledged stays there and is sent later, by this
process or by the next one that ships from the same folder.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import Any

from dashcam.sdk.backlog import Backlog
from dashcam.sdk.courier import Courier, Pace
from dashcam.sdk.settings import Settings
from dashcam.sdk.wire import Destination

log = logging.getLogger("dashcam")

EXIT_SECONDS = 2.0


class Shipper:
    """The thread that ships. It never raises into the host and never keeps the process alive."""

    def __init__(self, settings: Settings, *, interval: float = 1.0, pace: Pace | None = None) -> None:
        self._settings, self._interval, self._pace = settings, interval, pace or Pace()
        self._begin()
        _shippers.append(self)

    def _begin(self) -> None:
        """All that belongs to one process; after a fork the child gets its own."""
        self._stopping = False
        self._turn = threading.Condition()
        self._wake = threading.Event()
        self._asked = self._answered = 0  # flushes asked for, and up to which one a pass has answered
        self._clean = False  # whether that pass left nothing
        self._courier = Courier(self._settings, self._pace, lambda: self._stopping)
        self._thread = threading.Thread(target=self._run, name="dashcam-ship", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is on its way out
            self._stopping = True
            log.warning("Journals are not shipped by this process: %s. The next one does it.", error)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._courier.wait(self._interval))
            self._wake.clear()
            with self._turn:
                asked = self._asked
            clean = not self._stopping and not self._courier.held and self._courier.run()
            with self._turn:
                self._answered, self._clean = asked, clean
                self._turn.notify_all()

    def flush(self, timeout: float) -> bool:
        """Push what is on disk now; True when the server has acknowledged all of it.

        Goes on trying until `timeout` is over. A record that the server refuses makes it False.
        """
        refused = self._courier.refused
        return self._push(timeout, patient=True) and self._courier.refused == refused

    def _push(self, timeout: float, *, patient: bool) -> bool:
        with self._turn:
            self._asked += 1
            ticket = self._asked

            def settled() -> bool:
                answered = self._answered >= ticket
                if self._stopping or (answered and self._clean):
                    return True
                return not patient and (answered or self._courier.trouble is not None)

            self._wake.set()
            self._turn.wait_for(settled, timeout)
            return self._answered >= ticket and self._clean

    def close(self, timeout: float = EXIT_SECONDS) -> None:
        """Push what is left, for `timeout` seconds at most, and stop.

        Where the server is known to be away nothing is waited for; the next process sends it.
        """
        if self not in _shippers:
            return
        _shippers.remove(self)
        deadline = time.monotonic() + timeout
        self._push(timeout, patient=False)
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
        self._wake.set()
        if self._thread.is_alive() and self._courier.trouble is None:
            self._thread.join(max(deadline - time.monotonic(), 0.0))

    def stats(self) -> dict[str, Any]:
        return self._courier.stats()

    def after_fork(self) -> None:
        """In the child: no thread has come along, and the parent's counts are the parent's."""
        self._begin()


_shippers: list[Shipper] = []


def ship_once(settings: Settings, *, pace: Pace | None = None) -> dict[str, Any]:
    """Push everything that can be sent now, and return what became of it. Stops at the first trouble.

    Raises SettingsError where there is no server to ship to.
    """
    courier = Courier(settings, pace or Pace())
    courier.run()
    return courier.stats()


def prune_shipped(settings: Settings, older_than_seconds: float) -> int:
    """Remove the finished segments that the server at `settings.url` has to the last byte.

    Only those not written for `older_than_seconds`, and none with a record that the server refused or
    with a torn end. Returns how many were removed.
    """
    backlog = Backlog(settings, Destination(settings).digest)
    return backlog.prune(before=time.time() - older_than_seconds)


def _at_exit() -> None:
    deadline = time.monotonic() + EXIT_SECONDS
    while _shippers:
        _shippers[-1].close(max(deadline - time.monotonic(), 0.0))


def _after_fork_in_child() -> None:
    for shipper in _shippers:
        shipper.after_fork()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)
