"""The events that Dashcam knows from the start."""

from __future__ import annotations

from typing import Any

from dashcam.sdk.vocabulary import Vocabulary

_USAGE = {
    "input_tokens": int,
    "output_tokens": int,
    "reasoning_tokens": int,
    "cache_read": int,
    "cache_write": int,
}

# name: (what it says, required, optional)
_EVENTS: dict[str, tuple[str, dict[str, type], dict[str, type]]] = {
    "request_received": (
        "A request reached the agent.",
        {},
        {"input": object, "channel": str, "user": str, "message_id": str},
    ),
    "model_call": (
        "A model was asked and answered. Token counts never overlap; leave out what is unknown.",
        {"model": str},
        {
            "provider": str,
            "settings": dict,
            "messages": list,
            "output": object,
            **_USAGE,
            "cost_usd": float,
            "first_token_ms": float,
            "latency_ms": float,
            "stop_reason": str,
            "error": str,
            "wire": str,
            "response_id": str,
            "message_id": str,
            "system_prompt_digest": str,
            "tool_catalog_digest": str,
            "context_digest": str,
            "envelope_digest": str,
            "output_digest": str,
            "request_step": int,
        },
    ),
    "model_request": (
        "A model is being asked; written by a chat recorder, so that a request without an answer is known.",
        {"model": str},
        {
            "provider": str,
            "settings": dict,
            "wire": str,
            "message_id": str,
            "system_prompt_digest": str,
            "tool_catalog_digest": str,
            "context_digest": str,
            "envelope_digest": str,
        },
    ),
    "tool_call": (
        "The agent is about to call a tool.",
        {"tool": str},
        {"tool_call_id": str, "input": object, "message_id": str, "permissions": list},
    ),
    "tool_call_completed": (
        "A tool answered.",
        {"tool": str},
        {"tool_call_id": str, "output": object, "latency_ms": float},
    ),
    "tool_call_failed": (
        "A tool failed.",
        {"tool": str, "error": str},
        {"tool_call_id": str, "error_type": str, "latency_ms": float},
    ),
    "retrieval": (
        "The agent looked something up.",
        {"query": str},
        {"store": str, "results": int, "latency_ms": float},
    ),
    "decision": (
        "The agent chose between ways to go on.",
        {"choice": str},
        {"reason": str, "options": list},
    ),
    "cost": (
        "Money was spent.",
        {"usd": float},
        {"model": str, "provider": str, "reason": str, **_USAGE},
    ),
    "error": (
        "Something went wrong that no other event tells.",
        {"message": str},
        {"type": str, "where": str},
    ),
    "reply_ready": (
        "The agent's answer is complete.",
        {},
        {"text": str, "latency_ms": float, "stop_reason": str, "message_id": str},
    ),
    "span_started": (
        "A part of the work began; written by Trace.span().",
        {"name": str},
        {},
    ),
    "span_ended": (
        "A part of the work ended; written by Trace.span().",
        {"name": str, "started_at": object, "duration_ms": float, "status": str},
        {"error": dict},
    ),
}


def standard_vocabulary() -> Vocabulary:
    vocabulary = Vocabulary()
    for name, (doc, required, optional) in _EVENTS.items():
        vocabulary.register(name, required=required, optional=optional, doc=doc)
    return vocabulary


# One a process: what a host registers holds whatever it configures afterwards.
VOCABULARY = standard_vocabulary()


register_event = VOCABULARY.register


def shapes() -> list[dict[str, Any]]:
    """Every event this process knows, as data."""
    return [shape.as_dict() for shape in VOCABULARY.shapes.values()]
