"""Whether the server is alive, whether it can take something, and its figures."""

from __future__ import annotations

import msgspec
from litestar import Response, get

from dashcam.server.doors import AnyRequest
from dashcam.server.metrics import CONTENT_TYPE
from dashcam.server.state import Server


class Alive(msgspec.Struct, frozen=True):
    """That there is somebody to answer."""

    status: str
    version: str


class Readiness(msgspec.Struct, frozen=True):
    """Whether records are taken; where not, why."""

    ready: bool
    error: str | None = None


@get("/health", summary="Whether the server is alive", tags=["server"], sync_to_thread=False)
def health(request: AnyRequest) -> Alive:
    return Alive("ok", request.app.state.server.version)


@get("/ready", summary="Whether the server takes records", tags=["server"])
async def ready(request: AnyRequest) -> Response[Readiness]:
    """Found out by writing to the store. 503 where that fails, and while the server is being stopped."""
    server: Server = request.app.state.server
    fault = await server.fault()
    return Response(Readiness(fault is None, fault), status_code=200 if fault is None else 503)


@get("/metrics", summary="Figures for Prometheus", tags=["server"], media_type=CONTENT_TYPE, sync_to_thread=True)
def metrics(request: AnyRequest) -> bytes:
    """Needs the right to read: it names projects."""
    server: Server = request.app.state.server
    server.doorman.admit(request.headers, "read", method=request.method)
    return server.metrics.render()


ROUTES = (health, ready, metrics)
