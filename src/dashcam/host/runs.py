"""The log of replays: one line a run in `replay_runs.jsonl`, joinable to the model call that was run again."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from dashcam.errors import StoreError
from dashcam.sdk import mint
from dashcam.sdk.emit import require_trace
from dashcam.sdk.encode import frame, line_of, middle
from dashcam.sdk.redaction import Redactor
from dashcam.sdk.settings import Settings
from dashcam.sdk.trace import Trace

FILE = "replay_runs.jsonl"
KIND = "system:replay"  # so that what is replayed is never counted among what users did
OPERATION = "replay_run"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run, beside the tuple of the original: of the first model call of the turn, or the message with the call."""

    turn: int | None = None
    tool_call_id: str | None = None
    branch_id: str | None = None
    model: str | None = None
    overrides: dict[str, Any] = {}
    calls: dict[str, int] = {}  # how many were a hit, a miss or diverged
    exact: bool
    stopped: str | None = None
    equal: bool | None = None  # of a tool call: whether its outcome is the same
    duration_ms: float


def append(settings: Settings, original: Trace, run: Run) -> None:
    """Add one whole line, in one write, to a file that only its owner reads."""
    require_trace(original, OPERATION)
    start, where = frame(original.session_id, original.trace_id, original.span_id, None)
    fields, _, _ = Redactor(settings.redaction).apply(msgspec.to_builtins(run))
    line = line_of(start, original.step, middle(KIND, OPERATION), mint.now(), where, fields)
    path = settings.folder / FILE
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
    except OSError as error:
        raise StoreError(f"{path} can't be written: {error.strerror}. Make room, or mend who owns it.") from error
