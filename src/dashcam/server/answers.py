"""Errors as answers: `{"error": …}` for people, google.rpc.Status for OpenTelemetry, over HTTP and gRPC."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from dashcam.errors import DashcamError, StoreError
from dashcam.record.receive import Form
from dashcam.server.logs import tell

MEDIA: dict[Form, str] = {"protobuf": "application/x-protobuf", "json": "application/json"}
RETRY_SECONDS = 5  # after a store that can't be written

# google.rpc.Code by HTTP status.
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 429: 14, 500: 13, 501: 12, 503: 14}


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, as it is told."""

    status: int
    message: str
    headers: dict[str, str] = {}

    @property
    def code(self) -> int:
        """As google.rpc.Code."""
        return _CODES.get(self.status, 3 if self.status < 500 else 13)

    @property
    def retry_seconds(self) -> int | None:
        return int(self.headers["Retry-After"]) if "Retry-After" in self.headers else None


def problem_of(error: BaseException, where: str = "") -> Problem:
    """What to tell of an error. One that is ours says it itself; one that is a bug says nothing but that."""
    if isinstance(error, DashcamError):
        retry = getattr(error, "retry_after", RETRY_SECONDS if isinstance(error, StoreError) else None)
        headers = {} if retry is None else {"Retry-After": str(retry)}
        return Problem(error.status, str(error), {**headers, **getattr(error, "headers", {})})
    if isinstance(error, HTTPException):
        return Problem(error.status_code, _said(error), dict(error.headers or {}))
    tell("request failed", logging.ERROR, error=error, route=where)
    return Problem(500, f"This should not have happened ({type(error).__name__}). The server's log says more.")


def _said(error: HTTPException) -> str:
    match error.status_code, error.extra:
        case 404, _:
            return "There is nothing at this address. See /docs for what there is."
        case 405, _:
            return "This is not done at this address. The header Allow names what is, /docs what for."
        case 400, [*faults]:  # one for each parameter, or field of a body, that is not what it should be
            told = (f"{fault.get('key') or 'the body'}: {fault.get('message')}" for fault in map(dict, faults))
            return f"This can't be used as it is. {'; '.join(told)}. See /docs."[:2000]
    return error.detail or HTTPStatus(error.status_code).phrase


def _told(request: Request[Any, Any, Any], error: Exception) -> Problem:
    """What to answer; said in the log, too, since a sender's own often says no more than the number."""
    problem = problem_of(error, request.url.path)
    if problem.status not in (404, 500):
        route = request.scope.get("path_template") or request.url.path[:200]
        tell(
            "refused",
            logging.WARNING,
            status=problem.status,
            method=request.method,
            route=route,
            reason=problem.message,
        )
    return problem


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Any error as JSON with one field, `error`: the form of the API, and of docs/wire.md."""
    problem = _told(request, error)
    body = msgspec.json.encode({"error": problem.message.encode(errors="replace").decode()})
    return Response(body, status_code=problem.status, headers=problem.headers, media_type="application/json")


def answer_status(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Any error as google.rpc.Status, in the form of the request."""
    problem = _told(request, error)
    form: Form = "protobuf" if "protobuf" in request.headers.get("content-type", "") else "json"
    if form == "protobuf":
        body = status_message(problem)
    else:
        body = msgspec.json.encode({"code": problem.code, "message": problem.message})
    return Response(body, status_code=problem.status, headers=problem.headers, media_type=MEDIA[form])


def status_message(problem: Problem) -> bytes:
    """google.rpc.Status as protobuf, with google.rpc.RetryInfo where it says when to come back.

    By hand: three small messages are no reason for one more dependency.
    """
    said = _number(1, problem.code) + _bytes(2, problem.message.encode("utf-8", "replace"))
    if problem.retry_seconds is None:
        return said
    retry = _bytes(1, _number(1, problem.retry_seconds))  # RetryInfo.retry_delay, a Duration
    return said + _bytes(3, _bytes(1, b"type.googleapis.com/google.rpc.RetryInfo") + _bytes(2, retry))


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low, value = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(value) if value else bytes([low])
