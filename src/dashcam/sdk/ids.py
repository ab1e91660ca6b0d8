"""Ids for what is recorded live: of a session, a message, a part. As text they sort in the order of their making."""

from __future__ import annotations

import threading

from dashcam.contracts.chat import TICKS, make_id
from dashcam.sdk import mint

_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> tuple[str, int]:
    """A new id, and the millisecond that it holds: `created_at` of what it names.

    One after the other even within a millisecond, or when the clock is set back.
    """
    global _last
    source = mint.source()
    with _lock:
        _last = tick = max(_last + 1, round(source.now().timestamp() * 1000) * TICKS)
    return make_id(prefix, tick, int(source.trace_id(), 16)), tick // TICKS


def now_ms() -> int:
    """Milliseconds since 1970, as the chat rows have them."""
    return round(mint.source().now().timestamp() * 1000)


def restart() -> None:
    """Count from the clock again. For tests, whose clock begins anew each time."""
    global _last
    _last = 0
