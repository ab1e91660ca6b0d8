"""The log of replays: one line a run in `replay_runs.jsonl`, joinable to the model call that was run again."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import msgspec

from dashcam.errors import StoreError
from dashcam.sdk import mint
from dashcam.sdk.settings import Settings

FILE = "replay_runs.jsonl"
KIND = "system:replay"  # so that what is replayed is never counted among what users did


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Its tuple is that of the original: the first model call of the turn, or the message with the call."""

    session_id: str
    trace_id: str
    step: int
    kind: str = KIND
    operation: str = "replay_run"
    ts: datetime = msgspec.field(default_factory=mint.now)
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


def append(settings: Settings, run: Run) -> None:
    """Add one whole line, in one write, to a file that only its owner reads."""
    path = settings.folder / FILE
    line = msgspec.json.encode(run) + b"\n"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
    except OSError as error:
        raise StoreError(f"{path} can't be written: {error.strerror}. Make room, or mend who owns it.") from error
