"""The parts of a message, whoever wrote them, into those that `Said` holds.

Nothing is lost: what nobody here knows becomes `data-<type>` with all that it said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dashcam.dialects.otlp.values import structure_of, text

Part = dict[str, Any]

_TEXTS = ("text", "input_text", "output_text", "summary_text", "refusal")
_THOUGHTS = ("reasoning", "thinking", "thought")
_CALLS = (
    *("tool_call", "tool-call", "tool_use", "function_call", "function", "custom_tool_call"),
    *("server_tool_call", "server_tool_use", "mcp_tool_use", "mcp_call"),
)
_RESULTS = (
    *("tool_call_response", "tool-result", "tool-error", "tool_result", "function_call_output"),
    *("custom_tool_call_output", "server_tool_call_response", "mcp_tool_result"),
)
_FILES = (
    *("blob", "file", "uri", "image", "image_url", "input_image", "input_audio", "input_file"),
    *("document", "media", "audio", "video"),
)
_FILE_KEYS = ("source", "file", "image_url", "input_audio")
_RESULT_KEYS = ("response", "result", "output", "content", "server_tool_call_response")
_INPUT_KEYS = ("arguments", "input", "args", "parameters", "rawInput", "server_tool_call")
_ID_KEYS = ("toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "call_id", "callId", "id")
_NAME_KEYS = ("toolName", "tool_name", "name")


def parts_of(content: Any) -> list[Part]:
    """The parts of a message's content: a text, a block, or a list of both."""
    if content is None or content == "":
        return []
    if isinstance(content, list):
        return [part for each in content if each is not None for part in _part(each)]
    if isinstance(content, dict) and isinstance(content.get("parts"), list):  # Gemini's Content
        return [part for each in content["parts"] if each is not None for part in _part(each)]
    return _part(content)


def tool_calls_of(message: Mapping[str, Any]) -> list[Part]:
    """The calls that stand beside the content, as OpenAI and LangChain have them."""
    extra = message.get("additional_kwargs")
    calls = message.get("tool_calls") or (extra.get("tool_calls") if isinstance(extra, dict) else None)
    found = [_call(each) for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []
    single = message.get("function_call")
    return found + ([_call(single)] if isinstance(single, dict) and not found else [])


def output_of(value: Any) -> Any:
    """What a tool gave: blocks that are nothing but text as that text, an AI SDK output as its value."""
    if isinstance(value, dict) and "value" in value and isinstance(value.get("type"), str):
        return output_of(value["value"]) if value["type"] == "content" else value["value"]
    if isinstance(value, list) and value and all(_is_block(each) for each in value):
        texts = [each for each in map(_plain, value) if each is not None]
        return "\n".join(texts) if len(texts) == len(value) else value
    return value


def _is_block(value: Any) -> bool:
    """A block of a message, and not some record of the tool's own that happens to have a text."""
    return isinstance(value, dict) and ("type" in value or value.keys() == {"text"})


def _part(value: Any) -> list[Part]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}] if value else []
    if not isinstance(value, dict):
        return [_data("value", value)]
    kind = value.get("type")
    if not isinstance(kind, str):
        return _untyped(value)
    read = _READERS.get(kind)
    if read is not None:
        return [read(value)]
    if (kind.startswith("tool-") or kind == "dynamic-tool") and "toolCallId" in value:
        return _tool_of_a_page(kind, value)
    return [_data(kind, value)]


def _untyped(value: Mapping[str, Any]) -> list[Part]:
    """Gemini and Bedrock name a part by its only member."""
    words = value.get("text")
    if isinstance(words, str):
        return [{"type": "reasoning" if value.get("thought") is True else "text", "text": words}]
    for key, read in _MEMBERS.items():
        member = value.get(key)
        if isinstance(member, dict):
            return [read(member)]
    if value.keys() == {"content"}:
        return [{"type": "text", "text": each} for each in [value["content"]] if isinstance(each, str)] or [
            _data("content", value["content"])
        ]
    if len(value) == 1:
        key = next(iter(value))
        return [_data(key, value[key])]
    return [_data("part", dict(value))]


def _data(name: str, value: Any) -> Part:
    return {"type": f"data-{name}", "data": value}


def _plain(block: Any) -> str | None:
    """The text of a block that has nothing else."""
    if isinstance(block, str):
        return block
    if not isinstance(block, dict) or block.get("type", "text") not in _TEXTS:
        return None
    words = block.get("text", block.get("content"))
    return words if isinstance(words, str) else None


def _text(block: Mapping[str, Any]) -> Part:
    words = next((block[key] for key in ("text", "content", "refusal") if isinstance(block.get(key), str)), None)
    return _data(str(block.get("type")), dict(block)) if words is None else {"type": "text", "text": words}


def _thought(block: Mapping[str, Any]) -> Part:
    for key in ("content", "thinking", "text", "reasoning", "summary"):
        words = block.get(key)
        if isinstance(words, list):
            words = "\n\n".join(each for each in map(_plain, words) if each)
        if isinstance(words, str) and words:
            return {"type": "reasoning", "text": words}
    return _data("reasoning", dict(block))  # a signature, or thoughts that are locked


def _bedrock_thought(block: Mapping[str, Any]) -> Part:
    content = block.get("content")  # Strands names its type and puts it there
    block = content if isinstance(content, dict) else block
    inner = block.get("reasoningText")
    return _thought(inner if isinstance(inner, dict) else block)


def _call(block: Mapping[str, Any]) -> Part:
    """A call. Arguments that are a JSON text are decoded."""
    function = block.get("function")
    named = function if isinstance(function, dict) else block
    arguments = next((named[key] for key in _INPUT_KEYS if named.get(key) is not None), None)
    return {
        "type": "tool-call",
        "toolCallId": text(block, *(_ID_KEYS if block.get("type") != "function_call" else ("call_id", *_ID_KEYS))),
        "toolName": text(named, *_NAME_KEYS) or "",
        "input": structure_of(arguments),
    }


def _result(block: Mapping[str, Any]) -> Part:
    given = next((block[key] for key in _RESULT_KEYS if block.get(key) is not None), block.get("error"))
    kind = given.get("type") if isinstance(given, dict) else None
    failed = block.get("is_error") is True or block.get("isError") is True or block.get("status") == "error"
    failed = failed or block.get("type") == "tool-error" or (isinstance(kind, str) and kind.startswith("error-"))
    return {
        "type": "tool-result",
        "toolCallId": text(block, *_ID_KEYS),
        "toolName": text(block, *_NAME_KEYS),
        "output": output_of(given),
        "error": failed,
    }


def _tool_of_a_page(kind: str, block: Mapping[str, Any]) -> list[Part]:
    """A tool part of an AI SDK UIMessage: the call, and its result where there is one."""
    named = {**block, "toolName": text(block, "toolName") or kind.removeprefix("tool-")}
    state = block.get("state")
    if state not in ("output-available", "output-error"):
        return [_call(named)]
    failed = state == "output-error"
    output = block.get("errorText") if failed else block.get("output")
    result = _result({"toolCallId": block["toolCallId"], "toolName": named["toolName"]})
    return [_call(named), {**result, "output": output, "error": failed}]


def _file(block: Mapping[str, Any]) -> Part:
    """A file: where it is, or all of it as a data: URL."""
    kind = str(block.get("type"))
    inner = next((block[key] for key in _FILE_KEYS if isinstance(block.get(key), dict)), None)
    place = {**(inner or {}), **{key: value for key, value in block.items() if isinstance(value, str)}}
    media = text(place, "mime_type", "mimeType", "mediaType", "media_type") or _media(text(block, "modality") or kind)
    url = text(place, "uri", "url", "image_url", "fileUri", "file_uri", "file_url")
    content = text(place, "data", "content", "image", "file_data", "bytes")
    if url is None and content is not None:
        url = content if content.startswith(("data:", "http:", "https:")) else f"data:{media};base64,{content}"
    if url is None and (named := text(place, "file_id", "fileId")):
        url = f"file:{named}"
    return {"type": "file", "mediaType": media, "url": url} if url else _data(kind, dict(block))


def _media(kind: str) -> str:
    return next((f"{word}/*" for word in ("image", "audio", "video") if word in kind), "application/octet-stream")


def _function_response(block: Mapping[str, Any]) -> Part:
    """Gemini wraps what a tool gave: `output` or `result`, or `error`."""
    part, given = _result(block), block.get("response")
    if isinstance(given, dict) and len(given) == 1:
        key, value = next(iter(given.items()))
        if key in ("output", "result", "error"):
            part |= {"output": value, "error": key == "error"}
    return part


_READERS: dict[str, Callable[[Mapping[str, Any]], Part]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_THOUGHTS, _thought),
    **dict.fromkeys(_CALLS, _call),
    **dict.fromkeys(_RESULTS, _result),
    **dict.fromkeys(_FILES, _file),
    "reasoningContent": _bedrock_thought,
}
_MEMBERS: dict[str, Callable[[Mapping[str, Any]], Part]] = {
    **dict.fromkeys(("functionCall", "function_call", "toolUse"), _call),
    **dict.fromkeys(("functionResponse", "function_response"), _function_response),
    **dict.fromkeys(("toolResult",), _result),
    **dict.fromkeys(("inlineData", "inline_data", "fileData", "file_data"), _file),
    **dict.fromkeys(("reasoningContent",), _bedrock_thought),
}
