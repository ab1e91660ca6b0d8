"""Where the server listens: ports that were asked for, and the usual ones where they are free."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from dashcam.errors import SettingsError
from dashcam.server.grpc_door import open_grpc
from dashcam.server.limits import Limits
from dashcam.server.state import Server

OTLP_PORT, GRPC_PORT = 4318, 4317


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve. A port that is None is the usual one where that is free; 0 is none, or any for `port`."""

    data: Path
    project: str = "default"
    host: str = "127.0.0.1"
    port: int = 4680
    otlp_port: int | None = None
    grpc_port: int | None = None
    require_key: bool = False
    limits: Limits = Limits()


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server is to be found; None: not there. `said` is what is worth knowing of it."""

    url: str
    otlp: str | None = None
    grpc: str | None = None
    data: str
    project: str
    pid: int
    said: list[str] = []


class Listeners:
    """The open ports, closed with the block."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._said: list[str] = []
        self._otlp: socket.socket | None = None
        self.grpc: Any = None  # a grpc.aio.Server
        self._web = _listen(options.host, options.port, "--port")
        if options.otlp_port != 0:
            with self._optional(options.otlp_port):
                self._otlp = _listen(options.host, options.otlp_port or OTLP_PORT, "--otlp-port")

    def __enter__(self) -> Listeners:
        return self

    def __exit__(self, *ended: object) -> None:
        for each in self.sockets:
            each.close()

    @property
    def sockets(self) -> list[socket.socket]:
        return [self._web] if self._otlp is None else [self._web, self._otlp]

    async def open_grpc(self, server: Server) -> None:
        if self._options.grpc_port != 0:
            with self._optional(self._options.grpc_port):
                self.grpc = await open_grpc(server, self._options.host, self._options.grpc_port or GRPC_PORT)

    def told(self) -> Listening:
        options = self._options
        return Listening(
            url=_url(options.host, self._web.getsockname()[1]),
            otlp=_url(options.host, self._otlp.getsockname()[1]) if self._otlp else None,
            grpc=_url(options.host, options.grpc_port or GRPC_PORT) if self.grpc else None,
            data=str(options.data),
            project=options.project,
            pid=os.getpid(),
            said=self._said,
        )

    @contextmanager
    def _optional(self, asked: int | None) -> Iterator[None]:
        """A port that nobody asked for may be taken: say so and go on. One that was asked for may not."""
        try:
            yield
        except SettingsError as error:
            if asked is not None:
                self.__exit__()
                raise
            self._said.append(str(error))


def _listen(host: str, port: int, option: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, since only then asyncio switches off Nagle's algorithm, which costs 40 ms an answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # two may be bound, only one of them listens
    except (OSError, OverflowError) as error:
        listener.close()
        raise SettingsError(f"{host}:{port} can't be listened on: {error}. Choose another {option}.") from None
    return listener


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
