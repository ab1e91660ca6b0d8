"""A model call: one request to a model, and what came back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Id = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]

OTLP = "otlp"  # the `wire` of a call that came as a span: what its context and its output name stands in that span


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `model_calls`, derived from the log.

    Rules: the five token counts never overlap (`input_tokens` excludes what the cache served or
    took); None means unknown and is never written as 0; the digests lead to the exact request.
    """

    session_id: Id
    trace_id: Id
    step: Count
    kind: Id
    ts: int
    span_id: str | None = None
    message_id: str | None = None  # the chat message that the answer is part of
    provider: str | None = None
    model: Id
    settings: str = "{}"  # all of the request that is neither prompt nor tools nor messages, as JSON
    wire: str | None = None  # whose form the messages have: pydantic-ai, ai-sdk, or what the caller says
    system_prompt_digest: str | None = None
    tool_catalog_digest: str | None = None
    context_digest: str | None = None
    envelope_digest: str | None = None  # what stood around the messages of a request that was handed over as sent
    output_digest: str | None = None  # the answer: a content, like the messages
    response_id: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    cache_read: Count | None = None
    cache_write: Count | None = None
    cost_usd: float | None = None
    first_token_ms: float | None = None
    duration_ms: float | None = None
    stop_reason: str | None = None
    error: str | None = None
    redacted: bool = False
    redacted_paths: str = "[]"  # where, as JSON
