"""What every route answers where something is wrong, and what a route's own code doesn't tell of its answers."""

from __future__ import annotations

from typing import Any

from dashcam.exports.formats import MEDIA_TYPES

ERRORS = {
    "400": "It can't be used as it is: the answer says what of it, and what to do.",
    "401": "It needs a key, and there is none that is known here.",
    "403": "No key, or not this one, allows it.",
    "404": "There is no such thing, or nothing at this address.",
    "408": "The body took too long to arrive.",
    "413": "The body is too large.",
    "415": "The body is in a form that is not read here.",
    "429": "Too much is waiting to be written. The same is taken later: Retry-After says when.",
    "503": "Too many at once, or the store can't be used. The same is taken later: Retry-After says when.",
}
_OF_BODIES = frozenset(("408", "413", "415", "429"))
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "What happened, and what to do."}},
}
_STATUS = {
    "type": "object",
    "description": "google.rpc.Status",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
}
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_BYTES = {"type": "string", "format": "binary"}
_OBJECT = {"type": "object"}
_READINESS = {"$ref": "#/components/schemas/Readiness"}
# Answers of routes that make them by hand: by path and status, what they hold by its type.
_BY_HAND: dict[str, dict[str, dict[str, Any]]] = {
    "/api/sessions/{session_id}/export": {"200": {media: {} for media in MEDIA_TYPES.values()}},
    "/api/live": {"200": {"text/event-stream": {"type": "string"}}},
    "/api/public/scores": {status: {_JSON: _OBJECT} for status in ("200", "202", "207")},
    "/ready": {"200": {_JSON: _READINESS}, "503": {_JSON: {"anyOf": [_READINESS, _ERROR]}}},
}


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """The description, complete. To do it again changes nothing."""
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {}).update(Error=_ERROR, RpcStatus=_STATUS)
    for path, item in schema["paths"].items():
        for operation in item.values():
            if isinstance(operation, dict):
                _complete(path, operation)
    return schema


def _complete(path: str, operation: dict[str, Any]) -> None:
    answers: dict[str, Any] = operation["responses"]
    is_otlp = "otlp" in operation.get("tags", ())
    error: dict[str, Any] = {_JSON: {"$ref": "#/components/schemas/Error"}}
    if is_otlp:
        error = {_JSON: {"$ref": "#/components/schemas/RpcStatus"}, _PROTOBUF: _BYTES}
        answers["200"] = _answer("It is on the disk.", {_JSON: _OBJECT, _PROTOBUF: _BYTES})
    for status, said in ERRORS.items():
        if "requestBody" in operation or status not in _OF_BODIES:
            answers[status] = _answer(said, error)
    for status, content in _BY_HAND.get(path, {}).items():
        answers[status] = _answer(answers.get(status, answers["200"])["description"], content)


def _answer(description: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema} for media, schema in content.items()}}
