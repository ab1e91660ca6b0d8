"""Where a request comes from, as far as a browser tells: against DNS rebinding and requests that other sites forge.

Only `Host`, `Origin` and `Sec-Fetch-*` are asked, which a page can't set. What a proxy or a client may write as
it likes (`Forwarded`, `X-Forwarded-*`) is never looked at.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from ipaddress import ip_address

from dashcam.errors import AccessDenied

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(rf"(?P<scheme>https?)://{_HOST.pattern}")
_PORTS = {"http": 80, "https": 443}
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_OURS = frozenset(("same-origin", "none"))  # not `same-site`: every port of localhost is the same site


def is_loopback(host: str) -> bool:
    """Whether this address reaches only this machine. Of names only `localhost` can, if it means what it should."""
    return _is_loopback_address(host) or (host.lower() == "localhost" and _resolves_to_loopback(host))


def check_host(headers: Mapping[str, str]) -> None:
    """Refuse a request that didn't ask for this machine by its own address: a name may be made to mean anything."""
    found = _HOST.fullmatch(headers.get("host", "").lower())
    if not found or not (found["name"] == "localhost" or _is_loopback_address(found["name"])):
        raise AccessDenied(
            "Without a key this server answers only to localhost and loopback addresses, and the Host header names "
            "another or none. Use http://localhost, or make a key with: dashcam keys create",
            status=403,
        )


def check_origin(headers: Mapping[str, str], method: str) -> None:
    """Refuse what a page of another site sent. What comes from no browser says nothing of this, and may pass."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    followed_link = method in _SAFE and headers.get("sec-fetch-mode") == "navigate"
    if (origin is not None and not _is_same(origin, headers.get("host", ""))) or (
        site not in _OURS and not followed_link
    ):
        raise AccessDenied(
            "A page of another site sent this request. Use this server's own pages, or send a key as "
            "Authorization: Bearer KEY; make one with: dashcam keys create",
            status=403,
        )


def _is_same(origin: str, host: str) -> bool:
    one, other = _ORIGIN.fullmatch(origin.lower()), _HOST.fullmatch(host.lower())
    if not one or not other or one["name"] != other["name"]:
        return False
    usual = _PORTS[one["scheme"]]
    return int(one["port"] or usual) == int(other["port"] or usual)


def _is_loopback_address(name: str) -> bool:
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _resolves_to_loopback(name: str) -> bool:
    try:
        found = {str(address[0]) for *_, address in socket.getaddrinfo(name, None)}
    except OSError:
        return False
    return bool(found) and all(map(_is_loopback_address, found))
