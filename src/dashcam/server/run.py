"""Running the server: until it is told to stop, and then without losing anything."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from dashcam.record.collect import SWITCH_SECONDS
from dashcam.server.access import Doorman, check_start
from dashcam.server.app import make_app
from dashcam.server.listening import Listeners, Listening, Options
from dashcam.server.logs import tell
from dashcam.server.state import Server
from dashcam.store.control import Control

GRACE_SECONDS = 10  # for requests that are open when the server is told to stop
HEADER_BYTES = 64 << 10
CONNECTIONS = 2048
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(options: Options, ready: Callable[[Listening], None]) -> None:
    """Serve until told to stop. `ready` is called once, when records are taken."""
    sys.setswitchinterval(SWITCH_SECONDS)  # else the writing thread waits 5 ms for the GIL at every statement
    with Control(options.data) as control:
        check_start(options.host, control, options.require_key)
        doorman = Doorman(control, host=options.host, project=options.project, require_key=options.require_key)
        asyncio.run(_serve(options, doorman, ready))


async def _serve(options: Options, doorman: Doorman, ready: Callable[[Listening], None]) -> None:
    with Listeners(options) as listeners:
        server = Server(options.data, options.project, options.limits, doorman)
        try:
            await asyncio.to_thread(server.start)
            await listeners.open_grpc(server)
            await _Runner(server, listeners, ready).serve(listeners.sockets)
        finally:
            server.draining = True
            await asyncio.to_thread(server.stop)
            tell("stopped")


class _Runner(uvicorn.Server):
    """uvicorn, with signals of our own: the first drains, the second ends it at once."""

    def __init__(self, server: Server, listeners: Listeners, ready: Callable[[Listening], None]) -> None:
        super().__init__(
            uvicorn.Config(
                make_app(server),
                loop="asyncio",
                http="h11",  # the other that uvicorn would take where it is installed has no limit for headers
                lifespan="on",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=CONNECTIONS,
                h11_max_incomplete_event_size=HEADER_BYTES,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._server, self._listeners, self._ready = server, listeners, ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._asked_to_stop)
        yield  # they stay until the process ends: what is drained afterwards can be cut short, too

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            told = self._listeners.told()
            tell("listening", url=told.url, otlp=told.otlp, grpc=told.grpc, project=told.project)
            self._ready(told)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        calls = self._listeners.grpc
        await asyncio.gather(super().shutdown(sockets), *([calls.stop(GRACE_SECONDS)] if calls else []))

    def _asked_to_stop(self) -> None:
        if self.should_exit:
            tell("stopped at once", logging.WARNING)
            self._server.projector.kill()
            os._exit(1)  # what was acknowledged is on the disk: there is nothing to be lost by this
        tell("stopping")
        self._server.draining = self.should_exit = True
