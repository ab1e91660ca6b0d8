"""/api/status, /api/projects, /api/keys: the server itself."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, delete, get, post

from dashcam.sdk.catalog import shapes
from dashcam.server.access import list_projects
from dashcam.server.api.common import Cursor, Limit, Page, caller_of, counted, routes, store_of
from dashcam.store.control import Control, Key, Right


class LagStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far sessions and search are behind the log."""

    records: int
    seconds: float


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """What the project takes on the disk."""

    total_bytes: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The server and the caller's project at this moment."""

    version: str
    project: str
    uptime_seconds: float
    draining: bool
    queue_requests: int
    queue_bytes: int
    lag: LagStatus
    storage: Storage
    session_by: dict[str, int]  # how the sessions of traces were found


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project: a store of its own."""

    name: str


@get("/status", sync_to_thread=True, summary="The server, and how far sessions are behind")
def get_status(request: Request[Any, Any, Any]) -> Status:
    server = request.app.state.server
    caller = caller_of(request)
    with store_of(request) as store:
        lag = store.lag()
        return Status(
            version=server.version,
            project=caller.project,
            uptime_seconds=server.uptime(),
            draining=server.draining,
            queue_requests=server.ingest.queue_requests,
            queue_bytes=server.ingest.queue_bytes,
            lag=LagStatus(
                records=max(0, lag.seq - lag.projected),
                seconds=server.ingest.lag_seconds(caller.project, lag.projected),
            ),
            storage=Storage(total_bytes=server.projects.size_of(caller.project)),
            session_by=store.session_by(),
        )


@get("/projects", sync_to_thread=True, summary="The projects that the caller may see")
def get_projects(request: Request[Any, Any, Any], limit: Limit = 100, cursor: Cursor = None) -> Page[Project]:
    server = request.app.state.server
    caller = caller_of(request)
    names = list_projects(server.projects.data) if caller.key_id is None else [caller.project]
    return counted((Project(name=name) for name in names), limit, cursor)


@get("/vocabulary", sync_to_thread=True, summary="The catalog of events and their fields")
def get_vocabulary(request: Request[Any, Any, Any], limit: Limit = 500, cursor: Cursor = None) -> Page[dict[str, Any]]:
    caller_of(request)
    return counted(iter(shapes()), limit, cursor)


class KeyWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made: for the caller's project."""

    rights: list[Right]
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    expires_at: Annotated[int, msgspec.Meta(ge=0, lt=2**53)] | None = None  # milliseconds


class KeyMade(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was made. Its text is told this once, and nowhere kept."""

    key: Key
    text: str


@get("/keys", sync_to_thread=True, summary="The keys of the project, without their texts")
def list_keys(request: Request[Any, Any, Any], limit: Limit = 100, cursor: Cursor = None) -> Page[Key]:
    caller = caller_of(request, "admin")
    return counted(iter(_control(request).listed(caller.project)), limit, cursor)


@post("/keys", sync_to_thread=True, summary="Make a key for the project")
def create_key(request: Request[Any, Any, Any], data: KeyWanted) -> KeyMade:
    caller = caller_of(request, "admin")
    key, text = _control(request).create(caller.project, data.rights, name=data.name, expires_at=data.expires_at)
    return KeyMade(key=key, text=text)


@delete("/keys/{key_id:str}", sync_to_thread=True, status_code=200, summary="Revoke a key of the project")
def revoke_key(request: Request[Any, Any, Any], key_id: str) -> Key:
    caller = caller_of(request, "admin")
    return _control(request).revoke(key_id, project=caller.project)


def _control(request: Request[Any, Any, Any]) -> Control:
    control: Control = request.app.state.doorman.control
    return control


ROUTES = routes("server", get_status, get_projects, get_vocabulary, list_keys, create_key, revoke_key)
