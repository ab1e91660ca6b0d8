"""What the Logfire SDK asks before it sends: whose token this is."""

from __future__ import annotations

import msgspec
from litestar import get

from dashcam.server.doors import AnyRequest


class Info(msgspec.Struct, frozen=True):
    """The project behind a token, and where to look at it."""

    project_name: str
    project_url: str


@get("/v1/info", summary="The project of a token (Logfire)", tags=["logfire"], sync_to_thread=False)
def info(request: AnyRequest) -> Info:
    server = request.app.state.server
    caller = server.doorman.admit(request.headers, "ingest", request.query_params.get("project"), method=request.method)
    return Info(caller.project, str(request.base_url).rstrip("/"))


ROUTES = (info,)
