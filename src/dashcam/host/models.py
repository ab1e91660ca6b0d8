"""Models by name, and what a request to one is made with beside its messages.

`provider:model` is any model that Pydantic AI knows, `scripted:FILE` answers from a file, `recorded` says again what
was recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from dashcam.errors import ModelFailed, SettingsError, UnreadableInput
from dashcam.views.catalog import tools_of

RECORDED, SCRIPTED = "recorded", "scripted:"

_NOT_TAKEN_OVER = frozenset(("extra_headers", "extra_body", "timeout"))
_KNOWN = frozenset(ModelSettings.__annotations__)
_ASIDE = frozenset(("model", "system", "stream", "stream_options", "instructions", "parameters"))
_ALIASES = {
    "maxOutputTokens": "max_tokens", "maxTokens": "max_tokens", "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens", "topP": "top_p", "topK": "top_k", "stop": "stop_sequences",
    "stopSequences": "stop_sequences", "presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty",
}  # fmt: skip
_PROVIDERS = ("openai_", "anthropic_", "google_", "groq_", "mistral_", "cohere_", "bedrock_", "openrouter_", "xai_")
# Of what Pydantic AI's recorder keeps of a request: what a new one can be made with.
_PARAMETERS = ("output_mode", "output_object", "prompted_output_template", "allow_text_output", "allow_image_output")
_WRAPPERS = ("function", "toolSpec")
_SCHEMAS = ("parameters_json_schema", "input_schema", "inputSchema", "parameters", "schema")


class BrokenOff(Exception):
    """A recorded answer that failed: why, what had been said until then, and whether it was cut in the middle."""

    def __init__(self, error: str, said: Sequence[ModelResponsePart] = (), *, is_cut: bool = False) -> None:
        super().__init__(error)
        self.said, self.is_cut = said, is_cut


class Played(FunctionModel):
    """A model whose answers are known beforehand, one a request: said, or raised. Nothing is spent on it."""

    def __init__(self, answers: Sequence[ModelResponse | Exception], source: str) -> None:
        super().__init__(self._next, stream_function=self._stream, model_name=source)
        self._answers, self._source, self._asked = answers, source, 0

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self._asked += 1
        if self._asked > len(self._answers):
            raise ModelFailed(
                f"{self._source} has {len(self._answers)} answers, and the model was asked once more. Give it another, "
                "or choose a model with --model."
            )
        answer = self._answers[self._asked - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for index, part in enumerate(self._next(messages, info).parts):
            if isinstance(part, TextPart):
                yield part.content
            elif isinstance(part, ThinkingPart):
                yield {index: DeltaThinkingPart(content=part.content, signature=part.signature)}
            elif isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}


def open_model(name: str) -> Model:
    """The model of this name; raises ModelFailed where it can't be asked."""
    if name.startswith(SCRIPTED):
        return Played(script(Path(name.removeprefix(SCRIPTED))), name)
    try:
        return infer_model(name)
    except Exception as error:  # each provider has errors of its own for a key that isn't there
        raise ModelFailed(
            f"The model {name!r} can't be used: {str(error).rstrip('.')}. Name another with --model provider:model, or play the recorded "
            "answers with --model recorded."
        ) from error


def script(path: Path) -> list[ModelResponse | Exception]:
    """The answers of a script: a JSON list, each of them a part or a list of parts."""
    try:
        items = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UnreadableInput(f"{path} can't be read: {error.strerror}. Name a file with: scripted:FILE") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{path} is no JSON: {error}. Write a list of answers.") from error
    if not isinstance(items, list):
        raise UnreadableInput(f"{path} holds no list. Write a list of answers.")
    return [_scripted(item, f"{path}, answer {number}") for number, item in enumerate(items, 1)]


def _scripted(item: Any, place: str) -> ModelResponse | Exception:
    parts = item if isinstance(item, list) else [item]
    made: list[ModelResponsePart] = []
    for part in parts:
        match part:
            case {"error": str(error)}:
                return ModelFailed(error)
            case {"text": str(text)}:
                made.append(TextPart(text))
            case {"reasoning": str(text)}:
                made.append(ThinkingPart(text))
            case {"tool": str(tool), **rest}:
                given, call_id = rest.get("input"), rest.get("id")
                args = given if given is None or isinstance(given, dict) else msgspec.json.encode(given).decode()
                call = ToolCallPart(tool, args)
                made.append(replace(call, tool_call_id=call_id) if isinstance(call_id, str) else call)
            case _:
                raise UnreadableInput(f'{place}: write {{"text": …}}, {{"tool": …, "input": …}} or {{"error": …}}.')
    return ModelResponse(made)


def settings_from(settings: Mapping[str, Any], given: Container[str] = ()) -> tuple[ModelSettings, list[str]]:
    """Recorded settings as Pydantic AI has them, and what of them is left out. `given` are those of the command line."""
    found: dict[str, Any] = {}
    unknown = []
    for name, value in settings.items():
        known = _ALIASES.get(name, name)
        if known in _NOT_TAKEN_OVER and name not in given:
            unknown.append(f"settings.{name} is left out: where and how a request is sent isn't for a recording to say")
        elif is_setting(known):
            found[known] = [value] if known == "stop_sequences" and isinstance(value, str) else value
        elif name not in _ASIDE:
            unknown.append(f"settings.{name} is left out: not a setting of Pydantic AI")
    return cast("ModelSettings", found), unknown


def is_setting(name: str) -> bool:
    return name in _KNOWN or name.startswith(_PROVIDERS)


def check_settings(names: Sequence[str]) -> None:
    """Raise SettingsError for the first of these names that no model would hear of."""
    for name in names:
        first = name.partition(".")[0]
        if not is_setting(_ALIASES.get(first, first)):
            raise SettingsError(
                f"There is no setting {first!r:.60}. Those are: {', '.join(sorted(_KNOWN))}; anything else that a "
                "provider takes goes in as extra_body.NAME."
            )


def parameters_from(catalog: str | None, settings: Mapping[str, Any]) -> tuple[ModelRequestParameters, list[str]]:
    """The tools that a model is offered and the form of its output; and what can't be offered again."""
    function_tools: list[ToolDefinition] = []
    output_tools: list[ToolDefinition] = []
    inexact: list[str] = []
    for name, tool in tools_of(catalog or "").items():
        definition = _definition(name, tool)
        if definition is None:
            inexact.append(f"tools.{name} is left out: a tool of the provider's own")
            continue
        if not definition.parameters_json_schema.get("properties") and not _schema(tool):
            inexact.append(f"tools.{name} is offered without its parameters: they were not recorded")
        is_output = isinstance(tool, dict) and tool.get("kind") == "output"
        (output_tools if is_output else function_tools).append(definition)
    told = settings.get("parameters")
    kept = {name: told[name] for name in _PARAMETERS if told.get(name) is not None} if isinstance(told, dict) else {}
    try:
        more = TypeAdapter(ModelRequestParameters).validate_python(kept)
    except ValidationError:
        more = ModelRequestParameters()
        inexact.append("settings.parameters are left out: not as Pydantic AI has them")
    more.function_tools, more.output_tools = function_tools, output_tools
    return more, inexact


def _definition(name: str, tool: Any) -> ToolDefinition | None:
    told = tool if isinstance(tool, dict) else {}
    if told.get("kind") == "native" or (not _schema(told) and told.get("type") not in (None, "function", "custom")):
        return None
    inner = next((told[key] for key in _WRAPPERS if isinstance(told.get(key), dict)), told)
    description = inner.get("description")
    return ToolDefinition(
        name=inner["name"] if isinstance(inner.get("name"), str) else name,
        description=description if isinstance(description, str) else None,
        parameters_json_schema=_schema(told) or {"type": "object", "properties": {}},
    )


def _schema(tool: Any) -> dict[str, Any] | None:
    """The JSON schema of a tool's input, wherever its provider puts it."""
    if not isinstance(tool, dict):
        return None
    inner = next((tool[key] for key in _WRAPPERS if isinstance(tool.get(key), dict)), tool)
    found: dict[str, Any] | None = next((inner[key] for key in _SCHEMAS if isinstance(inner.get(key), dict)), None)
    for key in ("json", "jsonSchema"):
        if found and isinstance(found.get(key), dict):
            found = found[key]
    return found
