"""The command line, put together: every command, and what an error looks like."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from dashcam import __version__
from dashcam.cli import (
    again,
    compare,
    doctor,
    finding,
    keys,
    runs,
    serve,
    sessions,
    transfer,
    upkeep,
    vocabulary,
    waterfall,
)
from dashcam.cli.output import err, inert
from dashcam.errors import DashcamError

app = typer.Typer(
    name="dashcam",
    help="A flight recorder for AI agents. What they did, joinable and found again.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"dashcam {__version__}\n")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for group in (runs, waterfall, sessions, finding, compare, again, serve, transfer, vocabulary, doctor, upkeep):
    for command in group.COMMANDS:
        app.command()(command)
app.add_typer(keys.keys)


def run() -> None:
    """Run the command; an error that a person can mend prints the mend and no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    try:
        app()
    except DashcamError as error:
        err.print(inert(f"dashcam: {error}"))
        sys.exit(error.exit_code)
    except UnicodeEncodeError:
        err.print("dashcam: an argument holds bytes that are no text in this locale. Give it as UTF-8.")
        sys.exit(2)
    except BrokenPipeError:
        # The reader went away (`dashcam … | head`): nothing to say, and nothing more to flush.
        sys.stdout = None
        sys.exit(141)
