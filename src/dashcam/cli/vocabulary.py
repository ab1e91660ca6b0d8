"""`dashcam events`: the catalog."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from dashcam.cli.common import Json
from dashcam.cli.output import inert, out, print_json
from dashcam.errors import UnreadableInput
from dashcam.sdk.catalog import shapes


def events(
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="Import this module first: it may register events of its own."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the catalog of events and their fields."""
    sys.path.insert(0, str(Path.cwd()))  # as `python` itself has it
    for module in modules or ():
        try:
            import_module(module)
        except ImportError as error:
            raise UnreadableInput(f"{module} can't be imported: {error}. Run where Python finds it.") from error
    if as_json:
        print_json(shapes())
        return
    for shape in shapes():
        out.print(Text.assemble((inert(shape["name"]), "bold"), "  ", (inert(shape["doc"]), "dim")))
        for name, kind in shape["required"].items():
            out.print(Text.assemble("    ", inert(f"{name}: {kind}")))
        if shape["optional"]:
            optional = ", ".join(f"{name}: {kind}" for name, kind in shape["optional"].items())
            out.print(Padding(Text(f"optional: {inert(optional)}", "dim"), (0, 0, 0, 4)))
    out.print(
        "\nMore fields are kept as they are. Add an event with dashcam.register_event(name, required={…}).",
        style="dim",
    )


COMMANDS = (events,)
