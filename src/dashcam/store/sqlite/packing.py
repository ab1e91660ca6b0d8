"""How the bodies of spans and log records are packed: zlib, with the words that most of them hold known beforehand.

A span alone is too short for zlib to learn from, so it is told what such spans say. Every stream that is packed so
names the dictionary (FDICT, RFC 1950), and needs it to the letter: WORDS never changes, a better one is another one.
"""

from __future__ import annotations

import zlib

_LEVEL = 2
_CRC = 4  # bytes

# What senders write, the most frequent last: the nearer, the cheaper it is to name.
_VALUES = (
    "https://api.anthropic.com https://api.openai.com/v1/ generativelanguage.googleapis.com bedrock "
    "Traceback (most recent call last):\n  File site-packages/ asyncio CancelledError TimeoutError RateLimitError "
    "xterm normal accept config interaction llm_request api_request tool_decision tool_result blocked_on_user "
    'responses embeddings text-embedding-3-small retriever RETRIEVER CHAIN AGENT TOOL LLM workflow task span generation '
    'application/json text/plain null true false gemini-2.5-flash gpt-5-mini gpt-4o-mini claude-opus-4-8 claude-sonnet-4-5 '
    'execute_tool invoke_agent create_agent google anthropic {"type": "object", "properties": {"description": "string"}, '
    '"required": [ "additionalProperties": false {"type":"function","function":{"name":"arguments":"{\\"parameters":'
    '{"role":"system","content":" {"role": "tool", "tool_call_id": "call_ toolu_ "tool_calls": [{"id": " '
    '{"type":"tool_call","id":"call_","name":"","arguments":{" {"type": "tool_call", "id": "call_", "name": "", "arguments": {" '
    '{"type":"tool_call_response","id":"call_","result":" {"type": "tool_call_response", "id": "call_", "response": " '
    '"model":"gpt-","messages":[{"role":"user","content":" "temperature": 0.0 "max_tokens": 1024 '
    '[{"role":"assistant","parts":[{"type":"text","content":""}],"finish_reason":"tool_call"}] '
    '[{"role":"user","parts":[{"type":"text","content":""}]}] the of and to in is that for it as with on be this are '
    '[{"role": "user", "parts": [{"type": "text", "content": "api.openai.com gpt-4.1-mini chatcmpl- openai chat stop '
    '[{"role": "assistant", "parts": [{"type": "text", "content": ""}], "finish_reason": "stop"}] '
)  # fmt: skip
_KEYS = """
llm_request.context speed attempt request_id ttft_ms stop_reason decision source tool_use_id full_command query_source
event.sequence event.timestamp event.name cost_usd duration_ms tool_name tool_input tool_parameters prompt.id prompt
input_tokens output_tokens cache_read_tokens cache_creation_tokens span.type terminal.type
code.filepath code.lineno code.function http.request.method http.response.status_code http.route url.full url.path
event_loop.cycle_id gen_ai.event.start_time gen_ai.event.end_time gen_ai.server.time_to_first_token
langfuse.observation.metadata.ls_model_name langfuse.observation.metadata.langgraph_node langfuse.trace.tags
langfuse.observation.cost_details langfuse.observation.completion_start_time langfuse.observation.level
langfuse.observation.model.parameters langfuse.observation.usage_details langfuse.observation.model.name
langfuse.trace.metadata. langfuse.observation.type langfuse.observation.input langfuse.observation.output
langfuse.trace.name langfuse.environment
traceloop.association.properties.user_id traceloop.association.properties.session_id traceloop.workflow.name
traceloop.entity.path traceloop.entity.name traceloop.entity.input traceloop.entity.output traceloop.span.kind
gen_ai.completion.0.tool_calls.0.arguments gen_ai.completion.0.finish_reason gen_ai.completion.0.content
gen_ai.completion.0.role gen_ai.prompt.0.content gen_ai.prompt.0.role llm.request.type llm.usage.total_tokens
ai.telemetry.functionId ai.settings.maxRetries ai.response.finishReason ai.response.toolCalls ai.response.text
ai.response.msToFirstChunk ai.response.id ai.response.model ai.prompt.messages ai.prompt.tools ai.toolCall.args
ai.toolCall.result ai.toolCall.name ai.toolCall.id ai.usage.promptTokens ai.usage.completionTokens ai.model.provider
ai.model.id ai.operationId operation.name resource.name
llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments llm.input_messages.1.message.tool_call_id
llm.output_messages.0.message.tool_calls.0.tool_call.function.name llm.tools.0.tool.json_schema
llm.output_messages.0.message.tool_calls.0.tool_call.id llm.invocation_parameters llm.token_count.prompt_details.cache_read
llm.token_count.completion_details.reasoning llm.token_count.completion llm.token_count.prompt llm.token_count.total
llm.output_messages.0.message.role llm.output_messages.0.message.content llm.input_messages.0.message.role
llm.input_messages.0.message.content llm.model_name llm.provider llm.system input.mime_type output.mime_type
input.value output.value openinference.span.kind metadata tag.tags tool.name tool.description
logfire.pending_parent_id logfire.span_type logfire.msg_template logfire.metrics logfire.json_schema logfire.msg
model_request_parameters pydantic_ai.all_messages pydantic_ai.new_message_index final_result model_name agent_name
pydantic_ai.cache.established_tokens pydantic_ai.cache.hit_ratio operation.cost gen_ai.agent.call.id
gen_ai.usage.details.cache_read_tokens gen_ai.usage.details.reasoning_tokens gen_ai.aggregated_usage.input_tokens
gen_ai.aggregated_usage.output_tokens exception.escaped exception.stacktrace exception.message exception.type exception
openai.response.system_fingerprint openai.api.type gen_ai.request.stream gen_ai.response.time_to_first_chunk
gen_ai.usage.reasoning.output_tokens gen_ai.usage.cache_creation.input_tokens gen_ai.usage.total_tokens
gen_ai.request.top_p gen_ai.output.type gen_ai.tool.description gen_ai.tool.call.arguments gen_ai.tool.call.result
gen_ai.tool.definitions gen_ai.system_instructions error.type gen_ai.agent.id user.id session.id
"""


# One after the other as one span has them, so that what stands between two keys is known, too.
_SPAN: tuple[tuple[str, str | int | list[str]], ...] = (
    ("gen_ai.operation.name", "execute_tool"),
    ("gen_ai.tool.name", "get_"),
    ("gen_ai.tool.call.id", "call_"),
    ("gen_ai.tool.type", "function"),
    ("gen_ai.operation.name", "invoke_agent"),
    ("gen_ai.agent.name", "agent"),
    ("gen_ai.request.temperature", ""),
    ("gen_ai.request.max_tokens", 1024),
    ("gen_ai.operation.name", "chat"),
    ("gen_ai.system", "openai"),
    ("gen_ai.provider.name", "openai"),
    ("gen_ai.request.model", "gpt-4o-mini"),
    ("gen_ai.response.model", "gpt-4o-mini"),
    ("gen_ai.response.id", "chatcmpl-"),
    ("gen_ai.conversation.id", ""),
    ("gen_ai.input.messages", '[{"role": "user", "parts": [{"type": "text", "content": "'),
    ("gen_ai.output.messages", '[{"role": "assistant", "parts": [{"type": "text", "content": "'),
    ("", '"}], "finish_reason": "stop"}]'),
    ("gen_ai.usage.input_tokens", 1024),
    ("gen_ai.usage.output_tokens", 1024),
    ("gen_ai.usage.cache_read.input_tokens", 1024),
    ("gen_ai.response.finish_reasons", ["stop"]),
    ("server.address", "api.openai.com"),
    ("server.port", 443),
)


def _as_key(key: str) -> bytes:
    """A key as it stands in the message KeyValue, from its tag to that of the value."""
    return b"\n" + bytes((len(key),)) + key.encode() + b"\x12"


def _as_attribute(key: str, value: str | int | list[str]) -> bytes:
    """An attribute of a span, with tags and lengths."""
    if isinstance(value, list):
        items = b"".join(_field(b"\n", _field(b"\n", item.encode())) for item in value)
        told = _field(b"*", items)
    elif isinstance(value, int):
        told = b"\x18" + bytes((value & 127 | 128, value >> 7))
    else:
        told = _field(b"\n", value.encode())
    return _field(b"J", _as_key(key) + bytes((len(told),)) + told)


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + bytes((len(body),)) + body


WORDS = _VALUES.encode() + b"".join(map(_as_key, _KEYS.split())) + b"".join(_as_attribute(*each) for each in _SPAN)


# Copied each time: that takes less time than to take in the dictionary again.
_primed = zlib.compressobj(_LEVEL, zdict=WORDS)


def pack(raw: bytes) -> bytes:
    """One zlib stream, and its CRC-32 after it: a stream has bits that no reader looks at."""
    unfinished = _primed.copy()
    stream = unfinished.compress(raw) + unfinished.flush()
    return stream + zlib.crc32(stream).to_bytes(_CRC, "big")


def unpack(stored: bytes) -> bytes:
    """What was packed; raises zlib.error if a bit of it has changed."""
    stream, check = stored[:-_CRC], stored[-_CRC:]
    if zlib.crc32(stream).to_bytes(_CRC, "big") != check:
        raise zlib.error("the packed bytes don't match their CRC-32")
    return zlib.decompressobj(zdict=WORDS).decompress(stream)
