"""The `dashcam` command: one module a group of commands."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """The entry point. Where only the SDK is installed it says what is missing, and nothing more."""
    if find_spec("typer") is None or find_spec("rich") is None:
        from dashcam.errors import MissingExtra

        missing = MissingExtra("The dashcam command", "cli")
        sys.stderr.write(f"{missing}\n")
        sys.exit(missing.exit_code)
    from dashcam.cli.app import run

    run()
