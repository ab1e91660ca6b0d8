"""The conversation as the model is sent it: what was said so far, and the request that follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dashcam.record import wire
from dashcam.record.calls import Calls, Request, Sent


class _Fold(NamedTuple):
    """A summary that stands for all before `tail`, made when `made_at` messages had been said."""

    summary: dict[str, Any]
    tail: int
    made_at: int


class Conversation:
    """The messages between user, model and tools. Each is kept when a request is first made of it.

    Where the host hands over its requests as sent, nothing is made up here.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._messages: list[Sent | dict[str, Any]] = []
        self._folds: list[_Fold] = []
        self._is_handed_over = False

    def __len__(self) -> int:
        return len(self._messages)

    def say(self, message: dict[str, Any]) -> None:
        if not self._is_handed_over:
            self._messages.append(message)

    def recall(self, history: Iterable[Mapping[str, Any]]) -> int:
        """Begin with UIMessages that others have recorded; return how many of them are the user's."""
        asked = 0
        for each in history:
            parts = [part for part in each.get("parts") or () if isinstance(part, Mapping)]
            if each.get("role") == "user":
                asked += 1
                self.say(wire.user_message(parts))
            else:
                for message in wire.steps(parts):
                    self.say(message)
        return asked

    def cut(self, at: int) -> None:
        """Forget all from there on, and the summaries that were made later: the conversation was rewound."""
        del self._messages[at:]
        self._folds = [fold for fold in self._folds if fold.made_at <= at]

    def fold(self, summary: str, tail: int) -> None:
        """From now on a summary stands for all before `tail`."""
        self._folds.append(_Fold({"role": "user", "content": summary}, tail, len(self._messages)))

    def hand_over(self, request: Mapping[str, Any] | str | bytes | Request) -> Request:
        """A request as it was sent; from now on none is made up."""
        self._is_handed_over, self._messages = True, []
        return request if isinstance(request, Request) else self._calls.as_given(request)

    def request(self, prompt: str | None, tools: Any, settings: Mapping[str, Any]) -> Request | None:
        """The request that follows from what was said; None where requests are handed over."""
        if self._is_handed_over:
            return None
        fold = self._folds[-1] if self._folds else None
        start = fold.tail if fold else 0
        sent = [self._calls.message(each) if isinstance(each, dict) else each for each in self._messages[start:]]
        self._messages[start:] = sent
        if fold:
            sent.insert(0, self._calls.message(fold.summary))
        return self._calls.request(sent, prompt=prompt, tools=tools, settings=settings, wire=wire.WIRE)
