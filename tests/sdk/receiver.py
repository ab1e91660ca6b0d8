"""A server that speaks docs/wire.md and nothing else, and that can be told to misbehave."""

from __future__ import annotations

import gzip
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl")


class Request(NamedTuple):
    at: float
    segment: str
    offset: int
    body: bytes
    headers: dict[str, str]


@dataclass
class Reply:
    """What to do instead of committing and saying so."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    commit: bool = False
    drop: bool = False  # hang up without a word
    slow: float = 0.0
    offset: int | None = None  # to acknowledge this one instead


class Receiver:
    """Keeps each record once, by (segment, offset). `plan` says what to do with the next requests,
    `rule` with all others; where neither says anything the request is committed and acknowledged.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], bytes] = {}
        self.requests: list[Request] = []
        self.breaches: list[str] = []  # what the sender did against the contract
        self.most_at_once: Counter[str] = Counter()
        self.plan: list[Reply] = []
        self.rule: Callable[[Request], Reply | None] = lambda request: None
        self._busy: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.come_back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[bytes]:
        """The records in the order of their identities."""
        return [line for _, line in sorted(self.records.items())]

    def come_back(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._serve(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        # The poll is how long going away takes.
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def go_away(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if handler.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        segment, offset = handler.headers["X-Dashcam-Segment"], int(handler.headers["X-Dashcam-Offset"])
        request = Request(time.monotonic(), segment, offset, body, dict(handler.headers.items()))
        with self._lock:
            self._check(request, handler.path)
            self.requests.append(request)
            self._busy[segment] += 1
            self.most_at_once[segment] = max(self.most_at_once[segment], self._busy[segment])
            reply = (self.plan.pop(0) if self.plan else self.rule(request)) or Reply(commit=True)
            new = self._commit(request) if reply.commit else 0
        time.sleep(reply.slow)
        with self._lock:
            self._busy[segment] -= 1
        if reply.drop:
            handler.close_connection = True
            return
        self._answer(handler, request, reply, new)

    def _answer(self, handler: BaseHTTPRequestHandler, request: Request, reply: Reply, new: int) -> None:
        wanted = request.offset + len(request.body) if reply.offset is None else reply.offset
        said = {"segment": request.segment, "offset": wanted, "new": new, "quarantined": 0}
        if reply.status != 200:
            said = {"error": f"a planned {reply.status}"}
        body = msgspec.json.encode(said) if reply.body is None else reply.body
        try:
            handler.send_response(reply.status)
            # What it says in its own words is JSON; a planned body is that of somebody else.
            kind = "application/json" if reply.body is None else "text/html"
            headers = {"Content-Type": kind, "Content-Length": str(len(body)), **reply.headers}
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:
            pass  # the sender has gone

    def _check(self, request: Request, path: str) -> None:
        wrong = {
            "path": path != "/v1/records",
            "type": request.headers.get("Content-Type") != "application/x-ndjson",
            "agent": not re.fullmatch(r"dashcam/\d\S*", request.headers.get("User-Agent", "")),
            "name": not NAME.fullmatch(request.segment),
            "part of a line": not request.body.endswith(b"\n"),
            "too long": len(request.body) > 1024 * 1024 and request.body.count(b"\n") > 1,
        }
        self.breaches += [what for what, is_so in wrong.items() if is_so]

    def _commit(self, request: Request) -> int:
        before, at = len(self.records), request.offset
        for line in request.body.splitlines(keepends=True):
            identity = (request.segment, at)
            if self.records.setdefault(identity, line) != line:
                self.breaches.append(f"two bodies for {identity}")
            at += len(line)
        return len(self.records) - before
