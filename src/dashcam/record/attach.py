"""Files that go with a message: their bytes, or where they are and what they held."""

from __future__ import annotations

import mimetypes
import stat
from base64 import b64encode
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path
from typing import Any

from dashcam.errors import UnreadableInput
from dashcam.sdk import emit

_TEXTUAL = frozenset(("application/json", "application/xml", "application/yaml", "application/toml"))
FILE_REFERENCE = "data-file-ref"


def attachment(given: str | Path | tuple[Any, ...]) -> dict[str, Any]:
    """An AI SDK file part with the bytes in it: of a path, or of (name, bytes[, media type])."""
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            _require_file(path)
            name, body = path.name, path.read_bytes()
        except OSError as error:
            raise UnreadableInput(
                f"{path} can't be attached: {error.strerror}. Give its name and bytes instead."
            ) from error
        kind = None
    else:
        name, body, kind = (*given, None)[:3]
    media = kind or mimetypes.guess_type(str(name))[0] or "application/octet-stream"
    if media.startswith("text/") or media in _TEXTUAL:
        with suppress(UnicodeDecodeError):  # in base64 no rule would find a secret any more
            body = emit.recorder().redactor.text(bytes(body).decode()).encode()
    url = f"data:{media};base64,{b64encode(bytes(body)).decode()}"
    return {"type": "file", "mediaType": media, "filename": str(name), "url": url}


def _require_file(path: Path) -> None:
    """A pipe or a device might never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "it is no plain file")


def reference(given: str | Path) -> dict[str, Any]:
    """A part that says where a file is, how large, and the SHA-256 of what it held at this moment."""
    path = Path(given).absolute()
    try:
        _require_file(path)
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise UnreadableInput(
            f"{path} can't be referred to: {error.strerror}. Refer to a file that is there."
        ) from error
    media = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    told = {"path": str(path), "size": size, "sha256": digest, "mediaType": media}
    return {"type": FILE_REFERENCE, "data": told}
