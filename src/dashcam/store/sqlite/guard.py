"""Where SQLite's own errors end: whoever uses a store meets only ours."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType, GeneratorType
from typing import Any, TypeVar

from dashcam.errors import StoreError

_Class = TypeVar("_Class", bound=type)


def guarded(owner: _Class) -> _Class:
    """A class decorator: public methods, and the iterators that they give, raise StoreError for SQLite's errors.

    For a class with the `path` of its store.
    """
    for name, method in list(vars(owner).items()):
        if isinstance(method, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(owner, name, _guarded(method))
    return owner


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        with _told(self):
            found = method(self, *given, **named)
        return _iterate(self, found) if isinstance(found, GeneratorType) else found

    return call


def _iterate(store: Any, found: Iterator[Any]) -> Iterator[Any]:
    with _told(store):
        yield from found


@contextmanager
def _told(store: Any) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, zlib.error) as error:
        raise StoreError(f"{store.path} can't be used: {error}. {_next_step(str(error))}") from error


def _next_step(said: str) -> str:
    if "locked" in said or "busy" in said:
        return "Another process is at work on it; try again in a moment."
    return "Look for damage with: dashcam verify. Go back to a backup, or collect the journals into a new store."
