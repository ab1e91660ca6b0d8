"""A request to some provider's API, taken apart so that what repeats from call to call is kept once.

The list of messages is cut out; what is left around it, the envelope, is the same for call after call. Put
together again the two are the request, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

# Under which names providers take the messages and the system prompt: OpenAI, Anthropic, OpenAI Responses, Gemini.
_MESSAGES = ("messages", "input", "contents")
_PROMPTS = ("system", "instructions", "systemInstruction", "system_instruction")
CUT = b"\0"  # where the messages were: no JSON text holds it
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)
_OPENING, _COMMA, _COLON = (re.compile(rb"\s*\%b?\s*" % each) for each in (b"{", b",", b":"))


class Parts(NamedTuple):
    """A request: the bytes around its messages, those of its messages, and its other members decoded."""

    envelope: bytes
    messages: bytes
    prompt: Any  # text, or blocks of it; None where it stands among the messages, or nowhere
    tools: bytes | None
    settings: dict[str, Any]
    model: str | None


def take_apart(raw: bytes) -> Parts:
    """The parts of a request; raises ValueError where it isn't a JSON object."""
    members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    places = _places(raw, members)
    name = next((name for name in _MESSAGES if name in places and bytes(members[name])[:1] == b"["), None)
    envelope, messages = raw, b""
    if name is not None:
        start, end = places[name]
        envelope, messages = raw[:start] + CUT + raw[end:], raw[start:end]
    prompt = next((msgspec.json.decode(members[key]) for key in _PROMPTS if key in members), None)
    kept_apart = {name, "tools", *_PROMPTS}
    settings = {key: msgspec.json.decode(value) for key, value in members.items() if key not in kept_apart}
    tools = bytes(members["tools"]) if "tools" in members and bytes(members["tools"]) != b"null" else None
    model = settings.get("model")
    return Parts(envelope, messages, prompt, tools, settings, model if isinstance(model, str) and model else None)


def put_together(envelope: bytes, messages: bytes) -> bytes:
    """The request again."""
    return envelope.replace(CUT, messages, 1)


def _places(raw: bytes, members: Mapping[str, msgspec.Raw]) -> dict[str, tuple[int, int]]:
    """Where the value of each member stands. Of a name that comes twice the last one counts, as in every decoder."""
    places: dict[str, tuple[int, int]] = {}
    at = _after(_OPENING, raw, 0)
    while key := _STRING.match(raw, at):
        start = _after(_COLON, raw, key.end())
        name = msgspec.json.decode(key[0], type=str)
        value = bytes(members[name])
        end = start + (len(value) if raw.startswith(value, start) else _length(raw, start))
        places[name] = (start, end)
        at = _after(_COMMA, raw, end)
    return {name: place for name, place in places.items() if raw[slice(*place)] == bytes(members[name])}


def _after(mark: re.Pattern[bytes], raw: bytes, at: int) -> int:
    """Behind the mark, and what blank stands around it."""
    found = mark.match(raw, at)
    return found.end() if found else at


def _length(raw: bytes, start: int) -> int:
    """How long the value is that begins there."""
    depth, at = 0, start
    while at < len(raw):
        char = raw[at : at + 1]
        if char == b'"':
            text = _STRING.match(raw, at)
            at = text.end() if text else len(raw)
            if not depth:
                break
            continue
        if char in b"[{":
            depth += 1
        elif char in b"]}":
            if not depth:
                break  # the end of the object around it
            depth -= 1
            if not depth:
                at += 1
                break
        elif not depth and char in b", \t\r\n":
            break
        at += 1
    return at - start
