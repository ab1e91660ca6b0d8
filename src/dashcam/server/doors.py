"""What every way in shares: who it is, the body within its limits, and the answer after the commit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from litestar import Request
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema

from dashcam.record.receive import Form
from dashcam.server.access import BEARER
from dashcam.server.limits import body_of, encoding_of
from dashcam.server.state import Server
from dashcam.server.writing import Delivery, Outcome

AnyRequest = Request[Any, Any, Any]


async def deliver(
    request: AnyRequest, kind: str, form: Form, *, segment: str = "", offset: int = 0, challenge: str = BEARER
) -> Outcome:
    """Take a request's body to the store, and wait until it is there."""
    server: Server = request.app.state.server
    caller = server.doorman.admit(
        request.headers, "ingest", request.query_params.get("project"), method=request.method, challenge=challenge
    )
    encoding = encoding_of(request.headers.get("content-encoding", ""))
    length = request.headers.get("content-length", "")
    async with body_of(request.receive, length, server.limits, server.ingest.held) as body:
        server.metrics.received.labels("http").inc(len(body))
        delivery = Delivery(
            project=caller.project, kind=kind, body=body, form=form, encoding=encoding, segment=segment, offset=offset
        )
        return await asyncio.wrap_future(server.ingest.deliver(delivery))


def body_operation(description: str, *media: str) -> type[Operation]:
    """How a route that reads its body itself is described: by the types that it takes."""

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            binary = OpenAPIMediaType(schema=Schema(type=None, description=description))
            self.request_body = RequestBody(
                content=dict.fromkeys(media, binary), required=True, description=description
            )

    return Described
