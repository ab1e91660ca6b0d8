"""The conversation as the model is sent it: what was said so far, and the request that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashcam.record import wire
from dashcam.record.calls import Calls, Request, Sent


class Conversation:
    """The messages between user, model and tools. Each is kept when a request is first made of it.

    Where the host hands over its requests as sent, nothing is made up here.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._messages: list[Sent | dict[str, Any]] = []
        self._is_handed_over = False

    def __len__(self) -> int:
        return len(self._messages)

    def say(self, message: dict[str, Any]) -> None:
        if not self._is_handed_over:
            self._messages.append(message)

    def cut(self, at: int) -> None:
        """Forget all from there on: the conversation was rewound."""
        del self._messages[at:]

    def fold(self, summary: str, tail: int) -> None:
        """A summary stands for all before `tail`."""
        self._messages = [{"role": "user", "content": summary}, *self._messages[tail:]]

    def hand_over(self, request: Mapping[str, Any] | str | bytes | Request) -> Request:
        """A request as it was sent; from now on none is made up."""
        self._is_handed_over, self._messages = True, []
        return request if isinstance(request, Request) else self._calls.as_given(request)

    def request(self, prompt: str | None, tools: Any, settings: Mapping[str, Any]) -> Request | None:
        """The request that follows from what was said; None where requests are handed over."""
        if self._is_handed_over:
            return None
        sent = [self._calls.message(each) if isinstance(each, dict) else each for each in self._messages]
        self._messages = list(sent)
        return self._calls.request(sent, prompt=prompt, tools=tools, settings=settings, wire=wire.WIRE)
