"""A part of a message in the making, and what can happen to it and to its message."""

from __future__ import annotations

from typing import Any

import msgspec

ABSENT: Any = object()  # undefined, where None is null


class Part:
    """One part of a message. Its text is kept in pieces until somebody asks for `data`."""

    __slots__ = ("_data", "_pending", "_pieces", "index", "is_tool")

    def __init__(self, index: int, data: dict[str, Any], *, is_tool: bool = False) -> None:
        self.index, self.is_tool = index, is_tool
        self._data, self._pieces, self._pending = data, list[str](), 0

    @property
    def data(self) -> dict[str, Any]:
        """The AI SDK part. Asking costs the length of what has been appended so far, so don't ask for every delta."""
        if self._pieces:
            self._data[self.path] = "".join([self._data.get(self.path, ""), *self._pieces])
            self._pieces, self._pending = [], 0
        return self._data

    @property
    def type(self) -> str:
        return str(self._data["type"])

    @property
    def tool_call_id(self) -> str | None:
        return self._text("toolCallId")

    @property
    def tool_state(self) -> str | None:
        return self._text("state")

    @property
    def path(self) -> str:
        """The field that grows."""
        return "rawInput" if self.is_tool else "text"

    def append(self, text: str) -> int:
        """Add to the end of the text that grows; return how long it was."""
        at = len(self._data.get(self.path, "")) + self._pending
        self._pieces.append(text)
        self._pending += len(text)
        return at

    def put(self, **fields: Any) -> None:
        """Set fields, and remove those that are `ABSENT`."""
        if self.path in fields:
            self._pieces, self._pending = [], 0
        for name, value in fields.items():
            if value is ABSENT:
                self._data.pop(name, None)
            else:
                self._data[name] = value

    def replace(self, data: dict[str, Any]) -> None:
        self._data, self._pieces, self._pending = data, [], 0

    def get(self, name: str, default: Any = None) -> Any:
        """One field, without joining the text that grows."""
        return self._data.get(name, default)

    def _text(self, name: str) -> str | None:
        value = self._data.get(name) if self.is_tool else None
        return value if isinstance(value, str) else None


class Began(msgspec.Struct, frozen=True):
    """A part is new, with all it holds."""

    part: Part


class Changed(msgspec.Struct, frozen=True):
    """A part has another state or other content."""

    part: Part


class Grew(msgspec.Struct, frozen=True):
    """Nothing but `text` was appended to `part.data[path]`, which was `at` characters long."""

    part: Part
    path: str
    at: int
    text: str


class StepBegan(msgspec.Struct, frozen=True):
    """The model was asked."""


class StepEnded(msgspec.Struct, frozen=True):
    """The model has answered; `usage` as reported, where the stream tells it."""

    usage: dict[str, Any] | None = None
    finish_reason: str | None = None


class Ended(msgspec.Struct, frozen=True):
    """The message is complete, or was given up."""

    reason: str | None
    aborted: bool


class Failed(msgspec.Struct, frozen=True):
    """The stream reports an error."""

    error: str


class Told(msgspec.Struct, frozen=True):
    """The message's metadata, all that has been told so far."""

    metadata: dict[str, Any]


class Odd(msgspec.Struct, frozen=True):
    """Something was out of order, and why; what came is kept."""

    what: str


Change = Began | Changed | Grew | StepBegan | StepEnded | Ended | Failed | Told | Odd
