"""A model call as a span in the words of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import object_of
from dashcam.contracts.identity import is_otel_span_id, otel_trace_id, root_span_id
from dashcam.exports.otlp_values import attributes, derived_span_id, ns_of

CLIENT = 3  # SpanKind
_ERROR = 2  # StatusCode
_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "frequency_penalty", "presence_penalty")


def call_span(call: ModelCall, place: int, common: Mapping[str, Any]) -> dict[str, Any]:
    """The span of a call: it ended when it was recorded, and began as long before as it took."""
    parent = call.span_id or root_span_id(call.trace_id)
    end = ns_of(call.ts)
    start = end - round(min(max(call.duration_ms or 0.0, 0.0) * 1e6, end))
    return {
        "traceId": otel_trace_id(call.trace_id),
        "spanId": derived_span_id(call.trace_id, "model_call", call.step, call.ts, place),
        "parentSpanId": parent if is_otel_span_id(parent) else derived_span_id(call.trace_id, parent),
        "name": f"chat {call.model}",
        "kind": CLIENT,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": attributes({**common, **_told(call)}),
        "events": [],
        "status": {"code": _ERROR, "message": call.error} if call.error else {},
    }


def _told(call: ModelCall) -> dict[str, Any]:
    settings = object_of(call.settings)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
        **{f"gen_ai.request.{name}": settings[name] for name in _SETTINGS if name in settings},
        "gen_ai.response.id": call.response_id,
        "gen_ai.response.finish_reasons": [call.stop_reason] if call.stop_reason else None,
        # The conventions count what the cache served and took as input, and reasoning as output; we don't.
        "gen_ai.usage.input_tokens": _sum(call.input_tokens, call.cache_read, call.cache_write),
        "gen_ai.usage.output_tokens": _sum(call.output_tokens, call.reasoning_tokens),
        "gen_ai.usage.cache_read.input_tokens": call.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write,
        "gen_ai.usage.reasoning.output_tokens": call.reasoning_tokens,
        "error.type": "error" if call.error else None,
        "dashcam.step": call.step,
        "dashcam.kind": call.kind,
        "dashcam.message_id": call.message_id,
        "dashcam.cost_usd": call.cost_usd,
        "dashcam.first_token_ms": call.first_token_ms,
        "dashcam.system_prompt_digest": call.system_prompt_digest,
        "dashcam.tool_catalog_digest": call.tool_catalog_digest,
        "dashcam.context_digest": call.context_digest,
        "dashcam.output_digest": call.output_digest,
    }


def _sum(known: int | None, *more: int | None) -> int | None:
    """Unknown stays unknown."""
    return None if known is None else known + sum(each or 0 for each in more)
