"""The keys at rest: what is kept of them, and who sees a change when."""

from __future__ import annotations

import re
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam.errors import KeyNotFound, SettingsError, StoreError, StoreTooNew
from dashcam.store import control as module
from dashcam.store.control import FRESH, Control, check_project


@pytest.fixture
def control(data: Path) -> Iterator[Control]:
    with Control(data) as opened:
        yield opened


def rows(data: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(data / "control.db")) as connection:
        return connection.execute(statement).fetchall()


def test_a_key_is_found_by_its_text_with_all_that_was_said_of_it(control: Control) -> None:
    later = int(time.time() * 1000) + 60_000
    key, text = control.create("shop", ["read", "ingest"], name="the ci", expires_at=later)
    assert re.fullmatch(r"dck_[A-Za-z0-9_-]{43}", text)
    assert control.find(text) == key
    assert (key.project, key.rights, key.name, key.expires_at) == ("shop", ("ingest", "read"), "the ci", later)
    assert text.startswith(key.prefix)
    assert [[each.id for each in control.listed(project)] for project in (None, "shop", "other")] == [[key.id]] * 2 + [
        []
    ]


def test_an_admin_key_grants_everything(control: Control) -> None:
    key, _ = control.create("p", ["admin", "read"])
    assert key.rights == ("admin",)
    assert key.granted == {"ingest", "read", "admin"}


def test_no_two_keys_are_alike(control: Control) -> None:
    made = [control.create("p", ["read"]) for _ in range(20)]
    assert len({key.id for key, _ in made}) == len({text for _, text in made}) == 20


def test_the_text_of_a_key_is_nowhere_on_the_disk(control: Control, data: Path) -> None:
    _, text = control.create("p", ["read"], name="n")
    files = {path.name: path.read_bytes() for path in data.iterdir()}
    assert b"key_" in files["control.db-wal"]  # the row is there, in the WAL
    control.close()
    files["closed"] = (data / "control.db").read_bytes()
    assert b"key_" in files["closed"]
    secret = text.removeprefix("dck_").encode()
    assert [name for name, content in files.items() if secret in content or secret[8:] in content] == []


def test_only_the_user_may_read_the_file_and_its_folder(control: Control, data: Path) -> None:
    control.create("p", ["read"])
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()}
    assert modes == {"control.db": 0o600, "control.db-wal": 0o600, "control.db-shm": 0o600}


def test_a_key_of_another_process_works_at_once(control: Control, data: Path) -> None:
    stranger = "dck_" + "x" * 43
    assert control.find(stranger) is None
    with Control(data) as other:
        key, text = other.create("p", ["read"])
    assert control.find(text) == key


def test_a_key_that_another_handle_revokes_is_refused_within_a_second(control: Control, data: Path) -> None:
    key, text = control.create("p", ["read"])
    assert control.find(text)
    with Control(data) as other:
        revoked = other.revoke(key.id)
    assert revoked.state == "revoked"
    assert FRESH < 1
    time.sleep(FRESH)
    assert control.find(text) is None


def test_a_key_that_this_handle_revokes_is_refused_at_once(control: Control) -> None:
    key, text = control.create("p", ["read"])
    other, stays = control.create("p", ["read"])
    assert control.find(text) == key
    revoked = control.revoke(key.id)
    assert control.find(text) is None
    assert control.find(stays)
    assert control.revoke(key.id).revoked_at == revoked.revoked_at  # a second time changes nothing
    assert [each.state for each in control.listed()].count("revoked") == 1
    assert control.has_active()
    control.revoke(other.id)
    assert not control.has_active()


def test_a_key_is_found_again_without_asking_the_file(control: Control, data: Path) -> None:
    _, text = control.create("p", ["read"])
    found = control.find(text)
    with closing(sqlite3.connect(data / "control.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM keys")
    assert control.find(text) == found
    time.sleep(FRESH)
    assert control.find(text) is None


def test_a_key_ends_when_it_was_to(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time() * 1000)
    key, text = control.create("p", ["read"], expires_at=now + 60_000)
    assert control.find(text)
    monkeypatch.setattr(module, "_now", lambda: now + 60_000)
    assert control.find(text) is None  # though it is believed to be as it was
    assert key.state == "expired"
    assert not control.has_active()


def test_use_is_noted_at_most_once_a_minute(control: Control, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time() * 1000)
    used = "SELECT last_used_at FROM keys"
    _, text = control.create("p", ["read"])
    assert rows(data, used) == [(None,)]
    for seconds, noted in ((0, 0), (59, 0), (60, 60), (100, 60), (125, 125)):
        monkeypatch.setattr(module, "_now", lambda seconds=seconds: now + seconds * 1000)
        with Control(data) as server:
            assert server.find(text)
        assert rows(data, used) == [(now + noted * 1000,)]


def test_to_note_a_use_never_keeps_a_request_waiting(control: Control, data: Path) -> None:
    _, text = control.create("p", ["read"])
    with closing(sqlite3.connect(data / "control.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")  # whoever writes now has to wait for this
        assert control.find(text)
        assert rows(data, "SELECT last_used_at FROM keys") == [(None,)]
        busy.execute("ROLLBACK")
    control.close()
    assert rows(data, "SELECT last_used_at IS NOT NULL FROM keys") == [(1,)]


def test_a_use_that_cannot_be_noted_is_no_failure(control: Control, data: Path) -> None:
    _, text = control.create("p", ["read"])
    with closing(sqlite3.connect(data / "control.db", isolation_level=None)) as connection:
        connection.execute("CREATE TRIGGER full BEFORE UPDATE ON keys BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    assert control.find(text)
    control.close()
    assert rows(data, "SELECT last_used_at FROM keys") == [(None,)]


def test_threads_may_ask_and_change_at_once(control: Control) -> None:
    made = [control.create("p", ["read"]) for _ in range(8)]
    wrong: list[str] = []

    def ask(index: int) -> None:
        for _ in range(50):
            for key, text in made[1:]:
                found = control.find(text)
                if found is None or found.id != key.id:
                    wrong.append(text)
        control.revoke(made[0][0].id)
        control.create("p", ["ingest"], name=str(index))

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(control.listed()) == 12


@pytest.mark.slow
def test_processes_that_make_keys_at_once_on_a_fresh_folder_lose_none(data: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from dashcam.store.control import Control\n"
        "for n in range(20):\n"
        "    with Control(Path(sys.argv[1])) as control: control.create('p', ['read'], name=f'{sys.argv[2]}-{n}')\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(data), str(each)]) for each in range(4)]
    assert [process.wait(timeout=60) for process in started] == [0] * 4
    with Control(data) as control:
        assert {key.name for key in control.listed()} == {f"{each}-{n}" for each in range(4) for n in range(20)}


def test_a_project_revokes_only_its_own_keys(control: Control) -> None:
    key, text = control.create("mine", ["read"])
    with pytest.raises(KeyNotFound, match="dashcam keys list"):
        control.revoke(key.id, project="theirs")
    assert control.find(text)
    assert control.revoke(key.id, project="mine").state == "revoked"


def test_a_file_of_a_newer_program_is_refused_untouched(data: Path) -> None:
    with Control(data):
        pass
    with closing(sqlite3.connect(data / "control.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = (data / "control.db").read_bytes()
    with pytest.raises(StoreTooNew, match=r"schema 99.*pip install -U"):
        Control(data)
    assert (data / "control.db").read_bytes() == before


def test_a_file_that_is_none_of_ours_is_told(data: Path) -> None:
    data.mkdir()
    (data / "control.db").write_bytes(b"no database" * 500)
    with pytest.raises(StoreError, match=r"control\.db can't be used"):
        Control(data)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="--data"):
        Control(tmp_path / "file" / "x")


@pytest.mark.parametrize("rights", [[], ["write"], ["read", "everything"], [""], ["read,admin"]])
def test_a_right_that_is_none_is_refused(control: Control, rights: list[str]) -> None:
    with pytest.raises(SettingsError, match="ingest, read, admin"):
        control.create("p", rights)
    assert control.listed() == []


@pytest.mark.parametrize("name", ["x" * 201, "a\nb", "\x1b[31m", "\ud800", "\u202e"])
def test_a_name_that_could_act_on_a_terminal_is_refused(control: Control, name: str) -> None:
    with pytest.raises(SettingsError, match="name"):
        control.create("p", ["read"], name=name)


def test_a_key_that_has_ended_before_it_began_is_refused(control: Control) -> None:
    with pytest.raises(SettingsError, match="expired already"):
        control.create("p", ["read"], expires_at=int(time.time() * 1000) - 1)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", "/etc", "a\0", "-a", "a" * 65, "a\n", "control.db", "Control.DB-wal"]
)
def test_what_is_no_name_of_a_folder_is_no_project(control: Control, name: str) -> None:
    with pytest.raises(SettingsError, match="can't name a project"):
        control.create(name, ["read"])


@given(st.text())
def test_a_project_is_always_one_folder_below_the_data(name: str) -> None:
    try:
        checked = check_project(name)
    except SettingsError:
        return
    assert (Path("/data") / checked).resolve().parent == Path("/data")


@pytest.mark.parametrize("text", ["", "dck_", "dck_" + "x" * 42, "dck_" + "x" * 44, "dck_" + "é" * 43, "x" * 47])
def test_what_is_no_key_is_not_even_looked_for(control: Control, text: str) -> None:
    control.close()  # the file could not be asked
    assert control.find(text) is None
