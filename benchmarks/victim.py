"""A server that is made to suffer: killed, killed while it starts, robbed of its projector, asked to stop."""

from __future__ import annotations

import http.client
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from benchmarks.peers import free_port

Blow = Literal["kill", "kill at start", "kill projector", "stop"]
PATIENCE = 60.0  # seconds until it answers


class Victim:
    """`dashcam serve` on one folder and one port, however often it is started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self) -> None:
        """Start it, and return when records are taken."""
        self._process = self._launch()
        self._wait_until_ready()

    def strike(self, blow: Blow) -> None:
        """Do it, and return when records are taken again."""
        if blow == "kill projector":
            self._kill_projector()
            return
        if blow == "stop":
            self.stop()
        else:
            self.kill()
        if blow == "kill at start":
            self._process = self._launch()
            time.sleep(random.uniform(0, 0.6))
            self.kill()
        self.start()

    def kill(self) -> None:
        """The server alone: its projector has to find out by itself."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end; raises if it does not end well."""
        self._process.terminate()
        if code := self._process.wait(PATIENCE):
            raise RuntimeError(f"it ended with {code}: {self._said()}")

    def end(self) -> None:
        """End whatever is left of all that was started."""
        self._process.kill()
        self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _kill_projector(self) -> None:
        before = self._projectors()
        for pid in before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while not set(self._projectors()) - set(before):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the projector did not come back: {self._said()}")
            time.sleep(0.02)

    def _projectors(self) -> list[int]:
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    def _launch(self) -> subprocess.Popen[bytes]:
        ports = ("--port", str(self.port), "--otlp-port", "0", "--grpc-port", "0")
        with (self.folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "dashcam", "serve", "--data", str(self.folder), *ports],
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"it does not serve ({self._process.poll()}): {self._said()}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _said(self) -> str:
        return (self.folder / "output.txt").read_text()[-2000:]
