"""Where an export goes: to a file that is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dashcam.errors import UnreadableInput


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when it is complete; where that fails nothing has changed.

    What is no plain file, like a pipe or /dev/null, is written to directly.
    """
    with writing(path):
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        path = path.resolve()  # a link stays one
        descriptor, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name[:100]}-"
        )  # readable by its owner alone
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(descriptor)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A folder for what is in the making, on the disk of `path`; it goes away with all that is left in it."""
    with writing(path), tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=".dashcam-") as folder:
        yield Path(folder)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnreadableInput(f"{path} can't be written: {error.strerror or error}. Choose another place.") from error
