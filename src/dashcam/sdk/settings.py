"""How recording is set up: defaults that need nothing, the environment, `configure()`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from dashcam.errors import SettingsError
from dashcam.sdk.redaction import Redaction

Fsync = Literal["never", "interval", "always"]

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set. A project is a folder below `data`, with its own store."""

    data: Path
    project: str = "default"
    strict: bool = False  # raise where an event is unknown or breaks its shape
    fsync: Fsync = "never"  # a killed process loses nothing either way; a power cut may, without it
    segment_bytes: int = 64 * 1024 * 1024
    segment_seconds: float = 3600.0
    url: str | None = None  # where journals are shipped to
    api_key: str | None = None
    redaction: Redaction = Redaction()

    def __post_init__(self) -> None:
        if not _PROJECT.fullmatch(self.project):
            raise SettingsError(
                f"{self.project!r:.80} can't name a project (DASHCAM_PROJECT): use up to 64 letters, digits, '.', '_' and '-'."
            )
        if self.fsync not in get_args(Fsync):
            raise SettingsError(
                f"fsync (DASHCAM_FSYNC) is {self.fsync!r:.40}; it is one of {', '.join(get_args(Fsync))}."
            )
        if self.segment_bytes < 1 or self.segment_seconds <= 0:
            raise SettingsError("segment_bytes and segment_seconds must be above 0.")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise SettingsError(
                f"{self.url!r:.200} is no address to ship to (DASHCAM_URL): it starts with http:// or https://."
            )

    def __repr__(self) -> str:
        """Settings end up in logs and tracebacks; the key must not."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        shown["api_key"] = "…" if self.api_key else None
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def folder(self) -> Path:
        return self.data / self.project

    @property
    def journals(self) -> Path:
        return self.folder / "journal"

    @property
    def store(self) -> Path:
        return self.folder / "sessions.db"


def settings_from(environment: Mapping[str, str], **given: Any) -> Settings:
    """What is given wins over the environment, and that over the defaults. None means not given."""
    read: dict[str, Any] = {
        "data": Path(environment.get("DASHCAM_DATA") or default_data_folder(environment)),
        "project": environment.get("DASHCAM_PROJECT") or "default",
        "strict": _switch(environment, "DASHCAM_STRICT", _under_pytest()),
        "fsync": environment.get("DASHCAM_FSYNC") or "never",
        "url": environment.get("DASHCAM_URL") or None,
        "api_key": environment.get("DASHCAM_API_KEY") or None,
    }
    read |= {name: value for name, value in given.items() if value is not None}
    read["url"] = read["url"] or None  # url="" ships nowhere, whatever the environment says
    unknown = read.keys() - set(Settings.__struct_fields__)
    if unknown:
        raise SettingsError(f"There is no setting {', '.join(sorted(unknown))}.")
    read["data"] = Path(read["data"]).expanduser().absolute()
    return Settings(**read)


def default_data_folder(environment: Mapping[str, str]) -> Path:
    """The user's own data folder, where the system keeps such things."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "dashcam"
    base = Path(environment.get("XDG_DATA_HOME", ""))
    # The XDG specification: a relative path there is invalid and to be ignored.
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "dashcam"


def _under_pytest() -> bool:
    """Whether pytest runs this process, rather than that something has imported it."""
    return "pytest" in sys.modules and ("PYTEST_VERSION" in os.environ or "PYTEST_CURRENT_TEST" in os.environ)


def _switch(environment: Mapping[str, str], name: str, default: bool) -> bool:
    said = environment.get(name, "").strip().lower()
    if not said:
        return default
    if said in _TRUE | _FALSE:
        return said in _TRUE
    raise SettingsError(f"{name} is {said!r:.40}; say 1 or 0.")
