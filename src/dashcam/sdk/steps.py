"""Counting the steps of a trace for the whole process.

A Trace is a value: two threads that hold the same one would write the same step. So a trace that
is made current or opens a span gets one counter here, and every record of that trace in this
process takes its step from it: distinct and in order, whoever writes. A Trace that is only ever
passed along by hand has no counter; its step is written as it stands.
"""

from __future__ import annotations

import itertools
import os
import threading

# A long-lived process sees many traces. Counters that nobody holds go, the oldest first.
MAX_COUNTED = 10_000


class StepCounter:
    """The next free step of one trace."""

    __slots__ = ("_lock", "_steps", "users")

    def __init__(self, first: int) -> None:
        self._lock = threading.RLock()
        self._steps = itertools.count(first)
        self.users = 0  # blocks that it is current in

    def take(self, at_least: int) -> int:
        """Reserve and return the next step, never below `at_least`."""
        step = next(self._steps)  # in one piece: neither a thread nor a signal handler comes in between
        if step < at_least:  # somebody counted on by hand, or in another process
            with self._lock:
                step = next(self._steps)
                if step < at_least:
                    self._steps, step = itertools.count(at_least + 1), at_least
        return step

    def _after_fork(self) -> None:
        self._lock = threading.RLock()


_counters: dict[str, StepCounter] = {}
_lock = threading.RLock()

counter_of = _counters.get


def count_steps(trace_id: str, first: int) -> StepCounter:
    """From now on, count the steps of this trace for all who write to it in this process."""
    with _lock:
        counter = _counters.get(trace_id)
        if counter is None:
            if len(_counters) >= MAX_COUNTED:
                idle = next((name for name, other in _counters.items() if not other.users), None)
                if idle is not None:
                    del _counters[idle]
            counter = _counters[trace_id] = StepCounter(first)
        return counter


def swap_counters(fresh: dict[str, StepCounter]) -> dict[str, StepCounter]:
    """Count with `fresh` from now on; return what was counted before. For tests, whose ids repeat."""
    with _lock:
        before = dict(_counters)
        _counters.clear()
        _counters.update(fresh)
        return before


def _after_fork() -> None:
    # A lock that another thread held at the moment of the fork would stay locked for ever.
    global _lock
    _lock = threading.RLock()
    for counter in _counters.values():
        counter._after_fork()


os.register_at_fork(after_in_child=_after_fork)
