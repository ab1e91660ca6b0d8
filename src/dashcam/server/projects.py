"""The stores of all projects: each opened when it is first needed, written by one thread, read by many."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dashcam.errors import SettingsError, StoreBusy, StoreError
from dashcam.record.refresh import COLLECTING
from dashcam.record.spanned import SpannedReader
from dashcam.sdk.journal import make_private_folder
from dashcam.sdk.settings import Settings, settings_from
from dashcam.store.base import Ack
from dashcam.store.sqlite.connection import WriterLock
from dashcam.store.sqlite.store import SqliteStore

SERVING = "serving"
IDLE_READERS = 4  # kept open, a project
MOMENTS = 4096  # commits whose time is known, a project
GRAIN = 0.02  # seconds between two of them


class Project:
    """A store that is open for writing. For the ingest thread alone, but for what says how far it is."""

    def __init__(self, settings: Settings, patience: float) -> None:
        self.settings = settings
        lock = WriterLock(settings.folder, SERVING)
        if not lock.acquire_after(COLLECTING, patience):
            raise StoreBusy(str(settings.folder), lock.holder())
        self.store = SqliteStore(settings.store, lock=lock)
        self.shipped = {source.segment: source.offset for source in self.store.sources()}
        self.moments: deque[tuple[int, float]] = deque(maxlen=MOMENTS)

    def committed(self, ack: Ack) -> None:
        """Remember when the log was how long, so that a lag can be told in seconds."""
        now = time.monotonic()
        if self.moments and now - self.moments[-1][1] < GRAIN:
            now = self.moments.pop()[1]
        self.moments.append((ack.seq, now))

    def seconds_behind(self, projected: int) -> float:
        """How long ago the first record was written that is not projected yet."""
        return next((time.monotonic() - at for seq, at in list(self.moments) if seq > projected), 0.0)


class Projects:
    """All projects of a data folder."""

    def __init__(self, data: Path, opened: Callable[[str], None] = lambda name: None) -> None:
        self.data, self._opened = data, opened
        self._open: dict[str, Project] = {}
        self._readers: dict[str, list[SpannedReader]] = {}
        self._lock = threading.Lock()
        self.have_opened: Callable[[str], None] = lambda name: None  # asks the ingest thread; set by the server

    def settings(self, name: str) -> Settings:
        return settings_from({}, data=self.data, project=name)

    def names(self) -> list[str]:
        """Those that are open."""
        return list(self._open)

    def found(self) -> list[str]:
        """Those that the data folder holds, open or not."""
        folders = self.data.iterdir() if self.data.is_dir() else ()
        return [folder.name for folder in folders if self._is_project(folder)]

    def open(self, name: str, patience: float = 0.0) -> Project:
        """The project, opened for writing if it isn't yet. For the ingest thread alone.

        `patience` is for a command that is just collecting, in seconds in which nobody else is served.
        """
        if (project := self._open.get(name)) is None:
            settings = self.settings(name)
            try:
                make_private_folder(settings.folder)
            except OSError as error:
                raise StoreError(
                    f"{settings.folder} can't be made: {error.strerror}. Choose another --data."
                ) from error
            project = self._open[name] = Project(settings, patience)
            self._opened(name)
        return project

    @contextmanager
    def reader(self, name: str) -> Iterator[SpannedReader]:
        """A reader for one thread, for the length of the block."""
        reader = self._idle(name) or self._new_reader(name)
        try:
            yield reader
        except StoreError:
            reader.close()
            raise
        except BaseException:
            self._keep(name, reader)
            raise
        self._keep(name, reader)

    def lag(self, name: str) -> tuple[int, float]:
        """How far what is derived is behind the log: in records, and in seconds."""
        with self.reader(name) as reader:
            lag = reader.lag()
        return max(0, lag.seq - lag.projected), self.seconds_behind(name, lag.projected)

    def seconds_behind(self, name: str, projected: int) -> float:
        project = self._open.get(name)
        return project.seconds_behind(projected) if project else 0.0

    def size_of(self, name: str) -> int:
        """Bytes that a project's store takes on the disk."""
        store = self.settings(name).store
        return sum(file.stat().st_size for file in store.parent.glob(f"{store.name}*"))

    def close(self) -> None:
        """Readers first, so that the writer, closing last, leaves one file and no log beside it."""
        with self._lock:
            readers, self._readers = self._readers, {}
        for idle in readers.values():
            for reader in idle:
                reader.close()
        for project in self._open.values():
            project.store.close()
        self._open.clear()

    def _idle(self, name: str) -> SpannedReader | None:
        with self._lock:
            idle = self._readers.get(name)
            return idle.pop() if idle else None

    def _new_reader(self, name: str) -> SpannedReader:
        settings = self.settings(name)
        if not settings.store.exists():
            self.have_opened(name)
        return SpannedReader(settings.store)

    def _keep(self, name: str, reader: SpannedReader) -> None:
        with self._lock:
            idle = self._readers.setdefault(name, [])
            if len(idle) < IDLE_READERS:
                idle.append(reader)
                return
        reader.close()

    def _is_project(self, folder: Path) -> bool:
        try:
            settings = self.settings(folder.name)
        except SettingsError:
            return False
        return settings.store.exists() or settings.journals.is_dir()
