"""What a model was sent, from the form in which it was recorded into Pydantic AI's.

Read are the messages of Pydantic AI, of the AI SDK, of OpenAI's chat completions and of Anthropic. The kinds of
their parts have different names, so that one reader does for the last three.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from dashcam.record.pydantic_messages import WIRE as PYDANTIC_AI

_TEXTS = ("text", "input_text", "output_text", "refusal")
_FORCED = re.compile(rb'"force_download"\s*:\s*(?:true|"[^"]*")')
_URLS: dict[str, type[ImageUrl | AudioUrl | VideoUrl]] = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}
_NO_SIGNATURE = "a provider's own marks, which only it can read"

Part = Mapping[str, Any]


class Unconvertible(ValueError):
    """Something that was sent and can't be sent again: where it stands, and what it is."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(f"{place}: {what}")


class Converted(msgspec.Struct):
    """Messages to send, and what is not in them just as it was."""

    messages: list[ModelMessage]
    inexact: list[str]


def messages_from(wire: str, bodies: Sequence[bytes]) -> Converted:
    """The messages of a request; raises Unconvertible."""
    if wire == PYDANTIC_AI:
        try:
            messages = ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(map(_without_downloads, bodies)) + b"]")
            return Converted(messages, [])
        except ValidationError as error:
            raise Unconvertible("messages", f"not as Pydantic AI has them ({_first(error)})") from None
    reader = _Reader()
    for number, body in enumerate(bodies):
        reader.take(f"messages.{number}", _decoded(body))
    return Converted(reader.messages, reader.inexact)


def answer_from(wire: str, body: bytes) -> ModelResponse:
    """What a model answered; raises Unconvertible."""
    said = _decoded(body)
    match said:
        case {"choices": [{"message": dict(answer)}, *_]}:  # all of what OpenAI's API answers
            said = answer
    if wire == PYDANTIC_AI or (isinstance(said, dict) and said.get("kind") == "response"):
        converted = messages_from(PYDANTIC_AI, [body])
    else:
        reader = _Reader()
        reader.take("output", said if isinstance(said, dict) else {"role": "assistant", "content": said})
        converted = Converted(reader.messages, reader.inexact)
    for message in converted.messages:
        if isinstance(message, ModelResponse):
            return message
    raise Unconvertible("output", "no answer of a model")


class _Reader:
    """Takes messages of the AI SDK, OpenAI or Anthropic one by one."""

    def __init__(self) -> None:
        self.messages: list[ModelMessage] = []
        self.inexact: list[str] = []
        self._tools: dict[str, str] = {}  # by the ids of their calls: OpenAI's outcomes don't name them

    def take(self, place: str, message: Any) -> None:
        if not isinstance(message, dict):
            raise Unconvertible(place, "not an object")
        content = message.get("content")
        match message.get("role"):
            case "system" | "developer":
                self._ask([SystemPromptPart(_text_of(content, place))])
            case "user":
                self._ask(self._asked(content, f"{place}.content"))
            case "tool" | "function" if not _is_blocks(content, "tool-result"):
                self._ask([self._outcome({"content": content, **message}, place)])
            case "tool":
                self._ask([self._outcome(part, f"{place}.content.{at}") for at, part in enumerate(content or ())])
            case "assistant":
                parts = [*self._answered(content, f"{place}.content"), *self._called(message, place)]
                if parts:
                    self.messages.append(ModelResponse(parts))
            case other:
                raise Unconvertible(place, f"the role {other!r:.40} is not known")

    def _ask(self, parts: list[ModelRequestPart]) -> None:
        """What comes between two answers is one request: some providers take the outcomes of calls only together."""
        if self.messages and isinstance(last := self.messages[-1], ModelRequest):
            last.parts = [*last.parts, *parts]
        elif parts:
            self.messages.append(ModelRequest(parts))

    # The user

    def _asked(self, content: Any, place: str) -> list[ModelRequestPart]:
        if isinstance(content, str):
            return [UserPromptPart(content)]
        outcomes: list[ModelRequestPart] = []
        told: list[UserContent] = []
        for at, part in enumerate(_blocks(content, place)):
            here = f"{place}.{at}"
            if part.get("type") in ("tool_result", "tool-result"):
                outcomes.append(self._outcome(part, here))
            else:
                told.append(self._content(part, here))
        if len(told) == 1 and isinstance(told[0], str):
            return [*outcomes, UserPromptPart(told[0])]
        return [*outcomes, UserPromptPart(told)] if told else outcomes

    def _content(self, part: Part, place: str) -> UserContent:
        kind = part.get("type")
        if kind in _TEXTS:
            return _text_of(part.get("text"), place)
        if isinstance(kind, str) and kind.startswith("data-"):
            self.inexact.append(f"{place} is sent as text: what the host made of a {kind} is not known")
            return msgspec.json.encode({kind: part.get("data")}).decode()
        if kind in ("file", "image", "document", "image_url", "input_image"):
            return _file(part, place)
        if kind == "input_audio" and isinstance(audio := part.get("input_audio"), dict):
            return _binary(audio.get("data"), f"audio/{audio.get('format')}", place)
        raise Unconvertible(place, f"a part of the type {kind!r:.40}")

    def _outcome(self, part: Part, place: str) -> ToolReturnPart:
        ids = [part.get(name) for name in ("toolCallId", "tool_use_id", "tool_call_id")]
        call_id = next((each for each in ids if isinstance(each, str)), "")
        name = part.get("toolName") or part.get("name") or self._tools.get(call_id)
        if not isinstance(name, str):
            raise Unconvertible(place, "the outcome of a tool call that is not there")
        if part.get("type") == "tool-result":
            return _ai_sdk_outcome(name, call_id, part.get("output"))
        content = part.get("content")
        is_text = isinstance(content, list) and all(isinstance(b, dict) and b.get("type") in _TEXTS for b in content)
        if not (is_text or content is None or isinstance(content, str)):
            raise Unconvertible(place, "the outcome of a tool call that is no text")
        text = _text_of(content or "", place)
        return ToolReturnPart(name, text, call_id, outcome="failed" if part.get("is_error") else "success")

    # The model

    def _answered(self, content: Any, place: str) -> Iterator[ModelResponsePart]:
        if isinstance(content, str):
            yield TextPart(content)
            return
        for at, part in enumerate(_blocks(content, place)):
            yield from self._answer_part(part, f"{place}.{at}")

    def _answer_part(self, part: Part, place: str) -> Iterator[ModelResponsePart]:
        kind = part.get("type")
        if kind in _TEXTS:
            yield TextPart(_text_of(part.get("text", part.get("refusal")), place))
        elif kind in ("reasoning", "thinking"):
            yield self._thought(part, place)
        elif kind in ("tool-call", "tool_use") and not part.get("providerExecuted"):
            call_id = part.get("toolCallId", part.get("id"))
            yield self._call(part.get("toolName", part.get("name")), part.get("input"), call_id, place)
        elif kind in ("redacted_thinking", "file", "tool-call", "tool-result", "server_tool_use", "tool_result"):
            self.inexact.append(f"{place} is left out: what a provider ran or made itself")
        else:
            raise Unconvertible(place, f"a part of the type {kind!r:.40}")

    def _thought(self, part: Part, place: str) -> ThinkingPart:
        text = _text_of(part.get("text", part.get("thinking")), place)
        options = part.get("providerOptions")
        anthropic = options.get("anthropic") if isinstance(options, dict) else part
        signature = anthropic.get("signature") if isinstance(anthropic, dict) else None
        if isinstance(signature, str):
            return ThinkingPart(text, signature=signature, provider_name="anthropic")
        if options:
            self.inexact.append(f"{place} is sent without {_NO_SIGNATURE}")
        return ThinkingPart(text)

    def _called(self, message: Part, place: str) -> Iterator[ModelResponsePart]:
        calls = message.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                raise Unconvertible(f"{place}.tool_calls.{at}", "not a call of a function")
            here = f"{place}.tool_calls.{at}"
            yield self._call(function.get("name"), function.get("arguments"), call.get("id"), here)

    def _call(self, name: Any, given: Any, call_id: Any, place: str) -> ToolCallPart:
        if not isinstance(name, str) or not isinstance(call_id, str):
            raise Unconvertible(place, "a tool call without the tool's name or its id")
        self._tools[call_id] = name
        args = given if given is None or isinstance(given, dict | str) else msgspec.json.encode(given).decode()
        return ToolCallPart(name, args, call_id)


def _ai_sdk_outcome(name: str, call_id: str, output: Any) -> ToolReturnPart:
    told = output if isinstance(output, dict) else {"type": "json", "value": output}
    match told.get("type"):
        case "error-text" | "error-json":
            return ToolReturnPart(name, told.get("value"), call_id, outcome="failed")
        case "execution-denied":
            return ToolReturnPart(name, told.get("reason") or "The tool call was denied.", call_id, outcome="denied")
        case _:
            return ToolReturnPart(name, told.get("value"), call_id)


def _file(part: Part, place: str) -> UserContent:
    """A file of whichever form: a data URL, base64 beside its type, or an address."""
    inner = part.get("source") or part.get("file") or part.get("image_url") or part
    source: Part = inner if isinstance(inner, Mapping) else {"url": inner}
    names = ("url", "data", "image", "file_data")
    data: str | None = next((source[name] for name in names if isinstance(source.get(name), str)), None)
    media = source.get("media_type") or source.get("mediaType") or part.get("mediaType")
    media = media if isinstance(media, str) else "image/*" if "image" in str(part.get("type")) else None
    if data is None:
        raise Unconvertible(place, "a file without its bytes or its address")
    if source.get("type") == "text":
        return data
    if data.startswith(("http://", "https://")):
        return _URLS.get((media or "").partition("/")[0], DocumentUrl)(data)
    return _binary(data, media, place)


def _binary(data: Any, media: str | None, place: str) -> BinaryContent:
    try:
        if str(data).startswith("data:"):
            return BinaryContent.from_data_uri(data)
        if media and "*" not in media:
            return BinaryContent(data=b64decode(data, validate=True), media_type=media)
    except (ValueError, TypeError):
        pass
    raise Unconvertible(place, "a file whose bytes can't be read")


def _blocks(content: Any, place: str) -> list[Part]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise Unconvertible(place, "neither text nor a list of parts")
    blocks: list[Part] = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    if not all(isinstance(part, dict) for part in blocks):
        raise Unconvertible(place, "a part that is no object")
    return blocks


def _is_blocks(content: Any, kind: str) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == kind for part in content)


def _text_of(content: Any, place: str) -> str:
    """Text, be it plain or in blocks."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in _blocks(content, place)]
    if not all(isinstance(text, str) for text in texts):
        raise Unconvertible(place, "not text")
    return "\n\n".join(map(str, texts))


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"[:200]


def _without_downloads(body: bytes) -> bytes:
    """Whether an address is fetched from here is for the model's own class to say, never for a recording."""
    return _FORCED.sub(b'"force_download":false', body)
