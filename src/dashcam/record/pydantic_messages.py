"""Pydantic AI's messages as they are recorded: their exact JSON, what is said in them, and answers as chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_core import to_jsonable_python

from dashcam.contracts.chat import COMPACTION
from dashcam.contracts.content import slices_of

Key = tuple[int, bytes, bytes]  # the index of a part, and of an Item `exact` and `words`

WIRE = "pydantic-ai"
HISTORY, RETRY = "history", "retry"  # why a message is there that nobody has just written
_STOPS = {"tool_call": "tool-calls", "content_filter": "content-filter"}  # the rest are called alike in the AI SDK
_LEAVES = frozenset((str, int, float, bool, bytes, type(None)))
_MOST_LEAVES = 2_000  # of one message; with more its JSON is made anew
_ERRORS = frozenset(("failed", "retried"))
_CALLS = frozenset(("tool-call", "builtin-tool-call"))
# Of ModelRequestParameters: what is kept as the catalog or the system prompt.
_KEPT_APART = frozenset(("function_tools", "output_tools", "native_tools", "instruction_parts"))


class Item(NamedTuple):
    """One thing that was said, and how it is known again: by what it says and when, or by what it says alone."""

    message: Any
    part: Any
    exact: bytes
    words: bytes


def bodies_of(messages: Sequence[ModelMessage]) -> list[bytes]:
    """Each message as JSON, without the instructions that it carries along.

    Those are the system prompt: one with a clock in it would make every message another.
    """
    try:
        bodies = slices_of(_dump(messages))
    except Exception:  # a value of the host's that isn't JSON; then only its message is told otherwise
        bodies = None
    return bodies if bodies is not None else [_body(message) for message in messages]


def _body(message: ModelMessage) -> bytes:
    try:
        return _dump([message])[1:-1]
    except Exception:
        return msgspec.json.encode({"kind": message.kind, "unencodable": repr(message)[:100_000]})


def _dump(messages: Sequence[ModelMessage]) -> bytes:
    return ModelMessagesTypeAdapter.dump_json(list(messages), exclude={"__all__": {"instructions"}}, fallback=repr)


def leaves_of(value: Any) -> list[Any]:
    """All that a message is made of, down to what can't change: as long as these are the same, so is its JSON.

    Messages can be changed in place, and looking is several times as fast as making JSON again.
    """
    found: list[Any] = []
    rest = [value]
    while rest and len(found) < _MOST_LEAVES:
        value = rest.pop()
        found.append(value)
        kind = type(value)
        if kind in _LEAVES:
            continue
        if kind is dict:
            rest += value
            rest += value.values()
        elif kind in (list, tuple):
            found.append(len(value))
            rest += value
        elif hasattr(value, "__dict__"):
            rest += value.__dict__.values()
        elif kind not in (datetime, timezone):
            found.append(object())  # nobody knows whether it is the same
    return found if not rest else [*found, object()]


def jsonable(value: Any) -> Any:
    """Whatever it is, as JSON has it."""
    return to_jsonable_python(value, fallback=repr, bytes_mode="base64", inf_nan_mode="strings")


# What is said


def items_of(message: ModelMessage, keys: Sequence[Key] | None = None) -> list[Item]:
    """What a message says; `keys` are its own, where they were made before."""
    made = keys_of(message) if keys is None else keys
    return [Item(message, message.parts[index], exact, words) for index, exact, words in made]


def keys_of(message: ModelMessage) -> list[Key]:
    """How its parts are known again, but for what only frames them: system prompts, thoughts, deltas."""
    found = []
    for index, part in enumerate(message.parts):
        words = _words(part)
        if words is not None:
            at = getattr(part, "timestamp", None) or message.timestamp
            found.append((index, _hash("exact", words, str(at)), _hash("words", words)))
    return found


def _words(part: Any) -> str | None:
    match part.part_kind:
        case "tool-return" | "builtin-tool-return":
            return f"return {part.tool_call_id} {part.outcome}"  # by its id: hosts shorten old outputs
        case "retry-prompt" if part.tool_name is not None:
            return f"return {part.tool_call_id} retried"
        case "tool-call" | "builtin-tool-call":
            return f"call {part.tool_call_id}"
        case "text":
            return f"text {part.content}"
        case "user-prompt" | "retry-prompt" | "retry-feedback" | "compaction" | "file" | "speech":
            content = part.content if hasattr(part, "content") else part
            return f"{part.part_kind} {content if isinstance(content, str) else jsonable(content)}"
    return None


def _hash(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def retry_times(messages: Iterable[ModelMessage]) -> Iterator[datetime]:
    """When a run asked its model again: what the model then gets to read looks like a user's words."""
    for message in messages:
        for part in message.parts:
            if part.part_kind in ("retry-feedback", "retry-prompt"):
                yield part.timestamp


def call_ids(messages: Iterable[ModelMessage]) -> set[str]:
    """The tool calls that these messages tell of."""
    return {part.tool_call_id for message in messages for part in message.parts if part.part_kind == "tool-call"}


def user_parts(part: Any) -> Iterator[dict[str, Any]]:
    """What a user, or somebody in a user's place, said: as parts of a UIMessage."""
    if part.part_kind != "user-prompt":
        text = part.model_response() if hasattr(part, "model_response") else None
        yield {"type": "text", "text": text} if text else {"type": f"data-{part.part_kind}", "data": jsonable(part)}
        return
    for content in [part.content] if isinstance(part.content, str) else part.content:
        yield {"type": "text", "text": content} if isinstance(content, str) else _content_part(content)


def _content_part(content: Any) -> dict[str, Any]:
    if hasattr(content, "content"):
        return {"type": "text", "text": str(content.content)}
    if content.kind == "binary":
        return {"type": "file", "mediaType": content.media_type, "url": content.data_uri}
    if content.kind.endswith("-url"):
        return {"type": "file", "mediaType": _media_type(content), "url": content.url}
    return {"type": f"data-{content.kind}", "data": jsonable(content)}


def _media_type(file: Any) -> str:
    try:
        return str(file.media_type)
    except Exception:  # it can't be told from the address
        return "application/octet-stream"


def outcome_of(part: Any) -> dict[str, Any]:
    """What became of a tool call, as `chat.tool_result` takes it."""
    if part.part_kind == "retry-prompt":
        return {"error": part.model_response()}
    if part.outcome in _ERRORS:
        return {"error": part.model_response_str(wrap_if_error=False)}
    if part.outcome == "denied":
        return {"denied": part.model_response_str()}
    return {"output": jsonable(part.content)}


# What a request holds beside its messages


def prompt_of(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters, retries: set[datetime]
) -> tuple[list[str], str | None]:
    """The system prompt: what of it is sent among the messages, and the instructions, which are sent beside them."""
    told = [
        part.content
        for message in messages
        for part in message.parts
        if part.part_kind == "system-prompt" and part.timestamp not in retries
    ]
    parts = Model._get_instruction_parts(messages, parameters)  # as every model of the library asks for them
    return told, InstructionPart.join(parts) if parts else None


def tools_of(parameters: ModelRequestParameters) -> list[dict[str, Any]] | None:
    """The catalog in the order in which it is sent; of a provider's own tools the names."""
    tools = [jsonable(tool) for tool in [*parameters.function_tools, *parameters.output_tools]]
    tools += [{"name": tool.unique_id, "kind": "native"} for tool in parameters.native_tools]
    return tools or None


def parameters_of(parameters: ModelRequestParameters) -> dict[str, Any]:
    """All else that a request is made with: the mode of its output and the like."""
    names = [each.name for each in fields(parameters) if each.name not in _KEPT_APART and each.name[0] != "_"]
    told = {name: getattr(parameters, name) for name in names}
    return {name: jsonable(value) for name, value in told.items() if value is not None and value not in ({}, set())}


# What a model answers


def answer_chunks(parts: Iterable[Any], prefix: str = "") -> Iterator[dict[str, Any]]:
    """A whole answer, as the chunks in which a stream would have told it."""
    for index, part in enumerate(parts):
        if part.part_kind not in _CALLS:
            yield from start_chunks(part, f"{prefix}{index}")
        yield from end_chunks(part, f"{prefix}{index}")


def start_chunks(part: Any, part_id: str) -> Iterator[dict[str, Any]]:
    match part.part_kind:
        case "text" | "thinking":
            kind = _kind(part)
            yield {"type": f"{kind}-start", "id": part_id}
            if part.content:
                yield {"type": f"{kind}-delta", "id": part_id, "delta": part.content}
        case "tool-call" | "builtin-tool-call":
            yield {"type": "tool-input-start", **_called(part)}
            if part.args and isinstance(part.args, str):
                yield {"type": "tool-input-delta", "toolCallId": part.tool_call_id, "inputTextDelta": part.args}


def delta_chunks(delta: Any, part: Any, part_id: str) -> Iterator[dict[str, Any]]:
    """What `part`, which began before, goes on with."""
    if delta.part_delta_kind in ("text", "thinking") and delta.content_delta:
        yield {"type": f"{_kind(part)}-delta", "id": part_id, "delta": delta.content_delta}
    elif delta.part_delta_kind == "tool_call" and isinstance(delta.args_delta, str) and delta.args_delta:
        yield {"type": "tool-input-delta", "toolCallId": part.tool_call_id, "inputTextDelta": delta.args_delta}


def end_chunks(part: Any, part_id: str) -> Iterator[dict[str, Any]]:
    """The part is complete; those that don't stream are told here as a whole."""
    match part.part_kind:
        case "text" | "thinking":
            yield {"type": f"{_kind(part)}-end", "id": part_id, **_metadata(part)}
        case "tool-call" | "builtin-tool-call":
            yield {"type": "tool-input-available", **_called(part), "input": _input(part)}
        case "builtin-tool-return":
            told = outcome_of(part)
            outcome = {"errorText": told["error"]} if "error" in told else {"output": jsonable(part.content)}
            kind = "tool-output-error" if "error" in told else "tool-output-available"
            yield {"type": kind, "toolCallId": part.tool_call_id, "providerExecuted": True, **outcome}
        case "file":
            yield {"type": "file", "mediaType": part.content.media_type, "url": part.content.data_uri}
        case "compaction":
            yield {"type": COMPACTION, "data": {"summary": part.content or "", "auto": True}}
        case other:
            yield {"type": f"data-{other}", "data": jsonable(part)}


def _kind(part: Any) -> str:
    return "text" if part.part_kind == "text" else "reasoning"


def _called(part: Any) -> dict[str, Any]:
    executed = {"providerExecuted": True} if part.part_kind == "builtin-tool-call" else {}
    return {"toolCallId": part.tool_call_id, "toolName": part.tool_name, **executed, **_metadata(part)}


def _input(part: Any) -> Any:
    """A call's arguments; those that aren't an object of JSON as the text that they are."""
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return part.args


def _metadata(part: Any) -> dict[str, Any]:
    """What a provider wants back with the next request: signatures, ids of its own."""
    names = ("id", "signature", "provider_name", "provider_details", "tool_kind")
    told = {name: jsonable(value) for name in names if (value := getattr(part, name, None)) is not None}
    return {"providerMetadata": {"pydantic_ai": told}} if told else {}


def asks_for(response: ModelResponse, is_wanted: Callable[[str], bool]) -> set[str]:
    """The ids of its calls of tools, not a provider's own, whose names are wanted."""
    return {part.tool_call_id for part in response.parts if part.part_kind == "tool-call" and is_wanted(part.tool_name)}


def stop_reason_of(response: ModelResponse) -> str:
    reason = response.finish_reason
    if reason is None:
        return "tool-calls" if call_ids([response]) else "stop"
    return _STOPS.get(reason, reason)
