"""What every test starts from: a data folder of its own, and no recorder left over from another test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from server_process import ServerProcess, serving

import dashcam
from dashcam.record.refresh import open_current
from dashcam.sdk import emit
from dashcam.sdk.settings import settings_from
from dashcam.store.sqlite.store import SqliteReader, SqliteStore

# No deadlines: a busy machine is no bug. In CI the same examples every time, so that a red run is about the change;
# elsewhere new ones, so that there is always somebody looking for the next bug.
settings.register_profile("dashcam", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("dashcam")


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that a test records may reach the folder of the person who runs it."""
    for name in [name for name in os.environ if name.startswith("DASHCAM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DASHCAM_DATA", str(tmp_path / "data"))
    before = emit.use_recorder(None)
    yield
    ours = emit.use_recorder(before)
    if ours:
        ours.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of this test."""
    return tmp_path / "data"


@pytest.fixture
def tape() -> Iterator[dashcam.testing.Tape]:
    """Records with ids and times that count."""
    with dashcam.testing.recording() as recorded:
        yield recorded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where `store` is."""
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """A store of this test's own, open for writing."""
    with SqliteStore(path) as opened:
        yield opened


@pytest.fixture
def opened(data: Path) -> Iterator[Callable[[], SqliteReader]]:
    """Opens the store with all that was recorded so far; closed with the test."""
    stores: list[SqliteReader] = []

    def open_it() -> SqliteReader:
        stores.append(open_current(settings_from({}, data=data)))
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests that only talk to it: each uses trace ids of its own."""
    with serving(tmp_path_factory.mktemp("served") / "data") as running:
        yield running
