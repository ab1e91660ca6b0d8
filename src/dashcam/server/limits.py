"""How much at once: sizes, seconds, and the bytes of all bodies together."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dashcam.errors import SettingsError, TooBusy, TooLarge, TooSlow, UnreadableInput, UnsupportedForm

ENCODINGS = {
    "": 0,
    "identity": 0,
    "gzip": zlib.MAX_WBITS | 16,
    "x-gzip": zlib.MAX_WBITS | 16,
    "deflate": zlib.MAX_WBITS,
}
MEMBERS = 32

Receive = Callable[[], Awaitable[Any]]  # of ASGI


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request, and all of them together, may take. `dashcam serve` has an option for each."""

    body: int = 32 << 20  # bytes as they are sent
    inflated: int = 64 << 20  # bytes once decompressed
    held: int = 64 << 20  # bytes of all bodies that are being read or wait to be written
    requests: int = 256  # at the same time
    body_seconds: float = 30.0  # from the first byte of a body to its last

    def __post_init__(self) -> None:
        if self.held < self.body:
            raise SettingsError("--max-queued is less than --max-body: such a body could never be taken. Raise it.")


class Held:
    """The bytes of all bodies in memory. Used by the event loop alone, so it needs no lock."""

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0

    def take(self, size: int) -> None:
        if self.bytes + size > self.limit:
            raise TooBusy(
                f"The server holds {self.bytes:,} bytes that are not written yet, and takes {self.limit:,} at most. "
                "Send this again in a moment, or start it with a larger --max-queued."
            )
        self.bytes += size

    def release(self, size: int) -> None:
        self.bytes -= size


@asynccontextmanager
async def body_of(receive: Receive, length: str, limits: Limits, held: Held) -> AsyncIterator[bytes]:
    """The body of a request, counted as held for the length of the block.

    `length` is what the request says it has; one that says too much is refused before any of it is kept.
    """
    if length.isascii() and length.isdigit() and int(length[:20]) > limits.body:
        raise TooLarge("The body", limits.body, "--max-body")
    pieces: list[bytes] = []
    try:
        try:
            async with asyncio.timeout(limits.body_seconds):
                await _read(receive, limits, held, pieces)
        except TimeoutError:
            raise TooSlow(limits.body_seconds) from None
        pieces[:] = [b"".join(pieces)]
        yield pieces[0]
    finally:
        held.release(sum(map(len, pieces)))


async def _read(receive: Receive, limits: Limits, held: Held, pieces: list[bytes]) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise UnreadableInput("The connection ended before the body did. Send it again.")
        piece, more = message.get("body", b""), message.get("more_body", False)
        size += len(piece)
        if size > limits.body:
            raise TooLarge("The body", limits.body, "--max-body")
        held.take(len(piece))
        pieces.append(piece)


def encoding_of(header: str) -> str:
    """The content encoding that a request names, if it is one of ours."""
    encoding = header.strip().lower()
    if encoding not in ENCODINGS:
        raise UnsupportedForm(f"Content-Encoding {header!r:.40} is not read here. Send gzip, deflate, or none.")
    return encoding


def inflate(body: bytes, encoding: str, limit: int) -> bytes:
    """The body, decompressed; no more than `limit` bytes of it are ever made."""
    window = ENCODINGS[encoding]
    if not window:
        if len(body) > limit:
            raise TooLarge("The body", limit, "--max-decompressed")
        return body
    pieces: list[bytes] = []
    left = limit
    try:
        while body:  # gzip may have several members, one after the other; each costs a copy of what follows it
            if len(pieces) == MEMBERS:
                raise UnreadableInput(f"The body has more than {MEMBERS} gzip members. Compress it in one go.")
            member = zlib.decompressobj(window)
            piece = member.decompress(body, left + 1)
            if len(piece) > left:
                raise TooLarge("The decompressed body", limit, "--max-decompressed")
            if not member.eof:
                raise UnreadableInput("The compressed body ends too early. Send all of it.")
            pieces.append(piece)
            left -= len(piece)
            body = member.unused_data
    except zlib.error as error:
        raise UnreadableInput(
            f"The body is not {encoding}: {error}. Compress it, or leave Content-Encoding out."
        ) from None
    return b"".join(pieces)
