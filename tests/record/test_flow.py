"""A growing text is written at once, but for what may be the beginning of a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam.record.flow import Flow
from dashcam.sdk.redaction import Redaction, Redactor

REDACTOR = Redactor(Redaction())
SECRETS = {
    "vendor key": "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789",
    "cloud key": "AKIAIOSFODNN7EXAMPLE",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "assignment": "password: hunter2secret99",
    "github": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "long jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIx" * 700 + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
    "url": "https://user:nQfFjXwAzDOEV1kk@db.example.com/x",
}


def told(text: str, size: int) -> tuple[str, list[str]]:
    """The text as it is put together from what was written, and all that ever was written."""
    flow, whole, written = Flow(REDACTOR), "", []
    for start in range(0, len(text), size):
        flow.add(text[start : start + size])
        if taken := flow.take():
            at, new = taken
            whole = whole[:at] + new
            written.append(new)
    return whole, written


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5, 17, 1000])
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_no_half_of_a_secret_is_ever_written(secret: str, size: int) -> None:
    text = f"The answer is {secret} and nothing else.\nA second line. "
    whole, written = told(text, size)
    assert REDACTOR.scrub(text).startswith(whole) if len(secret) > 4_096 else whole == REDACTOR.scrub(text)
    value = secret.removeprefix("password: ").removeprefix("https:").partition("@")[0]
    assert not any(value[start : start + 8] in "".join(written) for start in range(6, len(value) - 8))


def test_a_private_key_waits_for_its_end() -> None:
    text = (
        "Here:\n-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA\n" * 20 + "-----END RSA PRIVATE KEY-----\nbye "
    )
    whole, written = told(text, 7)
    assert "MIIE" not in "".join(written)
    assert whole.startswith("Here:\n[REDACTED]")
    assert whole.endswith("\nbye ")


@given(st.lists(st.text(max_size=12), max_size=40))
def test_plain_text_comes_out_as_it_went_in(pieces: list[str]) -> None:
    flow, whole = Flow(REDACTOR), ""
    for piece in pieces:
        flow.add(piece)
        if taken := flow.take():
            whole = whole[: taken[0]] + taken[1]
    assert REDACTOR.scrub("".join(pieces)).startswith(whole)
    if not REDACTOR.suspects("".join(pieces)):
        assert whole == "".join(pieces)


def test_words_are_written_as_they_come() -> None:
    """Nothing waits that can't be a secret, so that a crash loses nothing."""
    assert told("word" * 10, 4) == ("word" * 10, ["word"] * 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    ['{"secret": "', "Cookie: ", "-----BEGIN CERTIFICATE-----", "--token ", "key=key=", 'password: "'],
)
@pytest.mark.parametrize("more", ["lorem ipsum ", "a=b; ", "key=", "--token "])
def test_no_model_can_make_its_host_look_for_secrets_for_long(start: str, more: str) -> None:
    """A text that looks like a secret for ever is written when it is complete: the looking grows with the text,
    and not with its square."""
    looked = Looked()
    flow = Flow(looked)
    text = start + more * (60_000 // len(more))
    for at in range(0, len(text), 40):
        flow.add(text[at : at + 40])
        if flow.waiting * (10 if flow.is_held else 1_000) >= flow.given:
            flow.take()
    assert looked.characters < 60 * len(text)


class Looked:
    """A redactor that counts what it looks through."""

    def __init__(self) -> None:
        self.characters = 0

    def suspects(self, text: str) -> bool:
        return REDACTOR.suspects(text)

    def scrub(self, text: str) -> str:
        self.characters += len(text)
        return REDACTOR.scrub(text)


@pytest.mark.slow
def test_a_long_line_without_a_space_comes_out_as_it_went_in() -> None:
    whole, _ = told("漢字" * 50_000, 20)
    assert whole == "漢字" * 50_000
