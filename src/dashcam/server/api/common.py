"""What the routes share: pages, their parameters, and the store of who asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from litestar import Request
from litestar.params import Parameter

from dashcam.errors import SettingsError
from dashcam.record.spanned import SpannedReader
from dashcam.server.access import Caller, Doorman
from dashcam.store.control import Right

MOST = 1000  # items a page
_T = TypeVar("_T")

Limit = Annotated[int, Parameter(ge=1, le=MOST, description=f"How many items, at most {MOST}.")]
Cursor = Annotated[
    str | None, Parameter(max_length=2000, description="The `next` of the page before; from the start without it.")
]
Text = Annotated[str | None, Parameter(max_length=2000)]


class Page(msgspec.Struct, Generic[_T], frozen=True, kw_only=True):
    """One page of a list, and how to get the next: null where this is the last."""

    items: list[_T]
    next: str | None = None


def caller_of(request: Request[Any, Any, Any], right: Right = "read") -> Caller:
    """Who asks, if they may; `?project=` names the project where no key does."""
    doorman: Doorman = request.app.state.doorman
    return doorman.admit(request.headers, right, request.query_params.get("project"), method=request.method)


@contextmanager
def store_of(request: Request[Any, Any, Any]) -> Iterator[SpannedReader]:
    """The store of the caller's project, for who may read it."""
    caller = caller_of(request)
    with request.app.state.server.projects.reader(caller.project) as store:
        yield store


def page_of(items: Sequence[_T], limit: int, cursor: str | None) -> Page[_T]:
    """A page of a list that was asked for one more than fits, so as to know whether there is a next."""
    return Page(items=list(items[:limit]), next=cursor if len(items) > limit else None)


def counted(items: Iterator[_T], limit: int, cursor: str | None) -> Page[_T]:
    """A page of a list that has no other key than the place in it: the cursor counts what came before."""
    start = place_of(cursor)
    found: list[_T] = []
    for place, item in enumerate(items):
        if place >= start + limit:
            return Page(items=found, next=str(start + limit))
        if place >= start:
            found.append(item)
    return Page(items=found)


def place_of(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 15:
        raise SettingsError(f"{cursor!r:.40} is no cursor of this list. Use the `next` of the page before.")
    return int(cursor)
