"""`dashcam export` and `dashcam import` as their user meets them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.event import Event
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteReader, SqliteStore


def run(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dashcam", *arguments]
    return subprocess.run(command, capture_output=True, input=stdin, timeout=60)


def exported(*arguments: str) -> bytes:
    done = run("export", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    return done.stdout


@pytest.fixture
def recorded(data: Path) -> Path:
    """A store with one chat, and one session of events alone."""
    (data / "default").mkdir(parents=True)
    path = data / "default" / "sessions.db"
    rows: list[Any] = [
        ChatSession(id="chat", agent="a", created_at=1, updated_at=2),
        ChatMessage(id="m", session_id="chat", role="assistant", created_at=1, updated_at=2),
    ]
    rows.append(
        ChatPart(id="p", message_id="m", session_id="chat", index=0, type="text", data_json='{"text":"hi"}', created_at=1, updated_at=2)
    )  # fmt: skip
    events = [Event("a.jsonl", n, name, name, n, "user", "reply_ready", 1) for n, name in enumerate(("chat", "log"))]
    with SqliteStore(path) as store:
        store.append(Batch(chat=rows, events=events))
    return path


@pytest.mark.slow
def test_a_session_goes_out_and_comes_back_in_another_place(recorded: Path, tmp_path: Path) -> None:
    told = exported("chat", "log")
    assert [json.loads(line)["type"] for line in told.splitlines()] == ["session", "message", "part", "event", "event"]
    other = str(tmp_path / "other")
    done = run("import", "jsonl", "-", "--json", "--data", other, stdin=told)
    assert done.returncode == 0, done.stderr
    counts = {"sessions": 1, "messages": 1, "parts": 1, "events": 2, "contents": 0, "changed": 0, "bad": 0}
    assert json.loads(done.stdout) == {**counts, "problems": [], "warnings": []}
    assert exported("chat", "log", "--data", other) == told
    again = run("import", "jsonl", "-", "--data", other, stdin=told)
    assert again.stdout == b"0 sessions, 0 messages, 0 parts, 0 events, 0 contents new\n"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "acp", "otlp", "sqlite"])
def test_every_format_goes_to_a_file_of_its_owner_alone(form: str, recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "file"
    target.parent.mkdir()
    done = run("export", "chat", "--format", form, "-o", str(target), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    size = target.stat().st_size
    assert told == {"path": str(target), "format": form, "sessions": 1, "bytes": size}
    assert size > 0
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(target.parent) == ["file"]
    if form != "sqlite":
        assert target.read_bytes() == exported("chat", "--format", form)


@pytest.mark.slow
def test_a_store_goes_to_stdout_or_a_new_file_and_never_over_another(recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_bytes(exported("chat", "--format", "sqlite"))
    with SqliteReader(target) as copy:
        assert copy.chat_session("chat").agent == "a"
        assert copy.traces("log") == []
    done = run("export", "chat", "--format", "sqlite", "-o", str(target))
    assert done.returncode == 2
    assert b"exists already" in done.stderr


def test_a_store_is_not_shown_on_a_terminal(recorded: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dashcam", "export", "chat", "--format", "sqlite"]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, timeout=60)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"-o FILE" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("chat", "nobody"), 4, b"No session 'nobody'"),
        (("log", "--format", "csv"), 4, b"no chat messages"),
        (("log", "--bare"), 4, b"no chat messages"),
        (("chat", "--format", "csv", "--bare"), 2, b"--bare"),
        (("chat", "--to", "http://localhost:4318"), 2, b"--format otlp"),
        (("chat", "--format", "otlp", "--to", "file:///x"), 2, b"http"),
    ],
)
def test_what_cannot_be_exported_is_told_and_leaves_the_file_alone(
    arguments: tuple[str, ...], code: int, told: bytes, recorded: Path, tmp_path: Path
) -> None:
    target = tmp_path / "kept"
    target.write_text("before")
    done = run("export", *arguments, *(() if "--to" in arguments else ("-o", str(target))))
    assert (done.returncode, done.stdout) == (code, b"")
    assert told in done.stderr
    assert target.read_text() == "before"


def test_json_without_a_file_is_told(recorded: Path) -> None:
    done = run("export", "chat", "--json")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--format json" in done.stderr


@pytest.mark.slow
def test_a_folder_that_is_not_there_and_a_device_are_no_surprise(recorded: Path, tmp_path: Path) -> None:
    done = run("export", "chat", "-o", str(tmp_path / "nowhere" / "file"))
    assert done.returncode == 5
    assert b"can't be written" in done.stderr
    assert run("export", "chat", "-o", "/dev/null").returncode == 0
    assert not Path("/dev/null").is_file()


def test_what_breaks_midway_leaves_nothing_behind(recorded: Path, tmp_path: Path) -> None:
    from dashcam.exports.target import whole_file

    target = tmp_path / "file"
    target.write_text("before")
    with pytest.raises(ZeroDivisionError), whole_file(target) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["file"]


def test_a_reader_that_goes_away_is_no_error(recorded: Path) -> None:
    command = f"{sys.executable} -m dashcam export chat | head -c 5"
    done = subprocess.run(command, shell=True, capture_output=True)
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_bad_lines_are_shown_without_their_control_characters(recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(exported("chat") + json.dumps({"type": "\x1b[31m\x07", "data": {}}).encode() + b"\n{\n")
    done = run("import", "jsonl", str(file), "--data", str(tmp_path / "other"))
    assert done.returncode == 5
    assert b"line 5: " in done.stderr
    assert b"line 6: " in done.stderr
    assert b"\x1b" not in done.stderr
    assert done.stdout.startswith(b"1 session, 1 message, 1 part")


@pytest.mark.slow
def test_strict_imports_nothing_and_says_so(recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(exported("chat") + b"{\n")
    other = str(tmp_path / "other")
    done = run("import", "jsonl", str(file), "--strict", "--data", other)
    assert done.returncode == 5
    assert b"Nothing was imported" in done.stderr
    assert run("export", "chat", "--data", other).returncode == 4


@pytest.mark.slow
def test_json_comes_back_too(recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_bytes(exported("chat", "--format", "json"))
    other = str(tmp_path / "other")
    assert run("import", "json", str(file), "--data", other).returncode == 0
    assert exported("chat", "--format", "json", "--data", other) == file.read_bytes()
    assert run("import", "yaml", str(file)).returncode == 2
    assert run("import", "json", str(tmp_path / "nowhere")).returncode == 5
