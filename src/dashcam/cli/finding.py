"""`dashcam search` and `dashcam prompts`: what was said where, and with which system prompt."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.listing import marked
from dashcam.cli.output import brief, count, err, inert, out, print_json
from dashcam.cli.transcript import moment
from dashcam.errors import SettingsError


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What a part holds: words, or how they begin.")],
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID", help="Only in this session.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="How many.")] = 50,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Find what was said, thought, asked of tools and answered by them, the newest first."""
    wanted = " ".join(words)
    if not any(map(str.isalnum, wanted)):
        raise SettingsError(f"{wanted!r:.40} holds no word to look for.")
    with reader_of(settings_of(data, project)) as store:
        hits = store.search(wanted, session_id=session, limit=limit)
    if as_json:
        print_json([hit.plainly() for hit in hits])
        return
    if not hits:
        err.print("Nothing found.")
        return
    for hit in hits:
        head = Text.assemble(
            (moment(hit.created_at), "dim"), "  ", (inert(hit.session_id), "bold cyan"), f"  {inert(hit.type)}"
        )
        out.print(head, soft_wrap=True)
        out.print(Text.assemble("    ", *marked(hit.snippet)), soft_wrap=True)


def prompts(
    digest: Annotated[
        str | None, typer.Argument(metavar="[DIGEST]", help="Print this one, whole.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="How many.")] = 50,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List system prompts, the newest first, and where they are used; or print one."""
    with reader_of(settings_of(data, project)) as store:
        if digest is not None:
            body = store.system_prompt(digest)
            print_json({"digest": digest, "body": body}) if as_json else out.print(inert_lines(body), soft_wrap=True)
            return
        found = store.prompts(limit=limit)
    if as_json:
        print_json(found)
        return
    if not found:
        err.print("No system prompts.")
        return
    for prompt in found:
        used = f"{count(prompt.calls, 'call')} in {count(prompt.sessions, 'session')}, {prompt.size:,} bytes"
        out.print(Text.assemble((prompt.digest, "bold cyan"), f"  {moment(prompt.first_at)}  {used}"))
        out.print(Text(f"  {brief(prompt.beginning, 100)}", "dim"))


def inert_lines(text: str) -> str:
    """A text of several lines, none of which can act on the terminal."""
    return "\n".join(inert(line) for line in text.splitlines())


COMMANDS = (search, prompts)
