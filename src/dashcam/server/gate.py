"""Around the whole app: how many at once, what every answer carries, and what is counted of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from dashcam.errors import TooBusy
from dashcam.record.receive import Form
from dashcam.server.answers import MEDIA, problem_of, status_message
from dashcam.server.limits import Limits
from dashcam.server.metrics import Metrics
from dashcam.server.slashes import keep_slashes

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

DRAINED_BYTES = 256 << 20  # of a refused body, read and forgotten
DRAINED_SECONDS = 10.0
_STREAM = b"text/event-stream"

_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cross-origin-resource-policy": b"same-origin",
    b"content-security-policy": b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    b"cache-control": b"no-store",
}


class Gate:
    """The outermost layer of ASGI. A request that is one too many is answered here."""

    def __init__(self, app: App, limits: Limits, metrics: Metrics) -> None:
        self._app, self._limits, self._metrics = app, limits, metrics
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"
        scope = {**scope, "method": "GET" if head else scope["method"]}
        keep_slashes(scope)
        passage = _Passage(self, scope, receive, send, head=head)
        if self._open >= self._limits.requests:
            await passage.refuse(
                TooBusy(
                    f"{self._open} requests are open, and no more are taken at once. Try again in a moment, or start "
                    "the server with a larger --max-requests."
                )
            )
            return
        self._open += 1
        try:
            await self._app(scope, passage.receive, passage.send)
        finally:
            passage.leave()
            self.count(scope, passage.status)

    def left(self) -> None:
        self._open -= 1

    def count(self, scope: Scope, status: int) -> None:
        """By the route's own pattern: what a client may write as it likes must not become a label."""
        self._metrics.requests.labels(scope.get("path_template") or "other", str(status)).inc()
        if status >= 400:
            self._metrics.refused.labels(str(status)).inc()


class _Passage:
    """One request on its way in, and its answer on the way out."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send, *, head: bool) -> None:
        self._gate, self._scope, self._receive, self._send = gate, scope, receive, send
        self._head = head  # what GET answers, without its body
        self._read = self._has_left = False
        self._expects = any(name == b"expect" for name, _ in scope["headers"])
        self.status = 0

    async def receive(self) -> Message:
        self._expects = False
        message = await self._receive()
        self._read = self._read or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = dict(message["headers"])
            if self.status >= 400 and self.status != 408:
                await self._drain()
            if headers.get(b"content-type", b"").startswith(_STREAM):
                self.leave()  # a stream stays for hours, and asks for next to nothing
            missing = [(name, value) for name, value in _HEADERS.items() if name not in headers]
            message = {**message, "headers": [*message["headers"], *missing]}
            await self._send(message)
            if self._head:  # at once, since a stream would never come to its end
                await self._send({"type": "http.response.body", "body": b""})
        elif not self._head:
            await self._send(message)

    async def refuse(self, error: TooBusy) -> None:
        """Answer in a form that both OTLP and our own clients read."""
        self._has_left = True
        problem = msgspec.structs.replace(problem_of(error), status=503)
        form: Form = "protobuf" if b"protobuf" in dict(self._scope["headers"]).get(b"content-type", b"") else "json"
        body = status_message(problem)
        if form == "json":
            body = msgspec.json.encode({"error": problem.message, "code": problem.code, "message": problem.message})
        headers = {"Content-Type": MEDIA[form], "Content-Length": str(len(body)), **problem.headers}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": problem.status, "headers": raw})
        await self.send({"type": "http.response.body", "body": body})
        self._gate.count(self._scope, problem.status)

    def leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._gate.left()

    async def _drain(self) -> None:
        """Read what is left of a refused body: a sender whose connection breaks never sees why it was refused."""
        if self._expects:
            return  # the sender asked first, and has sent nothing
        size = 0
        try:
            async with asyncio.timeout(DRAINED_SECONDS):
                while not self._read and size < DRAINED_BYTES:
                    message = await self.receive()
                    size += len(message.get("body", b""))
        except TimeoutError:
            pass
