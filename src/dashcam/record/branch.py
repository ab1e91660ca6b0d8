"""A branch: a new session that begins with copies of what was said in another, up to one message."""

from __future__ import annotations

from typing import Any

import msgspec

from dashcam.contracts.chat import MESSAGE, PART, ChatMessage, ChatPart
from dashcam.errors import NotFound
from dashcam.record.parts import scrubbed
from dashcam.record.recorder import SessionRecorder
from dashcam.sdk.ids import new_id
from dashcam.store.base import Reader

_OF_THE_PAST = ("hidden_at", "queued_at")


def branch(store: Reader, session_id: str, message_id: str, recorder: SessionRecorder) -> str:
    """Copy every visible message up to and including this one, with new ids; return the id of its copy.

    A user message that is the last one is asked anew: it begins the recorder's next turn. What the models
    were sent stays with the parent, so the recorder has to be handed its requests from here on.
    """
    said = list(store.chat_messages(session_id))
    place = next((place for place, message in enumerate(said) if message.id == message_id), None)
    if place is None:
        raise NotFound(
            f"Session {session_id!r} has no message {message_id!r}. See them with: dashcam show {session_id}"
        )
    for message in said[:place]:
        if _is_visible(message):
            _copy(store, message, recorder)
    last = said[place]
    if last.role != "user":
        return _copy(store, last, recorder)
    with recorder.lock:
        # Turns are counted as they stand in the session, and those that were copied had no recorder.
        recorder._turns = sum(message.role == "user" and _is_visible(message) for message in said[:place])
        parts = [part.data() for part in store.chat_parts(session_id, last.id)]
        return recorder.user(parts=parts, metadata=_metadata(last))


def _copy(store: Reader, message: ChatMessage, recorder: SessionRecorder) -> str:
    """A message as it was, at the time when it was said."""
    with recorder.lock:
        copy_id, _ = new_id(MESSAGE)
        at = {"trace_id": recorder.trace.trace_id, "step": recorder.lines.trace.step}
        told = {**_metadata(message), **at}
        recorder._messages.put(copy_id, message.role, told, message.created_at, len(recorder.conversation))
        for part in store.chat_parts(message.session_id, message.id):
            recorder.lines.row("chat.part", _part(part, copy_id))
        return copy_id


def _part(part: ChatPart, message_id: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "part_id": new_id(PART)[0],
        "message_id": message_id,
        "index": part.index,
        "type": part.type,
        "data": _verbatim(part.data_json),
        "created_at": part.created_at,
        "updated_at": max(part.updated_at, part.created_at),
    }
    if part.tool_call_id is not None:
        row |= {"tool_call_id": part.tool_call_id, "tool_state": part.tool_state}
    return row


def _verbatim(text: str) -> Any:
    """The part to the letter; without secrets, should it have come from where nobody takes them out."""
    try:
        data = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return scrubbed(text)
    clean = scrubbed(data)
    is_one_line = "\n" not in text and "\r" not in text  # as a line of the journal has to be
    return msgspec.Raw(text.encode()) if clean == data and is_one_line else clean


def _metadata(message: ChatMessage) -> dict[str, Any]:
    told = {name: value for name, value in message.metadata().items() if name not in _OF_THE_PAST}
    return {**scrubbed(told), "copied_from": message.id}


def _is_visible(message: ChatMessage) -> bool:
    return "hidden_at" not in message.metadata()
