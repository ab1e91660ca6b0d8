"""`dashcam keys` as its user meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashcam.cli.keys import keys
from dashcam.store.control import FRESH, Control

DOCS = Path(__file__).parents[2] / "docs" / "keys.md"

pytestmark = pytest.mark.slow


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashcam", "keys", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


def document(*arguments: str) -> Any:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def server(data: Path) -> Iterator[Control]:
    """What a running server has open."""
    with Control(data) as control:
        yield control


def test_a_key_is_printed_once_and_how_to_use_it_beside(server: Control) -> None:
    done = run("create")
    assert done.returncode == 0, done.stderr
    text = done.stdout.removesuffix("\n")
    assert re.fullmatch(r"dck_[A-Za-z0-9_-]{43}", text)  # and nothing else: $(dashcam keys create)
    assert text not in done.stderr
    (key,) = server.listed()
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", f"LANGFUSE_PUBLIC_KEY={key.id}", "LANGFUSE_SECRET_KEY", "LOGFIRE_TOKEN"):
        assert name in done.stderr
    found = server.find(text)
    assert found
    assert (found.project, found.rights, found.expires_at) == ("default", ("ingest",), None)


@pytest.mark.slow
def test_keys_are_made_listed_and_revoked_while_a_server_runs(server: Control) -> None:
    before = time.time() * 1000
    made = document(
        "create", "--project", "shop", "--right", "read", "--right", "ingest", "--name", "ci", "--expires", "30d"
    )
    assert (made["project"], made["rights"], made["name"], made["state"]) == (
        "shop",
        ["ingest", "read"],
        "ci",
        "active",
    )
    assert made["expires_at"] >= before + 30 * 86_400_000
    assert server.find(made["key"])
    other = document("create", "--right", "admin")
    listed = document("list")
    assert [key["id"] for key in listed] == [made["id"], other["id"]]
    assert [key["id"] for key in document("list", "--project", "shop")] == [made["id"]]
    assert "key" not in listed[0] and "hash" not in listed[0]
    printed = run("list").stdout
    assert made["prefix"] in printed and made["key"] not in printed
    assert document("revoke", made["id"])["state"] == "revoked"
    time.sleep(FRESH)
    assert server.find(made["key"]) is None
    assert server.find(other["key"])
    assert "opens nothing any more" in run("revoke", made["id"]).stdout


def test_the_project_of_the_environment_counts(server: Control) -> None:
    assert run("create", "--json", DASHCAM_PROJECT="shop").returncode == 0
    assert [key.project for key in server.listed()] == ["shop"]


@pytest.mark.slow
def test_where_no_key_was_made_listing_makes_no_file(data: Path) -> None:
    assert document("list") == []
    assert "dashcam keys create" in run("list").stdout
    assert run("revoke", "key_1").returncode == 4
    assert not data.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("create", "--right", "write"), 2, "ingest, read, admin"),
        (("create", "--project", "../x"), 2, "can't name a project"),
        (("create", "--project", "control.db"), 2, "can't name a project"),
        (("create", "--expires", "soon"), 2, "--expires 30d"),
        (("create", "--expires", "0d"), 2, "expired already"),
        (("create", "--name", "\x1b[31m"), 2, "name"),
        (("revoke", "key_none"), 4, "dashcam keys list"),
        (("create", "--data", "/dev/null/x"), 6, "--data"),
    ],
)
def test_an_error_says_what_to_do_next(arguments: tuple[str, ...], code: int, said: str, server: Control) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert server.listed() == []


def commands() -> list[str]:
    return [command.name or str(getattr(command.callback, "__name__", "")) for command in keys.registered_commands]


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_every_command_has_json_data_help_and_a_place_in_the_docs(command: str) -> None:
    shown = run(command, "--help").stdout
    assert "--json" in shown and "--data" in shown
    assert f"`dashcam keys {command}" in DOCS.read_text()
