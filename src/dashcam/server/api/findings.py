"""/api/search, /api/orphans, /api/prompts and the like: what is looked for, and what can't be joined."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.params import Parameter
from litestar.response import Stream

from dashcam.contracts.event import Orphan
from dashcam.errors import SettingsError
from dashcam.exports.formats import MEDIA_TYPES, NEED_CHAT, WRITERS
from dashcam.exports.selection import check_sessions
from dashcam.server.api.common import (
    Cursor,
    Limit,
    Page,
    Text,
    check_cursor,
    counted,
    keyed,
    place_of,
    routes,
    store_of,
)
from dashcam.store.base import Prompt, SearchHit
from dashcam.views import joinability
from dashcam.views.joinability import OrphanReport

_KEPT = 100_000  # items of a list without a key that can be paged through


class OrphanItem(msgspec.Struct, frozen=True, kw_only=True):
    """A record that can't be joined: where it stands, why, and how it begins."""

    segment: str
    offset: int
    reason: str
    operation: str
    ts: int
    body: str


class TextBody(msgspec.Struct, frozen=True):
    """A system prompt or a tool catalog, whole."""

    digest: str
    body: str


Words = Annotated[
    str, Parameter(min_length=1, max_length=500, description="Words that a part holds, or how they begin.")
]


@get("/search", sync_to_thread=True, summary="Parts that hold these words")
def search(
    request: Request[Any, Any, Any], q: Words, session_id: Text = None, limit: Limit = 50, cursor: Cursor = None
) -> Page[SearchHit]:
    if not any(map(str.isalnum, q)):
        raise SettingsError(f"{q!r:.40} holds no word to look for.")
    with store_of(request) as store:
        found = store.search(q, session_id=session_id, limit=min(place_of(cursor), _KEPT) + limit + 1)
        return counted((hit.plainly() for hit in found), limit, cursor)


@get("/orphans", sync_to_thread=True, summary="Records without session, trace or step, the newest first")
def list_orphans(request: Request[Any, Any, Any], limit: Limit = 50, cursor: Cursor = None) -> Page[OrphanItem]:
    with store_of(request) as store:
        # By what was there, and not by place: new ones come in at the front.
        before = place_of(cursor) or sys.maxsize
        older = (each for each in store.orphans(limit=sys.maxsize) if each.seq < before)
        return keyed(list(islice(older, limit + 1)), limit, lambda each: str(each.seq), _orphan)


@get("/joinability", sync_to_thread=True, summary="How much can't be joined, where it came from, and what that costs")
def get_joinability(request: Request[Any, Any, Any]) -> OrphanReport:
    with store_of(request) as store:
        return joinability.load(store)


@get("/prompts", sync_to_thread=True, summary="System prompts, and where they are used; the newest first")
def list_prompts(request: Request[Any, Any, Any], limit: Limit = 50, cursor: Cursor = None) -> Page[Prompt]:
    with store_of(request) as store:
        check_cursor(store.system_prompt, cursor)
        found = store.prompts(limit=limit + 1, after=cursor or "")
        return keyed(found, limit, lambda each: each.digest, lambda each: each)


@get("/prompts/{digest:str}", sync_to_thread=True, summary="A system prompt, whole")
def get_prompt(request: Request[Any, Any, Any], digest: str) -> TextBody:
    with store_of(request) as store:
        return TextBody(digest, store.system_prompt(digest))


@get("/catalogs/{digest:str}", sync_to_thread=True, summary="A tool catalog, as it was sent")
def get_catalog(request: Request[Any, Any, Any], digest: str) -> TextBody:
    with store_of(request) as store:
        return TextBody(digest, store.tool_catalog(digest))


@get("/sessions/{session_id:str}/export", sync_to_thread=True, summary="A session as a file")
def export(
    request: Request[Any, Any, Any],
    session_id: str,
    form: Annotated[str, Parameter(query="format", description=f"One of {', '.join(WRITERS)}.")] = "jsonl",
) -> Stream:
    if form not in WRITERS:
        raise SettingsError(f"{form!r:.40} is no format. Choose from: {', '.join(WRITERS)}.")
    with store_of(request) as store:  # said before the first byte is sent
        check_sessions(store, [session_id], "this project", chat=form in NEED_CHAT)

    def pieces() -> Iterator[bytes]:
        with store_of(request) as store:
            yield from WRITERS[form](store, [session_id])

    return Stream(pieces(), media_type=MEDIA_TYPES[form])


def _orphan(orphan: Orphan) -> OrphanItem:
    return OrphanItem(
        segment=orphan.segment, offset=orphan.offset, reason=orphan.reason, operation=orphan.operation, ts=orphan.ts,
        body=orphan.body[:2000].decode(errors="replace"),
    )  # fmt: skip


ROUTES = routes(
    "findings", search, list_orphans, get_joinability, list_prompts, get_prompt, get_catalog, export
)  # fmt: skip
