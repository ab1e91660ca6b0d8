"""What several rows about one thing come to: a session that is told again, a tool call that is answered elsewhere.

Pure functions of rows. JSON is put together from its pieces as they were written, so that no number changes its shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dashcam.contracts.chat import ChatPart, ChatSession, object_of

Pieces = dict[str, msgspec.Raw]

_OPTIONAL = ("workspace_root", "parent_id", "parent_message_id", "archived_at")
_STREAMING = "input-streaming"
_RESULT = ("output", "errorText", "preliminary", "resultProviderMetadata")  # one outcome: they come and go together
_OUTCOME = ("approval", "providerExecuted", *_RESULT)  # in the order in which they stand at the end of a part

_decode = msgspec.json.Decoder(Pieces).decode


def merged_session(known: ChatSession, row: ChatSession, *, is_newer: bool) -> ChatSession:
    """A session's row after another one: the newer of the two, with what it leaves untold from the older one."""
    older, newer = (known, row) if is_newer else (row, known)
    told = {name: getattr(older, name) for name in _OPTIONAL if getattr(newer, name) is None}
    if newer.permissions_json == "[]":
        told["permissions_json"] = older.permissions_json
    if not _names_a_model(newer.model_json) and _names_a_model(older.model_json):
        told["model_json"] = older.model_json
    metadata = merged_objects(older.metadata_json, newer.metadata_json)
    return in_letters_of(known, in_letters_of(row, replace(newer, **told, metadata_json=metadata)))


def in_letters_of(known: ChatSession, row: ChatSession) -> ChatSession:
    """The row, with the metadata as the known one writes them where they say the same."""
    return replace(row, metadata_json=known.metadata_json) if _is_same(known.metadata_json, row.metadata_json) else row


def is_stub(part: ChatPart) -> bool:
    """Whether a part only answers a tool call that another message holds: it knows neither the tool nor its input."""
    if part.type != "dynamic-tool" or not part.tool_call_id:
        return False
    data = part.data()
    return data.get("toolName") == "unknown" and "input" not in data and "rawInput" not in data


def can_absorb(part: ChatPart) -> bool:
    """Whether a call is told as far as its answer needs. While its input grows, an answer would cut that off."""
    return part.tool_state != _STREAMING and _pieces(part.data_json) is not None


def joined(parts: Sequence[ChatPart]) -> tuple[ChatPart | None, list[str]]:
    """The parts of one tool call: what the one that stays comes to, and the ids of those that are in it now."""
    stubs = [part for part in parts if is_stub(part)]
    calls = [part for part in parts if can_absorb(part) and not is_stub(part)] if stubs else []
    if not stubs or len(stubs) + len(calls) < 2:
        return None, []
    kept = min(calls or stubs, key=lambda part: (part.created_at, part.id))
    others = sorted((stub for stub in stubs if stub.id != kept.id), key=lambda part: (part.updated_at, part.id))
    for stub in others:
        kept = _absorbed(kept, stub)
    return kept, [stub.id for stub in others]


def _absorbed(part: ChatPart, stub: ChatPart) -> ChatPart:
    """The part with the stub's outcome; of an older stub only the decision that the part has not heard of."""
    data, said = _pieces(part.data_json) or {}, _pieces(stub.data_json) or {}
    is_newer = stub.updated_at >= part.updated_at
    told = {name: said[name] for name in _OUTCOME if name in said and (is_newer or name == "approval")}
    if "approval" in told and "approval" in data:
        before, after = _pieces(data["approval"]), _pieces(told["approval"])
        if not is_newer and before and "approved" in before:
            del told["approval"]
        elif before and after:
            told["approval"] = msgspec.Raw(msgspec.json.encode({**before, **after}))
    if not told and not is_newer:
        return part
    if "output" in told or "errorText" in told:
        data = {name: piece for name, piece in data.items() if name not in _RESULT}
    if is_newer:
        data |= {"state": said["state"]} if "state" in said else {}
        part = replace(part, tool_state=stub.tool_state, updated_at=stub.updated_at)
    outcome = {name: piece for name in _OUTCOME if (piece := told.get(name, data.get(name))) is not None}
    rest = {name: piece for name, piece in data.items() if name not in _OUTCOME}
    return replace(part, data_json=msgspec.json.encode({**rest, **outcome}).decode())


def merged_objects(older: str, newer: str) -> str:
    """Two JSON objects, the newer one's keys over the older one's. What is no object says nothing."""
    before, after = _pieces(older), _pieces(newer)
    if before is None or after is None:
        return newer if before is None else older
    return msgspec.json.encode({**before, **after}).decode()


def _is_same(one: str, other: str) -> bool:
    """Whether two JSON objects have the same keys, with the same values to the letter."""
    if one == other:
        return True
    told = [_pieces(one), _pieces(other)]
    plain = [None if each is None else {name: bytes(piece) for name, piece in each.items()} for each in told]
    return plain[0] is not None and plain[0] == plain[1]


def _pieces(text: str | msgspec.Raw) -> Pieces | None:
    """A JSON object as its keys and the text of their values; None for what isn't one."""
    try:
        return _decode(bytes(text) if isinstance(text, msgspec.Raw) else text)
    except (ValueError, RecursionError):
        return None


def _names_a_model(model_json: str) -> bool:
    model = object_of(model_json)
    return bool(model.get("provider_id") or model.get("model_id"))
