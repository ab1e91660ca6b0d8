"""The door: who is calling, for which project, and what they may do.

Only a key says who somebody is. To know the id of a session or a trace opens nothing, and no id in a header
(`X-Session-Id`, `traceparent`, `baggage`) changes who the caller is: they are not looked at.
"""

from __future__ import annotations

import base64
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from dashcam.errors import AccessDenied, SettingsError
from dashcam.server.origins import check_host, check_origin, is_loopback
from dashcam.store.control import PREFIX, Control, check_project

BEARER = "Bearer"
_KEYLESS = frozenset(("ingest", "read"))  # what everybody on this machine may, where no key is asked for
_DEEDS = {"ingest": "send records", "read": "read", "admin": "manage this project"}
BEARER_OR_BASIC = 'Bearer, Basic realm="dashcam"'  # for routes of clients that know only Basic


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who is calling. Everything they do is done in their project."""

    project: str
    rights: frozenset[str]
    key_id: str | None = None  # None: came without a key, from this machine


class Doorman:
    """Lets in who may come in. `refused` counts the others by status."""

    def __init__(self, control: Control, *, host: str, project: str, require_key: bool) -> None:
        self.control = control
        self._project = check_project(project)
        self._keyless = is_loopback(host) and not require_key
        self._lock = threading.Lock()
        self.refused: Counter[int] = Counter()

    def admit(
        self,
        headers: Mapping[str, str],
        right: str,
        project: str | None = None,
        *,
        method: str = "POST",
        challenge: str = BEARER,
    ) -> Caller:
        """The caller, if they have this right; else AccessDenied. Names of headers are in lower case.

        `project` chooses one for who comes without a key, and must be the key's own otherwise. `challenge` is
        what a 401 asks for.
        """
        try:
            offered = _key_in(headers)
            if offered is None:
                return self._without_key(headers, right, project, method)
            return self._with_key(offered, headers, right, project, method)
        except AccessDenied as error:
            if error.status == 401:
                error.headers["WWW-Authenticate"] = challenge
            with self._lock:
                self.refused[error.status] += 1
            raise

    def _without_key(self, headers: Mapping[str, str], right: str, project: str | None, method: str) -> Caller:
        if not self._keyless:
            raise AccessDenied(
                "This needs a key. Make one with: dashcam keys create, and send it as Authorization: Bearer KEY."
            )
        check_host(headers)
        check_origin(headers, method)
        if right not in _KEYLESS:  # a key that somebody made so would open the door long after
            raise AccessDenied(
                f"To {_DEEDS[right]} takes a key with that right. Make one with: dashcam keys create --right {right}",
                status=403,
            )
        return Caller(project=self._project if project is None else check_project(project), rights=_KEYLESS)

    def _with_key(
        self, offered: _Offered, headers: Mapping[str, str], right: str, project: str | None, method: str
    ) -> Caller:
        key = self.control.find(offered.key)
        if key is None:
            raise AccessDenied(
                "This key is unknown here, revoked or expired. Look with: dashcam keys list, and make a new one with: "
                "dashcam keys create"
            )
        if offered.kept_by_browsers:
            check_origin(headers, method)
        if right not in key.granted:
            raise AccessDenied(
                f"This key has not the right {right!r}. Make one that has with: "
                f"dashcam keys create --project {key.project} --right {right}",
                status=403,
            )
        if project is not None and project != key.project:
            raise AccessDenied(
                f"This key is for the project {key.project} alone. Ask for that or for none, or make a key for the "
                "other with: dashcam keys create --project NAME",
                status=403,
            )
        return Caller(project=key.project, rights=key.granted, key_id=key.id)


class _Offered(NamedTuple):
    key: str
    kept_by_browsers: bool  # then a page of another site may have had it sent along


def _key_in(headers: Mapping[str, str]) -> _Offered | None:
    """The key that a request brings. What is none of ours (clients want one even where none is needed) is as nothing."""
    said = headers.get("authorization", "").strip()
    scheme, _, rest = said.partition(" ")
    basic = scheme.lower() == "basic"
    if basic:
        said = _password(rest.strip())
    elif scheme.lower() == "bearer":
        said = rest.strip()
    if said.startswith(PREFIX):
        return _Offered(said, kept_by_browsers=basic)
    said = headers.get("x-api-key", "").strip()
    return _Offered(said, kept_by_browsers=False) if said.startswith(PREFIX) else None


def _password(encoded: str) -> str:
    """The second half of Basic credentials; the first (Langfuse: the public key) says nothing that the key doesn't."""
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def headers_of(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """The metadata of a gRPC call as `admit` takes it.

    Browsers can't speak gRPC, so that there is no page behind it to be wary of: it counts as asked for by its address.
    """
    said = {name.lower(): value for name, value in metadata if isinstance(value, str)}
    return {name: said[name] for name in ("authorization", "x-api-key") if name in said} | {"host": "localhost"}


def check_start(host: str, control: Control, require_key: bool) -> None:
    """Refuse to serve where nobody could be told from anybody else: beyond this machine, and no key made."""
    if (require_key or not is_loopback(host)) and not control.has_active():
        where = f"{host!r:.80} can be reached by others" if not require_key else "Keys are required"
        raise SettingsError(
            f"{where}, and there is no active key in {control.path}. Make one with: dashcam keys create, and start "
            "again; or serve on 127.0.0.1, for this machine alone."
        )


def list_projects(data: Path) -> list[str]:
    """Every project that has a store."""
    return sorted(store.parent.name for store in data.glob("*/sessions.db") if _is_project(store.parent.name))


def _is_project(name: str) -> bool:
    try:
        return check_project(name) == name
    except SettingsError:
        return False
