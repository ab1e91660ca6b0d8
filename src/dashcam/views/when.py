"""Moments as people give them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from dashcam.errors import SettingsError

_AGO = re.compile(r"(\d{1,9})\s*([smhdw])(?: ago)?")
_MILLIS = re.compile(r"\d{12,15}")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def millis_of(text: str | None) -> int | None:
    """A date, a time, `7d` ago, or the milliseconds themselves; None stays None."""
    if text is None:
        return None
    text = text.strip()
    if found := _AGO.fullmatch(text):
        return max(0, int((time.time() - int(found[1]) * _UNITS[found[2]]) * 1000))
    if _MILLIS.fullmatch(text):
        return int(text)
    try:
        given = datetime.fromisoformat(text)
        return max(0, int((given if given.tzinfo else given.astimezone()).astimezone(UTC).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise SettingsError(f"{text!r:.40} is no time. Write it like 2026-01-31, 2026-01-31T08:00 or 7d.") from None
