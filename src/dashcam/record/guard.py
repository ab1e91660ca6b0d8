"""Inside a host's process we fail open: what goes wrong with recording is counted, and the agent goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from dashcam.errors import DashcamError
from dashcam.sdk import emit

_F = TypeVar("_F", bound=Callable[..., Any])


def fails_open(method: _F) -> _F:
    """A method that never raises for a reason of ours; the caller's own mistakes are told.

    Where it fails it gives what `Otherwise` says for its kind of answer.
    """

    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except DashcamError:
            raise
        except TypeError as error:
            if error.__traceback__ and error.__traceback__.tb_next is None:
                raise  # called with arguments that it doesn't have
            emit.recorder().lost()
        except Exception:
            emit.recorder().lost()
        otherwise = _OTHERWISE.get(method.__annotations__.get("return", ""))
        return otherwise(given[0]) if otherwise else None

    return cast("_F", call)


def _reply(session: Any) -> Any:
    from dashcam.record.reply import Reply

    return Reply(session)


_OTHERWISE: dict[str, Callable[[Any], Any]] = {"str": lambda _: "", "int": lambda _: 0, "Reply": _reply}
