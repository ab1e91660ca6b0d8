"""One slice of a segment to the server, and what its answer means. docs/wire.md is the contract."""

from __future__ import annotations

import functools
import hashlib
import importlib
import re
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from dashcam import __version__
from dashcam.errors import SettingsError
from dashcam.sdk.locks import no_fork
from dashcam.sdk.settings import Settings

if TYPE_CHECKING:
    from urllib.request import OpenerDirector  # loaded by the thread, not by the host

PATH = "/v1/records"
GZIP_FROM = 1024  # below, the header of gzip eats what it saves
ANSWER_BYTES = 64 * 1024
SAID_CHARACTERS = 200
LONGEST_RETRY_AFTER = 3600.0  # a server that says "in a year" has a wrong clock, not a plan

Kind = Literal[
    "away",  # no answer, or one that says it will pass
    "busy",  # 429 and 503
    "answer",  # one that is not in the contract
    "again",  # the server wants what it had
    "key",
    "address",
    "disk",
    "bug",
]

_VISIBLE = re.compile(r"[!-~]+")


class Head(Protocol):
    """The headers of an answer."""

    def get(self, name: str, /) -> str | None: ...


_NO_HEAD: Head = MappingProxyType[str, str]({})


class Accepted(msgspec.Struct, frozen=True):
    """Committed. `offset` is the next byte that the server wants of this segment."""

    segment: str
    offset: Annotated[int, msgspec.Meta(ge=0)]
    new: int = 0
    quarantined: int = 0


class Refused(msgspec.Struct, frozen=True):
    """The server takes other batches, but not this one: too large, or something in it is wrong.

    Where it is not `certain`, something between us and the server may have said so: a smaller batch
    may get through, but no line is passed over for it.
    """

    what: str
    certain: bool = True


class _Error(msgspec.Struct, frozen=True):
    error: str


class Trouble(msgspec.Struct, frozen=True):
    """Nothing was acknowledged. The same slice is sent again, later."""

    kind: Kind
    what: str
    retry_after: float | None = None

    @property
    def to_mend(self) -> bool:
        """Whether a person has to do something first, so that trying often is no use."""
        return self.kind in ("key", "address")


Verdict = Accepted | Refused | Trouble


class Destination:
    """Where journals go. A plain class, because nothing that prints itself may hold the key."""

    def __init__(self, settings: Settings) -> None:
        if settings.url is None:
            raise SettingsError(
                "There is no server to ship to. Set DASHCAM_URL to its address, for instance http://127.0.0.1:4680"
            )
        self.url = _checked_address(settings.url)
        self._api_key = (settings.api_key or "").strip()
        if self._api_key and not _VISIBLE.fullmatch(self._api_key):
            raise SettingsError("DASHCAM_API_KEY holds characters that no HTTP header can carry. Copy it again.")
        self._opener: OpenerDirector | None = None
        # Progress is kept under this name, so that another server is sent everything from the start.
        self.digest = hashlib.sha256(self.url.encode()).hexdigest()[:12]

    def send(self, segment: str, offset: int, body: bytes, timeout: float) -> Verdict:
        """One request. Never raises for what a network or a server can do."""
        _load()
        import gzip
        import urllib.request
        from http.client import HTTPException

        headers = {
            "Content-Type": "application/x-ndjson",
            "User-Agent": f"dashcam/{__version__}",
            "X-Dashcam-Segment": segment,
            "X-Dashcam-Offset": str(offset),
        }
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        if len(body) >= GZIP_FROM:
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, 1, mtime=0)
        request = urllib.request.Request(self.url + PATH, body, headers, method="POST")  # noqa: S310 - checked
        self._opener = self._opener or _make_opener(self.url)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                said, head = self._without_key(response.read(ANSWER_BYTES)), response.headers
                return judge(response.status, said, segment, head)
        except (OSError, HTTPException, ValueError) as error:  # ValueError: a name that is no host name
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
            return Trouble("away", self._without_key(reason.encode(errors="replace")).decode()[:SAID_CHARACTERS])

    def _without_key(self, text: bytes) -> bytes:
        """Some servers repeat in an error what they were sent."""
        return text.replace(self._api_key.encode(), b"[key]") if self._api_key else text


@functools.cache
def _load() -> None:
    """Import all that a request needs, and what that would import on its way.

    A fork in the middle of an import leaves the child with a module that never gets ready.
    """
    with no_fork:
        for name in ("email.utils", "gzip", "http.client", "ssl", "urllib.request"):
            importlib.import_module(name)
        "host".encode("idna")


def _make_opener(url: str) -> OpenerDirector:
    """No more handlers than these: no redirects (the key would go along), no files, no FTP.

    Proxies come from the environment alone, because asking macOS for its own crashes in a forked
    process, and none stands between us and our own machine.
    """
    import ssl
    import urllib.request

    ours = re.fullmatch(r"localhost|127\..*|::1", urlsplit(url).hostname or "")
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.ProxyHandler({} if ours else urllib.request.getproxies_environment()))
    opener.add_handler(urllib.request.HTTPHandler())
    if url.startswith("https:"):  # made once: it reads every certificate authority of the system
        opener.add_handler(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    return opener


def judge(status: int, said: bytes, segment: str, head: Head = _NO_HEAD) -> Verdict:
    """What an answer means. Pure, and total: any answer of any server has a meaning."""
    if status == 200:
        return _acknowledged(said, segment)
    what = f"HTTP {status}"
    if text := said.decode(errors="replace")[:SAID_CHARACTERS].strip():
        what += f" {text!r}"  # as a literal, so that no answer can write lines of its own into a log
    if status in (400, 413, 422):
        if _is_ours(said, head.get("Content-Type") or ""):
            return Refused(what)
        return Refused(what, certain=False) if status == 413 else Trouble("answer", what)
    if status in (429, 503):
        return Trouble("busy", what, _seconds(head.get("Retry-After") or "", head.get("Date") or ""))
    if status == 408 or status >= 500:
        return Trouble("away", what)
    if status < 300:
        return Trouble("answer", what)
    return Trouble("key" if status in (401, 403) else "address", what)


def _is_ours(said: bytes, content_type: str) -> bool:
    """Whether a refusal is the server's own. A proxy says 400 too, in HTML, and knows nothing of a line."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return False
    try:
        return bool(msgspec.json.decode(said, type=_Error).error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _acknowledged(said: bytes, segment: str) -> Verdict:
    try:
        answer = msgspec.json.decode(said, type=Accepted)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Trouble("answer", "HTTP 200 without an acknowledgement")
    if answer.segment != segment:
        return Trouble("answer", "HTTP 200 that acknowledges another segment")
    return answer


def _seconds(retry_after: str, date: str) -> float | None:
    """The seconds to wait, from either form of Retry-After; None where it says nothing usable."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after.strip()):
        return min(float(retry_after), LONGEST_RETRY_AFTER)
    until = _date(retry_after)
    if until is None:
        return None
    # By the server's own clock where it tells it: ours may be off by more than the wait.
    now = _date(date) or datetime.now(UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER)


def _date(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _checked_address(url: str) -> str:
    """The address without its last slash, or an error that doesn't repeat a password that is in it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not _VISIBLE.fullmatch(url):
        raise SettingsError("DASHCAM_URL is no address of a server. It looks like http://127.0.0.1:4680")
    if parts.username is not None or parts.query or parts.fragment:
        raise SettingsError(
            "DASHCAM_URL holds a user name, a query or a fragment. Give the address alone, "
            "and the key in DASHCAM_API_KEY."
        )
    return url.rstrip("/")
