"""The model calls of a trace as rows, and what they cost."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from dashcam.contracts.call import OTLP, ModelCall
from dashcam.contracts.chat import USAGE, Usage
from dashcam.dialects.otlp.reading import SpanView
from dashcam.record.prices import cost_of
from dashcam.record.spanned import answer_of, context_of
from dashcam.record.trace_steps import Step
from dashcam.record.trace_threads import Call, digest_of_text, json_text

_SLOT = 1800  # seconds: some prices change with the hour
_PROBE = 1000  # tokens
_FLAT = 16_000  # tokens of context: below it no price list has a tier
_COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read", "cache_write")


def model_call(
    call: Call, *, session_id: str, trace_id: str, place: int, kind: str, message_id: str | None
) -> ModelCall:
    step, reading = call.step, call.step.reading
    usage: dict[str, Any] = {}
    if reading.usage is not None:
        usage = {name: getattr(reading.usage, source) for name, source in zip(_COUNTS, USAGE, strict=True)}
    is_timed = not (step.is_log or step.running)
    return ModelCall(
        session_id=session_id,
        trace_id=trace_id,
        step=place,
        kind=kind,
        ts=step.start // 1000,
        span_id=step.span_id,
        message_id=message_id,
        provider=reading.provider,
        model=reading.model or "unknown",
        settings=json_text(reading.settings) if reading.settings else "{}",
        wire=OTLP,
        system_prompt_digest=digest_of_text(call.system) if call.system else None,
        tool_catalog_digest=digest_of_text(reading.tools) if reading.tools else None,
        context_digest=context_of(reading),
        output_digest=answer_of(reading),
        response_id=reading.response_id,
        cost_usd=call.cost,
        first_token_ms=reading.first_token_ms,
        duration_ms=(step.end - step.start) / 1e6 if is_timed else None,
        stop_reason=reading.stop_reason,
        error=failure_of(step),
        redacted=isinstance(step.view, SpanView) and step.view.redacted,
        **usage,
    )


def cost_of_call(call: Call) -> float | None:
    """What the sender says, else what the price list does."""
    reading = call.step.reading
    if reading.cost_usd is not None or reading.usage is None or not reading.model:
        return reading.cost_usd
    return price_of(reading.provider, reading.model, reading.usage, call.step.start // 10**9)


def price_of(provider: str | None, model: str, usage: Usage, at: int) -> float | None:
    """As `prices.cost_of`, which takes longer than all the rest of a span: by rates, as long as those are flat."""
    if usage.context >= _FLAT:
        return cost_of(provider, model, usage, datetime.fromtimestamp(at, UTC))
    rates = _rates(provider, model, at // _SLOT)
    if rates[0] is None:
        return None
    cost = 0.0
    for name, rate in zip(USAGE, rates, strict=True):
        if count := getattr(usage, name):
            if rate is None:
                return None
            cost += count * rate
    return round(cost, 12)


def failure_of(step: Step) -> str | None:
    if step.reading.error:
        return step.reading.error
    return "error" if getattr(step.view, "status", "") == "error" else None


def is_open(step: Step | None) -> bool:
    """Whether a step, or one around it, still runs."""
    while step is not None:
        if step.running:
            return True
        step = step.above
    return False


@lru_cache(maxsize=4096)
def _rates(provider: str | None, model: str, slot: int) -> tuple[float | None, ...]:
    """USD for one token of each kind."""
    at = datetime.fromtimestamp(slot * _SLOT, UTC)
    probes = [cost_of(provider, model, Usage(**{name: _PROBE}), at) for name in USAGE]
    return tuple(None if probe is None else probe / _PROBE for probe in probes)
