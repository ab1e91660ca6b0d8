"""An answer that streams in, told piece by piece by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dashcam.record.recorder import SessionRecorder


class Reply:
    """What the model says while it says it; as a context manager it ends with its block."""

    def __init__(self, session: SessionRecorder) -> None:
        self._session = session
        self._open: str | None = None
        self._count = 0

    def text(self, delta: str) -> None:
        self._grow("text", delta)

    def reasoning(self, delta: str) -> None:
        self._grow("reasoning", delta)

    def end(self, *, stop_reason: str = "stop", **facts: Any) -> None:
        """The model has said all: `usage`, `cost_usd`, `response_id` and the like go with the model call."""
        self._close_part()
        self._session.end_step(stop_reason=stop_reason, **facts)

    def _grow(self, kind: str, delta: str) -> None:
        if self._open != kind:
            self._close_part()
            self._count += 1
            self._open = kind
            self._session.chunk({"type": f"{kind}-start", "id": self._id})
        self._session.chunk({"type": f"{kind}-delta", "id": self._id, "delta": delta})

    def _close_part(self) -> None:
        if self._open:
            self._session.chunk({"type": f"{self._open}-end", "id": self._id})
            self._open = None

    @property
    def _id(self) -> str:
        return f"{id(self):x}-{self._count}"

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self._close_part()
            self._session.end_step()
        else:  # what was said stays as it is, and the turn says why
            aborted = not isinstance(error, Exception)
            self._session.end_turn("abort" if aborted else "error", None if aborted else error)
