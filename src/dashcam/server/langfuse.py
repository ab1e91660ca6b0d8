"""What the Langfuse SDKs call besides OTLP: scores, and whether their keys are good."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Response, get, post

from dashcam.errors import DashcamError, NotOffered, UnreadableInput
from dashcam.server.access import BEARER_OR_BASIC, Caller
from dashcam.server.answers import problem_of
from dashcam.server.doors import AnyRequest, body_operation, deliver
from dashcam.server.limits import body_of, encoding_of, inflate
from dashcam.server.state import Server
from dashcam.server.writing import Delivery

_JSON = "application/json"
_SCORE = "score-create"
MOST_EVENTS = 1000


class Health(msgspec.Struct, frozen=True):
    """That there is a server, and which."""

    status: str
    version: str


@get("/api/public/health", summary="Whether the server is there (Langfuse)", tags=["langfuse"], sync_to_thread=False)
def health(request: AnyRequest) -> Health:
    return Health("OK", request.app.state.server.version)


@get("/api/public/projects", summary="The project of a key (Langfuse)", tags=["langfuse"], sync_to_thread=False)
def projects(request: AnyRequest) -> dict[str, Any]:
    """What `auth_check()` of the SDKs asks."""
    name = _caller(request).project
    organization = {"id": "dashcam", "name": "dashcam"}
    return {"data": [{"id": name, "name": name, "organization": organization, "metadata": {}}]}


@post(
    "/api/public/scores",
    summary="One score, or a list of them (Langfuse)",
    operation_class=body_operation("A score, or a list of scores, as the Langfuse API has them.", _JSON),
    tags=["langfuse"],
    status_code=200,
)
async def create_scores(request: AnyRequest) -> Response[dict[str, Any]]:
    """One score answers 200 with its id; a list 202, or 207 where some of it could not be read."""
    outcome = await deliver(request, "scores", "json", challenge=BEARER_OR_BASIC)
    if outcome.rejected:
        told = {"accepted": len(outcome.ids), "rejected": outcome.rejected, "errors": [{"message": outcome.reason}]}
        return Response(told, status_code=207)
    if outcome.is_list:
        return Response({"message": "Accepted"}, status_code=202)
    return Response({"id": outcome.ids[0]}, status_code=200)


@post(
    "/api/public/ingestion",
    summary="A batch of the older SDKs (Langfuse): scores alone",
    operation_class=body_operation("A batch of events; those of the type score-create are kept.", _JSON),
    tags=["langfuse"],
    status_code=207,
)
async def ingest_batch(request: AnyRequest) -> dict[str, Any]:
    """SDKs before OpenTelemetry sent everything here; those of today some scores. Each event is answered by itself."""
    caller = _caller(request)
    server: Server = request.app.state.server
    length = request.headers.get("content-length", "")
    async with body_of(request.receive, length, server.limits, server.ingest.held) as body:
        encoding = encoding_of(request.headers.get("content-encoding", ""))
        events = await asyncio.to_thread(_events, body, encoding, server.limits.body)
        told = await asyncio.gather(*(_take(server, caller, event) for event in events))
    successes = [each for each in told if "message" not in each]
    return {"successes": successes, "errors": [each for each in told if "message" in each]}


def _events(body: bytes, encoding: str, limit: int) -> list[dict[str, Any]]:
    try:
        events = msgspec.json.decode(inflate(body, encoding, limit))["batch"]
        if len(events) > MOST_EVENTS or not all(isinstance(event, dict) for event in events):
            raise TypeError(f"it is no list of up to {MOST_EVENTS} objects")
        return list(events)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise UnreadableInput(f'The body is no batch: {error}. Send {{"batch": [events]}} as JSON.') from None


async def _take(server: Server, caller: Caller, event: dict[str, Any]) -> dict[str, Any]:
    event_id = str(event.get("id", ""))
    try:
        if event.get("type") != _SCORE:
            raise NotOffered(
                f"Events of the type {event.get('type')!r:.40} are not taken. Use a Langfuse SDK from 3 on, which sends "
                "OpenTelemetry."
            )
        body = msgspec.json.encode(event.get("body"))
        delivery = Delivery(project=caller.project, kind="scores", body=body, form="json")
        await asyncio.wrap_future(server.ingest.deliver(delivery))
        return {"id": event_id, "status": 201}
    except DashcamError as error:
        problem = problem_of(error)
        return {"id": event_id, "status": problem.status, "message": problem.message}


def _caller(request: AnyRequest) -> Caller:
    server: Server = request.app.state.server
    return server.doorman.admit(
        request.headers, "ingest", request.query_params.get("project"), method=request.method, challenge=BEARER_OR_BASIC
    )


ROUTES = (health, projects, create_scores, ingest_batch)
