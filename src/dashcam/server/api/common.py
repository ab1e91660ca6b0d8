"""What the routes share: pages, their parameters, and the store of who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar, cast

import msgspec
from litestar import Request, Router
from litestar.params import Parameter

from dashcam.errors import NotFound, SettingsError
from dashcam.record.spanned import SpannedReader
from dashcam.server.access import Caller, Doorman
from dashcam.server.api.encoding import Told, encode
from dashcam.store.control import Right

MOST = 1000  # items a page
FULL = 8 << 20  # bytes after which a page ends before its limit
_S = TypeVar("_S")
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
    """The store of the caller's project, for who may read it. To ask for a project doesn't make it."""
    caller, projects = caller_of(request), request.app.state.server.projects
    asked = caller.key_id is None and "project" in request.query_params
    if asked and not projects.settings(caller.project).folder.is_dir():
        raise NotFound(f"There is no project {caller.project!r} here. See /api/projects for those that there are.")
    with projects.reader(caller.project) as store:
        yield store


def routes(tag: str, *handlers: Any) -> tuple[Router]:
    """The routes of a noun, each of which may be asked of a project."""
    said = "The project, where no key says which; a key's own otherwise."
    project = Parameter(annotation=str | None, required=False, max_length=64, description=said)
    return (Router("/", route_handlers=handlers, tags=[tag], parameters={"project": project}, response_class=Told),)


def keyed(items: Sequence[_S], limit: int, key: Callable[[_S], str], view: Callable[[_S], _T]) -> Page[_T]:
    """A page of a list that was asked for one more than fits, so as to know whether there is a next."""
    found, more = _fill(map(view, items), limit)
    return Page(items=found, next=key(items[len(found) - 1]) if more else None)


def counted(items: Iterator[_T], limit: int, cursor: str | None) -> Page[_T]:
    """A page of a list that has no other key than the place in it: the cursor counts what came before."""
    return counted_as(items, limit, cursor, lambda item: item)


def counted_as(items: Iterator[_S], limit: int, cursor: str | None, view: Callable[[_S], _T]) -> Page[_T]:
    """The same, of a list whose items are looked up only where they are on the page."""
    start = place_of(cursor)
    found, more = _fill(map(view, islice(items, start, None)), limit)
    return Page(items=found, next=str(start + len(found)) if more else None)


def _fill(items: Iterable[_T], limit: int) -> tuple[list[_T], bool]:
    """As many as fit, and whether there are more. Encoded one by one: only so it is known how large a page gets."""
    found: list[_T] = []
    size = 0
    for item in items:
        if len(found) == limit or size > FULL:
            return found, True
        encoded = encode(item)
        size += len(encoded)
        found.append(cast("_T", msgspec.Raw(encoded)))
    return found, False


def check_cursor(look_up: Callable[[str], object], cursor: str | None) -> None:
    """Raise where what the page before ended with isn't there: an empty page would look like the end of the list."""
    try:
        if cursor:
            look_up(cursor)
    except NotFound:
        raise _no_cursor(cursor or "") from None


def _no_cursor(cursor: str) -> SettingsError:
    return SettingsError(
        f"{cursor!r:.40} is no cursor of this list. Use the `next` of the page before, or begin again."
    )


def place_of(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 15:
        raise _no_cursor(cursor)
    return int(cursor)
