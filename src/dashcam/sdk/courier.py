"""One pass over the backlog: slices to the server, and what to do with each answer."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec

from dashcam.sdk.backlog import Backlog, Claim
from dashcam.sdk.settings import Settings
from dashcam.sdk.wire import Accepted, Destination, Kind, Refused, Trouble

log = logging.getLogger("dashcam")

_uniform = secrets.SystemRandom().uniform  # the host's own random numbers stay as it seeded them

_MENDING: dict[Kind, str] = {
    "away": "It is tried again until the server is back.",
    "busy": "It is tried again when the server wants it.",
    "answer": "Is DASHCAM_URL the address of a dashcam server? It is tried again.",
    "again": "It is sent again.",
    "key": "Set DASHCAM_API_KEY to a key that this server takes.",
    "address": "Set DASHCAM_URL to the server's own address; a redirect is not followed, with the key.",
    "disk": "Make the folder readable and writable, with room on its disk.",
    "bug": "Please report it. It is tried again.",
}


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much, in seconds and bytes."""

    first_wait: float = 0.5  # doubled with each failure in a row
    longest_wait: float = 30.0
    mend_wait: float = 60.0  # where a person has to do something first
    request: float = 10.0  # to connect, and for each wait for bytes
    batch: int = 1024 * 1024


class Courier:
    """Sends what waits, one request after the other, and counts what became of it.

    Never raises: trouble is counted, its first of a kind is logged, and `wait` says when to try again.
    """

    def __init__(self, settings: Settings, pace: Pace, stopped: Callable[[], bool] = lambda: False) -> None:
        self._to = Destination(settings)
        self._backlog = Backlog(settings, self._to.digest)
        self._pace, self._stopped = pace, stopped
        self._limit = pace.batch
        self._told: set[str] = set()
        self._torn: set[str] = set()
        self._in_a_row = 0
        self._resume = 0.0
        self.trouble: Trouble | None = None
        self.bytes = self.requests = self.refused = self.quarantined = self.failures = 0
        self.last_error: str | None = None

    def run(self) -> bool:
        """Send all that was on disk at the start of this pass; return whether nothing of it is left."""
        try:
            left = self._pass()
        except Exception as error:  # whatever it is, it is not the host's
            left = _trouble_of(error)
        if isinstance(left, Trouble):
            self._stumble(left)
            return False
        self._recover()
        return left

    def _pass(self) -> bool | Trouble:
        clean, unreadable = True, None
        for segment in self._backlog.waiting():
            try:
                with self._backlog.claim(segment) as claim:
                    if claim is None:  # another process is at it
                        clean = clean and not self._backlog.missing(segment)
                    elif trouble := self._ship(claim):
                        return trouble
            except FileNotFoundError:  # most likely removed meanwhile
                clean = clean and not segment.path.exists()
            except OSError as error:  # this one, not the next
                unreadable = _trouble_of(error)
            if self._stopped():
                return False
        return unreadable or clean

    def _ship(self, claim: Claim) -> Trouble | None:
        while body := claim.slice(self._limit):
            answer = self._to.send(claim.name, claim.offset, body, self._pace.request)
            match answer:
                case Accepted():
                    trouble = self._accept(claim, body, answer)
                case Refused():
                    trouble = self._narrow(claim, body, answer)
                case Trouble():
                    trouble = answer
                    if answer.kind == "away":  # it may have hung up on a batch too large for it
                        self._limit = max(self._limit // 2, self._pace.batch // 16, 1)
            if trouble or self._stopped():
                return trouble
            self._recover()
        if claim.torn:
            self._torn.add(claim.name)
        if claim.torn or claim.offset == claim.end:
            self._backlog.settle(claim)
        return None

    def _accept(self, claim: Claim, body: bytes, answer: Accepted) -> Trouble | None:
        """Go on after what was sent, or from where the server wants it again."""
        start, wanted = claim.offset, min(answer.offset, claim.offset + len(body))
        if not claim.starts_line(wanted):
            return Trouble("answer", "The acknowledged offset lies inside a line")
        if (trouble := _noted(claim, wanted)) or wanted <= start:
            # Without a pause, a server that always wants the same again would be sent it without end.
            return trouble or Trouble("again", f"The server wants {claim.name} again from byte {wanted}")
        self.requests += 1
        self.bytes += wanted - start
        self.quarantined += answer.quarantined
        self._limit = min(self._limit * 2, self._pace.batch)
        return None

    def _narrow(self, claim: Claim, body: bytes, answer: Refused) -> Trouble | None:
        """Find the line that the server doesn't take by halving; that one alone is passed over."""
        if body.count(b"\n") > 1:
            self._limit = len(body) // 2
            return None
        if not answer.certain:
            return Trouble("answer", answer.what)
        where = f"{claim.name} at byte {claim.offset}"
        if trouble := _noted(claim, claim.offset + len(body), refused=1):
            return trouble
        self.refused += 1
        self.last_error = f"{self._to.url} refused a record, {where}: {answer.what}"
        self._tell("refused", "%s. It stays in %s; more of them are counted.", self._backlog.journals)
        log.debug("Refused: %s", where)
        return None

    def _stumble(self, trouble: Trouble) -> None:
        self.failures += 1
        self.trouble = trouble
        self.last_error = f"{self._to.url}: {trouble.what}"
        longest = min(self._pace.first_wait * 2.0 ** min(self._in_a_row, 30), self._pace.longest_wait)
        wait = _uniform(longest / 2, longest)
        if trouble.to_mend:
            wait = self._pace.mend_wait
        elif trouble.retry_after is not None:  # later is allowed, sooner is not
            wait += trouble.retry_after
        self._in_a_row += 1
        self._resume = time.monotonic() + wait
        text = f"Journals can't be shipped to %s. They are kept in %s. {_MENDING[trouble.kind]}"
        self._tell(trouble.kind, text, self._backlog.journals)

    def _recover(self) -> None:
        self.trouble, self._in_a_row = None, 0

    def _tell(self, kind: str, text: str, *more: object) -> None:
        """Once for each kind, and not when the interpreter is on its way out."""
        if kind not in self._told and not self._stopped():
            self._told.add(kind)
            log.warning(text, self.last_error, *more)

    def wait(self, interval: float) -> float:
        """The seconds until the next pass."""
        return interval if self.trouble is None else max(self._resume - time.monotonic(), 0.0)

    @property
    def held(self) -> bool:
        """Whether the server asked not to be called yet."""
        return self.trouble is not None and self.trouble.retry_after is not None and self.wait(0.0) > 0

    def stats(self) -> dict[str, Any]:
        try:
            behind = self._backlog.behind()
        except OSError:
            behind = None
        return {
            "url": self._to.url,
            "shipped_bytes": self.bytes,
            "shipped_requests": self.requests,
            "refused": self.refused,
            "quarantined": self.quarantined,
            "torn": len(self._torn),
            "failures": self.failures,
            "behind_bytes": behind,
            "paused": self.trouble.kind if self.trouble else None,
            "last_error": self.last_error,
        }


def _noted(claim: Claim, offset: int, refused: int = 0) -> Trouble | None:
    """Write the progress down. Where that fails, sending on would only repeat itself later."""
    try:
        claim.move_to(offset, refused)
    except OSError as error:
        return _trouble_of(error)
    return None


def _trouble_of(error: Exception) -> Trouble:
    kind: Kind = "disk" if isinstance(error, OSError) else "bug"
    return Trouble(kind, f"{type(error).__name__}: {error}")
