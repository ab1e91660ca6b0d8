"""JSON on a terminal: the same document, and nothing in it that the terminal would obey."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from terminal import on_a_terminal

import dashcam
from dashcam.cli.output import inert_json
from dashcam.sdk import emit

EVIL = "owned \x1b]0;x\x07 \x7f \x80 \x9b2J \x9f \u200e \u200f \u2028 \u202e \u2066 \u2069 end"
HARMLESS = "é ÿ \u00a0 \u200d \u2027 \u202f \u2065 \u206a 漢 😀"
ACTIVE = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

COMMANDS = [
    ("show", "chat", "--json"),
    ("show", "chat", "--request", "--json"),
    ("sessions", "--json"),
    ("session", "chat", "--json"),
    *(("export", "chat", "--format", form) for form in ("jsonl", "json", "acp", "otlp")),
]


def piped(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "dashcam", *arguments], capture_output=True, timeout=60, check=True)
    return done.stdout.decode()


@pytest.fixture
def recorded() -> None:
    with dashcam.record_session("chat", agent=f"{EVIL}{HARMLESS}", model="p:m", system_prompt=EVIL) as chat:
        chat.user(EVIL)
        chat.assistant(EVIL, request=json.dumps({"messages": [{"role": "user", "content": EVIL}]}, ensure_ascii=False))
    ours = emit.use_recorder(None)
    assert ours
    ours.close()


@pytest.mark.slow
@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_terminal_gets_the_same_json_with_nothing_to_obey(command: tuple[str, ...]) -> None:
    elsewhere, shown = piped(*command), on_a_terminal(*command, with_errors=False).replace("\r\n", "\n")
    assert ACTIVE.search(elsewhere)
    assert not ACTIVE.search(shown)
    if command[:2] == ("export", "chat") and command[3] in ("jsonl", "acp"):
        assert [json.loads(line) for line in shown.split("\n")[:-1]] == [
            json.loads(line) for line in elsewhere.split("\n")[:-1]
        ]
    else:
        assert json.loads(shown) == json.loads(elsewhere)


@pytest.mark.slow
@pytest.mark.usefixtures("recorded")
def test_rows_for_a_terminal_have_nothing_to_obey_either() -> None:
    command = ("export", "chat", "--format", "csv")
    assert ACTIVE.search(piped(*command))
    assert not ACTIVE.search(on_a_terminal(*command, with_errors=False).replace("\r\n", "\n"))


@given(st.text(st.sampled_from(EVIL + HARMLESS) | st.characters(codec="utf-8")))
def test_any_text_stays_what_it_is(text: str) -> None:
    body = json.dumps(text, ensure_ascii=False).encode()
    shown = inert_json(body)
    assert json.loads(shown) == text
    assert not ACTIVE.search(shown.decode())
    if not ACTIVE.search(body.decode()):
        assert shown == body
