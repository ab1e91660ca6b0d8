"""What several senders tell in one way because they wrap the same functions and frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dashcam.dialects.otlp.messages import conversation, said
from dashcam.dialects.otlp.reading import Role, Said
from dashcam.dialects.otlp.values import canonical, json_of, number, structure_of

_NOTES = ("langgraph_", "ls_", "lc_", "checkpoint_ns", "__")  # LangChain's own, among what an application noted


_TOOL_OUTPUT = frozenset(("blocks", "tool_name", "raw_output"))  # what LlamaIndex makes of what a tool gave


class Given(NamedTuple):
    """What a tool gave. LangChain's own message says beside it which call it answers, and whether it failed."""

    result: Any
    call_id: str | None = None
    error: str | None = None


def given(value: Any) -> Given:
    """What a tool gave, out of the message of LangChain or LlamaIndex where it stands in one."""
    told = structure_of(value)
    if isinstance(told, dict) and told.keys() >= _TOOL_OUTPUT:
        output = told["raw_output"]
        return Given(output, None, _as_text(output) if told.get("is_error") is True else None)
    if not _is_tool_message(told):
        return Given(told)
    part = next((part for part in said(None, told, "tool").parts if part["type"] == "tool-result"), None)
    if part is None:
        return Given(told)
    output = part["output"]
    return Given(output, part["toolCallId"], _as_text(output) if part["error"] else None)


def called_with(value: Any) -> Any:
    """What a function was called with: its named arguments where it has no others."""
    told = structure_of(value)
    if isinstance(told, dict) and "kwargs" in told and told.keys() <= {"args", "kwargs"} and not told.get("args"):
        return told["kwargs"]
    return told


def catalog(definitions: Iterable[Any]) -> str | None:
    """A catalog of tools as one JSON list, each definition to the letter where it is a JSON text."""
    pieces = [each if _is_json(each) else canonical(each).decode() for each in definitions if each]
    return f"[{','.join(pieces)}]" if pieces else None


def state_messages(state: Any, role: Role) -> tuple[Said, ...] | None:
    """The messages of what a chain or a graph was handed (`role` user) or gave (assistant).

    A graph gives back the whole conversation: its answer is what follows the last thing that a user said.
    """
    messages = state.get("messages") if isinstance(state, dict) else None
    if not isinstance(messages, list):
        return None
    told = conversation([_paired(each) for each in messages], role) or ()
    asked = [place for place, each in enumerate(told) if each.role == "user"] if role == "assistant" else []
    return told[asked[-1] + 1 if asked else 0 :] or None


def amount(told: Mapping[str, Any], *keys: str) -> float | None:
    """The first of these that is a number from 0 on."""
    return next((found for key in keys if (found := number(told, key)) is not None and found >= 0), None)


def notes_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What an application noted, without what LangChain notes for itself."""
    return {key: value for key, value in metadata.items() if not key.startswith(_NOTES)}


def _paired(message: Any) -> Any:
    """LangChain takes `["user", "…"]` for a message."""
    if isinstance(message, list) and len(message) == 2 and isinstance(message[0], str):
        return {"role": message[0], "content": message[1]}
    return message


def _as_text(output: Any) -> str:
    return output if isinstance(output, str) else canonical(output).decode()


def _is_json(value: Any) -> bool:
    return isinstance(value, str) and json_of(value) is not None


def _is_tool_message(told: Any) -> bool:
    if not isinstance(told, dict):
        return False
    kwargs = told.get("kwargs")
    return told.get("type") == "tool" or ("lc" in told and isinstance(kwargs, dict) and kwargs.get("type") == "tool")
