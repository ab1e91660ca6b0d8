"""What is secret by the name it goes under: a key, a variable, a header."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

from dashcam.sdk.redaction.sieve import REDACTED
from dashcam.sdk.redaction.unfold import BYTES


class Secrecy(IntEnum):
    """What has to go of a value with this name."""

    NONE = 0
    TEXT = 1  # texts only: `token` may be a number, or a record of its own
    UNCOUNTED = 2  # all but numbers: `session_tokens` may be a count
    ANY = 3

    def hides(self, value: Any) -> bool:
        """Whether a value goes because of its name. None, a bool and an empty text tell nothing."""
        if value is None or isinstance(value, bool):
            return False
        if isinstance(value, (str, *BYTES)):
            return len(value) > 0 and value != REDACTED
        if self is Secrecy.UNCOUNTED:
            return not isinstance(value, (int, float))
        return self is Secrecy.ANY


_TOKENS = ("access_token", "refresh_token", "auth_token", "bearer_token", "session_token")
ENDINGS = (
    *("password", "passwd", "passphrase", "passcode", "password_hash", "secret", "credential", "cookie"),
    *("authorization", "basic_auth", "connection_string", "password_confirmation"),
    *("secret_string", "secret_value"),  # as AWS and others answer with one
    *("api_key", "access_key", "secret_key", "private_key", "signing_key", "encryption_key"),
    *("master_key", "account_key", "shared_key", "subscription_key"),
    # `pass` alone counts tests, and `first_pass` is no password.
    *("db_pass", "user_pass", "admin_pass", "root_pass", "smtp_pass", "mail_pass", "mysql_pass"),
    *("pg_pass", "postgres_pass", "redis_pass", "ftp_pass", "ssh_pass"),
    *_TOKENS,
)
# Tokens of a page, of a model's alphabet, of a clock: useful, and open to nothing.
_HARMLESS_TOKEN = re.compile(
    r"(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z]))(?i:next|prev|previous|page|continuation|pagination|sync|first|last"
    r"|per|eos|bos|pad|unk|sep|cls|mask|stop|start|end|special)[-_. ]?(?i:token)$"
)
_NOISE = re.compile(r"[\W_]+")
_DIGITS = "0123456789"
# Too short to be the end of a name: `oauth` and `requires_auth` say how, not what.
_WHOLE = frozenset(("auth", "bearer"))


def squash(name: str) -> str:
    """A name as it is compared: `X-Api-Key`, `x_api_key` and `xApiKey` are one."""
    return _NOISE.sub("", name.lower())


_SQUASHED_ENDINGS = tuple(map(squash, ENDINGS))
_SQUASHED_TOKENS = tuple(map(squash, _TOKENS))


def secrecy_of(name: str) -> Secrecy:
    """Judge a key, a variable or a header by its name. What counts tokens is never a secret.

    A number at the end makes no other name: `API_KEY_1`, `password2`.
    """
    flat = squash(name).rstrip(_DIGITS)
    if flat.endswith("allowcredentials"):
        return Secrecy.NONE  # a header that says true
    if flat.endswith("tokens"):
        return Secrecy.UNCOUNTED if flat[:-1].endswith(_SQUASHED_TOKENS) else Secrecy.NONE
    if flat.endswith(_SQUASHED_ENDINGS) or (flat.endswith("s") and flat[:-1].endswith(_SQUASHED_ENDINGS)):
        return Secrecy.ANY
    if flat.endswith("token"):
        return Secrecy.NONE if _HARMLESS_TOKEN.search(name.rstrip(_DIGITS + "-_. ")) else Secrecy.TEXT
    # A bare PWD is the folder that a shell is in.
    if flat.endswith("pwd") and squash(name.rpartition(" ")[2]) not in {"pwd", "oldpwd"}:
        return Secrecy.ANY
    return Secrecy.TEXT if flat.endswith("jwt") or flat in _WHOLE else Secrecy.NONE
