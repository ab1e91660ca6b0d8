"""A span of no dialect that we know: whose it is, whether it failed, and what went in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from dashcam.dialects.otlp.messages import conversation, said
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, Role, Said, SpanView
from dashcam.dialects.otlp.values import error_of, json_text, session_of, text, user_of

_KINDS = frozenset(get_args(Kind))
# Resource attributes that say where something ran.
_METADATA = {
    "service": "service.name",
    "release": "service.version",
    "environment": "deployment.environment.name",
}
_TOLD_BY_OPENINFERENCE = "openinference.span.kind"  # it knows which of its values are words
_OLD_ENVIRONMENT = "deployment.environment"


def read(view: SpanView, logs: Sequence[LogView]) -> Reading:
    """What any span tells."""
    attributes = view.attributes
    whole = {} if _TOLD_BY_OPENINFERENCE in attributes else attributes
    return Reading(
        kind=_kind(attributes),
        session_id=session_of(attributes) or session_of(view.resource),
        user_id=user_of(attributes) or user_of(view.resource),
        metadata=_metadata(view.resource),
        input=_messages(whole.get("input.value"), "user"),
        output=_messages(whole.get("output.value"), "assistant"),
        error=error_of(view),
    )


def _messages(value: Any, role: Role) -> tuple[Said, ...] | None:
    """Messages where it holds some, else the text that it is."""
    told = conversation(value, role)
    if told is None or any(not part["type"].startswith("data-") for each in told for part in each.parts):
        return told
    words = json_text(value)
    return (said(None, words, role),) if words else None


def _kind(attributes: Mapping[str, Any]) -> Kind:
    """What the sender says that it is; a model call where only a request to a model has these attributes."""
    named = text(attributes, "dashcam.kind")
    if named in _KINDS:
        return named  # type: ignore[return-value]
    asks = text(attributes, "llm.request.type") in ("chat", "completion")
    return "model" if asks and text(attributes, "llm.request.model", "llm.model_name") else "span"


def _metadata(resource: Mapping[str, Any]) -> dict[str, Any] | None:
    told = {key: text(resource, name) for key, name in _METADATA.items()}
    told["environment"] = told["environment"] or text(resource, _OLD_ENVIRONMENT)
    return {key: value for key, value in told.items() if value is not None} or None
