"""Counting the steps of a trace for the whole process.

A Trace is a value: two threads that hold the same one would write the same step. So a trace that
is made current or opens a span gets one counter here, and every record of that trace in this
process takes its step from it: distinct and in order, whoever writes. A Trace that is only ever
passed along by hand has no counter; its step is written as it stands.
"""

from __future__ import annotations

import os
import threading

# A long-lived process sees many traces. The oldest counters go first; by then their runs are over.
MAX_COUNTED = 10_000


class StepCounter:
    """The next free step of one trace."""

    __slots__ = ("_lock", "_next")

    def __init__(self, first: int) -> None:
        self._lock = threading.Lock()
        self._next = first

    def take(self, at_least: int) -> int:
        """Reserve and return the next step, never below `at_least`."""
        with self._lock:
            step = self._next if self._next > at_least else at_least
            self._next = step + 1
            return step

    def _after_fork(self) -> None:
        self._lock = threading.Lock()


_counters: dict[str, StepCounter] = {}
_lock = threading.Lock()

counter_of = _counters.get


def count_steps(trace_id: str, first: int) -> None:
    """From now on, count the steps of this trace for all who write to it in this process."""
    with _lock:
        if trace_id not in _counters:
            if len(_counters) >= MAX_COUNTED:
                del _counters[next(iter(_counters))]
            _counters[trace_id] = StepCounter(first)


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
    _lock = threading.Lock()
    for counter in _counters.values():
        counter._after_fork()


os.register_at_fork(after_in_child=_after_fork)
