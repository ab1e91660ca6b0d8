"""What the server says of itself: one line an event on stderr, never payloads or secrets."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Literal

import msgspec

from dashcam.contracts.event import iso_of

Form = Literal["text", "json"]

BURST = 20  # lines of one kind a second; whoever sends rubbish must not fill a disk with what we say of it
_LONGEST = 500

_log = logging.getLogger("dashcam.server")
_form: Form = "text"
_bursts: dict[str, tuple[int, int, int]] = {}  # by event: the second, lines in it, lines left out since


def set_up(form: Form) -> None:
    """Send everything to stderr in this form; what libraries say only from warnings on."""
    global _form
    _form = form
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    _log.setLevel(logging.INFO)


def form() -> Form:
    """The form that was chosen, for a process that we start."""
    return _form


def tell(event: str, level: int = logging.INFO, *, error: BaseException | None = None, **fields: Any) -> None:
    """Say that `event` happened. `session_id`, `trace_id` and `step` name the record that it is about, if one is."""
    second = int(time.monotonic())
    began, lines, left_out = _bursts.get(event, (second, 0, 0))
    if began == second and lines >= BURST:
        _bursts[event] = (began, lines, left_out + 1)
        return
    _bursts[event] = (second, lines + 1 if began == second else 1, 0)
    if left_out:
        fields["left_out"] = left_out
    if error is not None:
        fields["error"] = f"{type(error).__name__}: {error}"
    _log.log(level, event, extra={"told": {name: _short(value) for name, value in fields.items() if value is not None}})


def _short(value: Any) -> Any:
    return value[:_LONGEST] if isinstance(value, str) else value


def _told(record: logging.LogRecord) -> dict[str, Any]:
    told = dict(getattr(record, "told", {}))
    if record.exc_info and record.exc_info[1] is not None and "error" not in told:
        told["error"] = _short(f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")
    if record.name != _log.name:
        told["logger"] = record.name
    return told


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": iso_of(int(record.created * 1e6)),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_told(record),
        }
        return msgspec.json.encode(line, enc_hook=str).decode()


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = " ".join(f"{name}={value!r}" for name, value in _told(record).items())
        return f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {record.getMessage()!s} {told}".rstrip()
