"""A real server in a process of its own, on free ports, for the length of a block."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from dashcam.sdk.settings import settings_from
from dashcam.store.sqlite.store import SqliteReader

STARTING = 60.0  # seconds


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """`dashcam serve` on `data`. `http` talks to it."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        ports = ("--port", "0", "--otlp-port", "0", "--grpc-port", str(free_port()))
        command = [sys.executable, "-m", "dashcam", "serve", "--json", "--data", str(data), *ports, *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DASHCAM_")}
        self.log = data.parent / f"{data.name}-server.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        self.process.stdout.close()
        if not said:
            self.process.wait()
        assert said, f"the server did not start: {self.log.read_text()}"
        self.listening: dict[str, Any] = msgspec.json.decode(said)
        self.http = httpx.Client(base_url=self.url, timeout=STARTING)

    @property
    def url(self) -> str:
        return str(self.listening["url"])

    @property
    def grpc(self) -> str:
        return str(self.listening["grpc"]).removeprefix("http://")

    @property
    def said(self) -> str:
        """Everything that it has logged."""
        return self.log.read_text()

    def metric(self, line: str) -> float:
        """The value of a figure, by its name and labels."""
        found = [text for text in self.http.get("/metrics").text.splitlines() if text.startswith(f"{line} ")]
        return float(found[0].split()[-1]) if found else 0.0

    def stop(self) -> int:
        """Ask it to stop, and wait for its end."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STARTING)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(data: Path, *options: str) -> Iterator[ServerProcess]:
    server = ServerProcess(data, *options)
    try:
        yield server
    finally:
        server.http.close()
        if server.process.poll() is None:
            server.kill()


@contextmanager
def holding(server: ServerProcess, size: int) -> Iterator[None]:
    """A request that has sent `size` bytes of its body and is in no hurry with the rest."""
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as waiting:
        head = f"Content-Type: application/json\r\nContent-Length: {size + 1}"
        waiting.sendall(f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n".encode() + bytes(size))
        eventually(lambda: server.metric("dashcam_queue_bytes") >= size)
        yield


def eventually(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What `what` gives, as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found, "it did not come to that"
    return found


@contextmanager
def stored(data: Path, project: str = "default") -> Iterator[SqliteReader]:
    """The store as it lies on the disk."""
    with SqliteReader(settings_from({}, data=data, project=project).store) as reader:
        yield reader
