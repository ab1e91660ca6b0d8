"""Every error Dashcam raises, in one tree.

Each says what happened, where, and what to do next. `status` is what the server answers,
`exit_code` what the command returns.
"""

from __future__ import annotations


class DashcamError(Exception):
    """The root: catch this to catch everything of ours."""

    status = 500
    exit_code = 1


class UnjoinableRecord(DashcamError, ValueError):
    """A record without its identity, which would join to nothing."""

    status, exit_code = 400, 2


class ReservedField(UnjoinableRecord):
    """A field that would overwrite part of the record's identity."""

    def __init__(self, field: str, operation: str) -> None:
        super().__init__(
            f"{operation}: the field {field!r} would overwrite the record's own {field!r}. "
            "Give it another name; what identifies a record comes from its Trace."
        )


class VocabularyError(DashcamError, ValueError):
    """An event that the vocabulary doesn't hold, or not in this shape."""

    status, exit_code = 400, 2


class UnknownEvent(VocabularyError):
    """No event of this name has been registered."""


class MalformedEvent(VocabularyError):
    """An event that breaks the shape of its name."""


class SettingsError(DashcamError, ValueError):
    """A setting that can't be used as it is."""

    status, exit_code = 400, 2


class MissingExtra(DashcamError, ImportError):
    """A command whose parts are not installed."""

    exit_code = 3

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more than the SDK. Install it with: pip install 'dashcam[{extra}]'")


class NotFound(DashcamError, LookupError):
    """Nothing in this store has this id."""

    status, exit_code = 404, 4


class TraceNotFound(NotFound):
    """No record of this trace is in the store."""

    def __init__(self, trace_id: str, where: str) -> None:
        super().__init__(
            f"No trace {trace_id!r} in {where}, or several that begin so. List traces with: dashcam traces"
        )


class SessionNotFound(NotFound):
    """No record of this session is in the store."""

    def __init__(self, session_id: str, where: str) -> None:
        super().__init__(f"No session {session_id!r} in {where}. List sessions with: dashcam sessions")


class ContentNotFound(NotFound):
    """No content or context with this digest is in the store."""

    def __init__(self, digest: str, where: str) -> None:
        super().__init__(
            f"No content {digest!r:.80} in {where}, or several that begin so. List system prompts with: dashcam prompts; "
            "check the store with: dashcam verify"
        )


class KeyNotFound(NotFound):
    """No key has this id."""

    def __init__(self, key_id: str, where: str) -> None:
        super().__init__(f"No key {key_id!r:.80} in {where}. List keys with: dashcam keys list")


class AccessDenied(DashcamError):
    """A caller who may not: 401 for want of a valid key, 403 for what no key, or this one, allows.

    `headers` belong to the answer.
    """

    status, exit_code = 401, 7

    def __init__(self, message: str, *, status: int = 401) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}


class UnreadableInput(DashcamError, ValueError):
    """A file or a body that isn't what it should be."""

    status, exit_code = 400, 5


class TooLarge(DashcamError):
    """A body beyond what the server takes."""

    status, exit_code = 413, 5

    def __init__(self, what: str, limit: int, option: str) -> None:
        super().__init__(
            f"{what} is larger than {limit:,} bytes. Send less at once, or start the server with a larger {option}."
        )


class UnsupportedForm(DashcamError):
    """A body in a form that is not read here."""

    status, exit_code = 415, 5


class TooSlow(DashcamError):
    """A body that didn't arrive in time."""

    status, exit_code = 408, 1

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The body did not arrive within {seconds:g} seconds. Send less at once, or start the server with a longer "
            "--body-timeout."
        )


class TooBusy(DashcamError):
    """The server has as much to do as it may; the same request is taken later."""

    status, exit_code = 429, 1
    retry_after = 1  # seconds


class Stopping(TooBusy):
    """The server is being stopped; whoever takes its place takes the request."""

    status = 503

    def __init__(self) -> None:
        super().__init__("The server is stopping. Send this again in a moment.")


class NotOffered(DashcamError):
    """Something that a client asks for and that is not done here."""

    status, exit_code = 501, 1


class StoreError(DashcamError):
    """The store can't be used."""

    status, exit_code = 503, 6


class RecordRefused(StoreError):
    """The store can't hold one of these records; nothing of the batch was kept."""


class StoreTooNew(StoreError):
    """The store was written by a newer program."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} has schema {found}, this dashcam knows up to {known}. "
            "Nothing was changed. Upgrade with: pip install -U dashcam"
        )


class StoreBusy(StoreError):
    """Another process holds the store for writing."""

    def __init__(self, where: str, holder: str) -> None:
        super().__init__(f"{where} is being written by {holder}. Wait for it to end, or stop it, and try again.")


class NotReplayable(DashcamError):
    """A turn of which too little was recorded to run it again."""

    status, exit_code = 409, 1

    def __init__(self, session_id: str, turn: int, missing: list[str]) -> None:
        super().__init__(
            f"Turn {turn} of {session_id!r} can't be replayed. Missing: {'; '.join(missing)}. "
            f"See which turns can: dashcam replay {session_id} --dry-run"
        )


class ModelFailed(DashcamError):
    """A model that can't be asked, or that didn't answer."""

    status, exit_code = 502, 1
