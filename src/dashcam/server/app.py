"""The web application: every route, and what surrounds them all."""

from __future__ import annotations

from litestar import Litestar, Router
from litestar.datastructures import State

from dashcam.server import health, langfuse, logfire_door, otlp, records
from dashcam.server.answers import answer_error
from dashcam.server.api import admin, findings, live, sessions, traces
from dashcam.server.docs import openapi_config
from dashcam.server.gate import App, Gate
from dashcam.server.slashes import give_slashes_back
from dashcam.server.state import Server

_DOORS = (*records.ROUTES, *langfuse.ROUTES, *logfire_door.ROUTES, *health.ROUTES)
_API = (sessions, traces, findings, live, admin)


def make_app(server: Server) -> App:
    """The app of a server, behind its gate."""
    routes = [route for module in _API for route in module.ROUTES]
    api = Router("/api", route_handlers=routes, before_request=give_slashes_back)
    app = Litestar(
        route_handlers=[otlp.ROUTES, *_DOORS, api],
        exception_handlers={Exception: answer_error},
        openapi_config=openapi_config(),
        request_max_body_size=server.limits.body,
        state=State({"server": server, "doorman": server.doorman}),
        logging_config=None,
    )
    return Gate(app, server.limits, server.metrics)  # type: ignore[arg-type]
