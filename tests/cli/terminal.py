"""A terminal for tests of the command: what it is sent."""

from __future__ import annotations

import os
import pty
import subprocess
import sys


def on_a_terminal(*arguments: str, columns: int = 100, with_errors: bool = True) -> str:
    """What a terminal of that width is sent by the command; without errors, only what goes to stdout."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    errors = theirs if with_errors else subprocess.DEVNULL
    command = [sys.executable, "-m", "dashcam", *arguments]
    process = subprocess.Popen(command, stdout=theirs, stderr=errors, stdin=theirs, env=environment)
    os.close(theirs)
    received = b""
    try:
        while piece := os.read(ours, 65_536):
            received += piece
    except OSError:  # how Linux tells that the other side is closed
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=60) == 0, received
    return received.decode()
