"""OpenInference: spans by `openinference.span.kind`, messages flattened into one attribute for each of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.frameworks import amount, called_with, catalog, given, notes_of, state_messages
from dashcam.dialects.otlp.messages import conversation, system_text
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, Role, Said, SpanView
from dashcam.dialects.otlp.values import (
    count,
    json_of,
    listed,
    name,
    session_of,
    stop_reason,
    structure_of,
    text,
    usage_within,
    user_of,
)  # fmt: skip

_KINDS: dict[str, Kind] = {
    "LLM": "model",
    "TOOL": "tool",
    "AGENT": "agent",
    "CHAIN": "agent",
    "RETRIEVER": "retrieval",
    "RERANKER": "retrieval",
}
_MARKS = ("llm.model_name", "llm.token_count.total", "llm.input_messages.0.message.role")
_MODELS = ("llm.response.model_name", "llm.model_name", "llm.request.model_name", "embedding.model_name")
_BEGINS = "First Token Stream Event"
_PREPARES = "._prepare_chat_with_tools"  # LlamaIndex calls that a model call, too
_NODES = ("graph.node.name", "graph.node.id")
_BLOCKS = ("tool_use", "tool_result", "reasoning", "thinking")
_FILES = ("image", "audio", "video", "document")
_TOLD_ELSEWHERE = frozenset(
    ("tools", "messages", "input", "prompt", "system", "instructions", "model", "model_name", "_type", "id")
)


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    told = view.attributes
    named = text(told, "openinference.span.kind")
    if named is None and not any(mark in told for mark in _MARKS):
        return None
    kind: Kind = _KINDS.get((named or "LLM").upper(), "span")
    if kind == "model" and view.name.endswith(_PREPARES):
        kind = "span"
    whose: dict[str, Any] = {
        "kind": kind,
        "dialect": "openinference",
        "session_id": session_of(told),
        "user_id": user_of(told),
        "agent": text(told, "agent.name", *(_NODES if named == "AGENT" else ())),
        "metadata": _metadata(told),
    }
    if kind == "tool":
        return Reading(**whose, **_tool(view))
    if kind == "retrieval":
        return Reading(**whose, **_retrieval(told))
    return Reading(**whose, **_call(view, kind))


def _call(view: SpanView, kind: Kind) -> dict[str, Any]:
    """A model call; an agent repeats what those below it say, as far as it goes."""
    told = view.attributes
    answer = json_of(told.get("output.value")) if kind == "model" else None
    settings = json_of(told.get("llm.invocation_parameters"))
    settings = settings if isinstance(settings, dict) else {}
    request = json_of(told.get("input.value"))
    asked, answered = _input(view, kind, request), _output(view, kind, answer)
    alone = asked is None or all(each.role != "system" for each in asked)
    return {
        "provider": text(told, "llm.provider", "llm.system"),
        "model": text(told, *_MODELS) or text(settings, "model", "model_name"),
        "settings": {key: value for key, value in settings.items() if key not in _TOLD_ELSEWHERE} or None,
        "system": system_text(settings.get("system") or _at(request, "system")) if alone and kind == "model" else None,
        "tools": _tools(told, settings),
        "input": asked,
        "output": answered,
        "usage": _usage(told),
        "cost_usd": amount(told, "llm.cost.total"),
        "response_id": _response_id(answer),
        "stop_reason": stop_reason([text(told, "llm.finish_reason"), _finish(answer)]),
        "first_token_ms": _first_token(view),
    }


def _tool(view: SpanView) -> dict[str, Any]:
    told = view.attributes
    result = given(told.get("output.value"))
    arguments = told.get("input.value")
    return {
        "tool": text(told, "tool.name", "tool_call.function.name") or view.name or None,
        "call_id": name(told, "tool_call.id", "tool.id") or result.call_id,
        "arguments": called_with(told.get("tool.parameters") if arguments is None else arguments),
        "result": result.result,
        "error": result.error,
    }


def _retrieval(told: Mapping[str, Any]) -> dict[str, Any]:
    found = _documents(told, "retrieval.documents") or _documents(told, "reranker.output_documents")
    return {
        "model": text(told, "reranker.model_name"),
        "arguments": structure_of(told.get("input.value", told.get("reranker.query"))),
        "result": found or structure_of(told.get("output.value")),
    }


def _documents(told: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    entries = listed(told, prefix)
    return [{key.removeprefix("document."): structure_of(value) for key, value in each.items()} for each in entries]


def _input(view: SpanView, kind: Kind, request: Any) -> tuple[Said, ...] | None:
    told = view.attributes
    value = told.get("input.value")
    if isinstance(request, dict) and _has_blocks(request.get("messages")):
        return conversation(value)
    messages = _messages(told, "llm.input_messages") or _prompts(told)
    if messages is None or not any(each.parts for each in messages):  # LangGraph tells of a dict no more than the role
        return _whole(view, "input", kind)
    # OpenAI's agents: a question that is one text stands outside of the messages.
    missing = kind == "model" and all(each.role == "system" for each in messages)
    return messages + (conversation(value) or ()) if missing and not isinstance(request, dict | list) else messages


def _output(view: SpanView, kind: Kind, answer: Any) -> tuple[Said, ...] | None:
    told = view.attributes
    if _at(answer, "type") == "message" and isinstance(_at(answer, "content"), list):  # Anthropic's, as a whole
        return conversation(told.get("output.value"), "assistant")
    made = _made(answer)
    if isinstance(_at(made, "kwargs", "content"), list):  # LangChain's, with blocks that go missing when flattened
        return conversation([made], "assistant")
    return _messages(told, "llm.output_messages", "assistant") or _choices(told) or _whole(view, "output", kind)


def _has_blocks(messages: Any) -> bool:
    """Whether these are Anthropic's, or LangChain's, with blocks that go missing when flattened.

    What a tool gave stands there as the words of a user, without the call that it answers; of several texts the last.
    """
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], list):  # LangChain's batch of one
        messages = messages[0]
    told = [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    contents = [each.get("content", _at(each, "kwargs", "content")) for each in told]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return any(isinstance(block, dict) and block.get("type") in _BLOCKS for block in blocks)


def _messages(told: Mapping[str, Any], prefix: str, role: Role = "user") -> tuple[Said, ...] | None:
    return conversation([_message(each) for each in listed(told, prefix)], role)


def _message(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A flattened message as OpenAI writes it."""
    message = {
        key: value
        for key in ("role", "content", "name", "tool_call_id")
        if (value := flat.get(f"message.{key}")) is not None
    }
    blocks = [_block(each) for each in listed(flat, "message.contents")]
    if blocks:  # some tell the text of their only block again beside it
        words = message.get("content")
        alone = [words] if words and all(block.get("text") != words for block in blocks) else []
        message["content"] = [*alone, *blocks]
    calls = [_tool_call(each) for each in listed(flat, "message.tool_calls")]
    if calls:
        message["tool_calls"] = calls
    elif called := text(flat, "message.function_call_name"):
        arguments = flat.get("message.function_call_arguments_json")
        message["function_call"] = {"name": called, "arguments": arguments}
    return message


def _tool_call(flat: Mapping[str, Any]) -> dict[str, Any]:
    function = {key: flat.get(f"tool_call.function.{key}") for key in ("name", "arguments")}
    return {"id": flat.get("tool_call.id"), "type": "function", "function": function}


def _block(flat: Mapping[str, Any]) -> dict[str, Any]:
    """One piece of a message's content. A file's values are flattened once more."""
    block = {key.removeprefix("message_content."): value for key, value in flat.items()}
    for kind in _FILES:
        start = f"{kind}.{kind}."
        inner = {key.removeprefix(start): value for key, value in block.items() if key.startswith(start)}
        if inner:
            return {"type": kind, "source": inner}
    return block


def _prompts(told: Mapping[str, Any]) -> tuple[Said, ...] | None:
    """What a model that completes text was sent."""
    plain = told.get("llm.prompts")
    texts = plain if isinstance(plain, list) else [each.get("prompt.text") for each in listed(told, "llm.prompts")]
    return conversation([each for each in texts if isinstance(each, str) and each])


def _choices(told: Mapping[str, Any]) -> tuple[Said, ...] | None:
    texts = [each.get("completion.text") for each in listed(told, "llm.choices")]
    return conversation([each for each in texts if isinstance(each, str) and each], "assistant")


def _whole(view: SpanView, side: str, kind: Kind) -> tuple[Said, ...] | None:
    """The value as a whole, where nobody told its messages apart and it is known to be some."""
    role: Role = "user" if side == "input" else "assistant"
    value = view.attributes.get(f"{side}.value")
    decoded = json_of(value)
    if isinstance(decoded, dict):
        found = state_messages(decoded, role) or conversation(_inner(decoded, kind), role)
        return found or (conversation(value, role) if kind == "model" else None)
    speaks = kind == "model" or text(view.attributes, "openinference.span.kind") == "AGENT"
    return conversation(value, role) if speaks and (kind == "model" or not isinstance(decoded, list)) else None


def _inner(whole: Mapping[str, Any], kind: Kind) -> Any:
    """What a request, an answer or a chain's state says, where that is a text or a provider's list."""
    choices = whole.get("choices")
    if isinstance(choices, list):
        return [each.get("message") for each in choices if isinstance(each, dict)]
    spoken = (str, list) if kind == "model" else (str,)
    return next((whole[key] for key in ("input", "output") if isinstance(whole.get(key), spoken)), None)


def _tools(told: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    entries = [each.get("tool.json_schema") for each in listed(told, "llm.tools")]
    asked = settings.get("tools")
    return catalog(entries) or catalog(asked if isinstance(asked, list) else [])


def _usage(told: Mapping[str, Any]) -> Usage | None:
    """Prompt holds the cache's tokens, completion those of reasoning."""
    start = "llm.token_count."
    details = start + "prompt_details."
    return usage_within(
        count(told, start + "prompt"),
        count(told, start + "completion"),
        read=count(told, details + "cache_read", details + "cache_input"),
        write=count(told, details + "cache_write"),
        reasoning=count(told, start + "completion_details.reasoning"),
    )


def _response_id(answer: Any) -> str | None:
    """The id of an answer, as the provider or LangChain tells it."""
    made = _at(_made(answer), "kwargs", "response_metadata")
    places = (answer, _at(answer, "llm_output"), _at(answer, "response_metadata"), made)
    return next((found for each in places if isinstance(each, dict) and (found := text(each, "id"))), None)


def _finish(answer: Any) -> Any:
    made = _at(_made(answer), "kwargs")
    told = _at(answer, "choices", 0, "finish_reason") or _at(answer, "stop_reason")
    told = told or _at(answer, "generations", 0, 0, "generation_info", "finish_reason")
    told = told or _at(made, "response_metadata", "finish_reason") or _at(made, "response_metadata", "stop_reason")
    if told is not None:
        return told
    items = _at(answer, "output")  # OpenAI's Responses say that they are complete, whatever follows
    called = isinstance(items, list) and any(_at(each, "type") == "function_call" for each in items)
    status = _at(answer, "status") or _at(made, "response_metadata", "status")
    return "tool_calls" if called or (status and _at(made, "tool_calls")) else status


def _made(answer: Any) -> Any:
    """LangChain's message, in what it keeps of an answer."""
    return _at(answer, "generations", 0, 0, "message")


def _at(value: Any, *path: str | int) -> Any:
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value


def _first_token(view: SpanView) -> float | None:
    first = next((event.at_ns for event in view.events if event.name == _BEGINS), None)
    return None if first is None or first < view.start_ns else (first - view.start_ns) / 1e6


def _metadata(told: Mapping[str, Any]) -> dict[str, Any] | None:
    said = json_of(told.get("metadata"))
    tags = told.get("tag.tags")
    kept = notes_of(said) if isinstance(said, dict) else {}
    return kept | ({"tags": tags} if isinstance(tags, list) and tags else {}) or None
