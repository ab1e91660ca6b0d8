"""Items of exported sessions as what a store appends."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatPart, object_of
from dashcam.contracts.event import REDACTED, Event
from dashcam.contracts.identity import IDENTITY, MARKS
from dashcam.dialects.rows import Content, SystemPrompt, ToolCatalog
from dashcam.dialects.sessions import Call, Item
from dashcam.store.base import Batch


def batch_of(items: Iterable[Item]) -> Batch:
    """The items as what a store appends."""
    told: dict[str, list[Any]] = {name: [] for name in Batch.__struct_fields__}
    for item in items:
        match item:
            case Content(body):
                told["contents"].append(body)
            case SystemPrompt(body):
                told["system_prompts"].append(body)
            case ToolCatalog(body):
                told["tool_catalogs"].append(body)
            case Call(_, context):
                told["contexts"] += [context] if context else []
            case Event():
                told["events"].append(item)
            case _:
                told["chat"].append(item)
    return Batch(**told)


def event_of(call: ModelCall) -> Event:
    """The event that this call would be derived from."""
    told = {name: value for name, value in msgspec.structs.asdict(call).items() if value is not None}
    fields = {name: value for name, value in told.items() if name not in IDENTITY}
    fields["settings"] = object_of(call.settings)
    if call.duration_ms is not None:
        fields["latency_ms"] = fields.pop("duration_ms")
    del fields["redacted"], fields["redacted_paths"]
    if call.redacted:
        fields[MARKS] = {"redacted": _paths_of(call)}
    return Event(
        f"import:{sha256(msgspec.json.encode(call)).hexdigest()}",
        0,
        call.session_id,
        call.trace_id,
        call.step,
        call.kind,
        "model_call",
        call.ts,
        msgspec.json.encode(fields).decode(),
        REDACTED if call.redacted else 0,
    )


def size_of(item: Item) -> int:
    """About how many bytes an item holds."""
    match item:
        case Content(body) | SystemPrompt(body) | ToolCatalog(body):
            return len(body)
        case ChatPart():
            return len(item.data_json)
        case Event():
            return len(item.fields)
        case _:
            return 200


def _paths_of(call: ModelCall) -> list[str]:
    try:
        return msgspec.json.decode(call.redacted_paths, type=list[str])
    except (ValueError, RecursionError):
        return []  # told by hand
