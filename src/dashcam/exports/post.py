"""Sending traces to an OTLP/HTTP endpoint."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from dashcam.contracts.chat import object_of
from dashcam.errors import DashcamError, SettingsError
from dashcam.exports import otlp
from dashcam.store.base import Reader

SPANS, SIZE = 500, 4 << 20  # a request
TIMEOUT = 30.0  # seconds
_PATH = "/v1/traces"
_KEPT = 64 << 10  # of an answer


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Followed, a redirect would become a GET, and the spans would be lost in silence."""

    def redirect_request(self, *_: Any) -> None:
        return None


def send(store: Reader, session_ids: Sequence[str], url: str) -> int:
    """Post the sessions' spans; return how many. Raises where the endpoint doesn't take them all."""
    address = endpoint_of(url)
    opener = urllib.request.build_opener(_NoRedirects)
    sent = 0
    for count, body in otlp.requests(store, session_ids, SPANS, SIZE):
        rejected = _post(opener, address, body, sent)
        sent += count
        if rejected:
            raise DashcamError(
                f"{shown(address)} took {sent} spans but rejected {rejected}. See what it logs about them."
            )
    return sent


def endpoint_of(url: str) -> str:
    """The address to post to: of a bare one the path that OTLP/HTTP has for traces."""
    try:
        parts = urlsplit(url.encode("ascii").decode())
        _ = parts.port
    except ValueError:
        raise SettingsError(f"--to {url!r:.80} is no address. Write it like http://localhost:4318.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise SettingsError("--to needs an address like http://localhost:4318, http or https, without a user name.")
    return urlunsplit(parts._replace(path=parts.path if parts.path.strip("/") else _PATH, fragment=""))


def shown(address: str) -> str:
    """An address for a message: its query may hold a key."""
    return urlunsplit(urlsplit(address)._replace(query=""))


def _post(opener: urllib.request.OpenerDirector, address: str, body: bytes, sent: int) -> int:
    """Send one request; return how many spans of it were rejected."""
    headers = {"Content-Type": "application/json", "User-Agent": "dashcam"}
    request = urllib.request.Request(address, body, headers, method="POST")  # noqa: S310 - http and https alone
    before = f"{sent} spans were taken before; sending again is safe, ids are the same."
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            told = object_of(answer.read(_KEPT).decode(errors="replace")).get("partialSuccess")
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(200).decode(errors="replace").strip()
        raise DashcamError(f"{shown(address)} answered {error.code} {error.reason}: {said!r:.200}. {before}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DashcamError(
            f"{shown(address)} can't be reached: {reason}. Is a collector listening there? {before}"
        ) from error
    rejected = told.get("rejectedSpans", 0) if isinstance(told, dict) else 0
    return int(rejected) if str(rejected).isdigit() else 0
