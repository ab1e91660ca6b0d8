"""What an answer means, and which addresses and keys are used at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.errors import SettingsError
from dashcam.sdk.settings import Settings
from dashcam.sdk.wire import Accepted, Destination, Refused, Trouble, judge

SEGMENT = "20300101T000000-1-00000000-0.jsonl"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def destination(**given: Any) -> Destination:
    return Destination(Settings(data=Path("/nowhere"), **given))


def test_an_acknowledgement_says_where_to_go_on() -> None:
    said = b'{"segment": "%s", "offset": 12, "new": 1, "quarantined": 0}' % SEGMENT.encode()
    assert judge(200, said, SEGMENT) == Accepted(SEGMENT, 12, 1, 0)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>please log in</html>",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"segment": "\xff", "offset": 1}',
        b'{"segment": "20300101T000000-1-00000000-0.jsonl", "offset": -1}',
        b'{"segment": "20300101T000000-1-00000000-0.jsonl", "offset": "12"}',
        b'{"segment": "another.jsonl", "offset": 12}',
    ],
)
def test_a_200_without_an_acknowledgement_acknowledges_nothing(said: bytes) -> None:
    verdict = judge(200, said, SEGMENT)
    assert isinstance(verdict, Trouble)
    assert verdict.kind == "answer"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *[(status, "key") for status in (401, 403)],
        *[(status, "address") for status in (301, 302, 303, 304, 307, 308, 404, 405, 410, 415)],
        *[(status, "away") for status in (408, 500, 502, 504, 599)],
        *[(status, "busy") for status in (429, 503)],
        *[(status, "answer") for status in (201, 202, 204)],
    ],
)
def test_each_status_is_the_trouble_that_the_contract_says(status: int, kind: str) -> None:
    verdict = judge(status, b"", SEGMENT)
    assert isinstance(verdict, Trouble)
    assert (verdict.kind, verdict.to_mend) == (kind, kind in ("key", "address"))


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_batch_can_be_refused_in_the_words_of_the_contract(status: int, kind: str) -> None:
    verdict = judge(status, b'{"error": "no", "more": 1}', SEGMENT, {"Content-Type": kind})
    assert isinstance(verdict, Refused)
    assert verdict.certain


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"<html>Bad Request</html>", "text/html"),
        (b'{"error": "no"}', "text/html"),
        (b'{"error": "no"}', None),
        (b"", "application/json"),
        (b"<html>", "application/json"),
        (b'"error"', "application/json"),
        (b'{"message": "Bad Request"}', "application/json"),
        (b'{"error": {"code": 400}}', "application/json"),
        (b'{"error": ""}', "application/json"),
        (b'{"error": "\xff"}', "application/json"),
    ],
)
def test_a_refusal_by_something_that_is_not_our_server_refuses_no_line(said: bytes, kind: str | None) -> None:
    head = {"Content-Type": kind} if kind else {}
    for status in (400, 422):
        verdict = judge(status, said, SEGMENT, head)
        assert isinstance(verdict, Trouble)
        assert verdict.kind == "answer"
    too_large = judge(413, said, SEGMENT, head)
    assert isinstance(too_large, Refused)
    assert not too_large.certain


@settings(deadline=None)
@given(
    st.integers(100, 999),
    st.binary(max_size=300),
    st.dictionaries(st.sampled_from(["Retry-After", "Date", "Content-Type"]), st.text(max_size=40)),
)
def test_any_answer_has_a_meaning_and_writes_one_line(status: int, said: bytes, head: dict[str, str]) -> None:
    verdict = judge(status, said, SEGMENT, head)
    if isinstance(verdict, Accepted):
        assert verdict.segment == SEGMENT
        assert verdict.offset >= 0
    else:
        assert len(verdict.what.splitlines()) == 1
    if isinstance(verdict, Trouble) and verdict.retry_after is not None:
        assert 0 <= verdict.retry_after <= 3600


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("999999999", 3600.0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0.0),
        ("Tue, 01 Jan 2030 01:01:00 +0100", 60.0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_comes_in_seconds_or_as_a_date_by_the_servers_clock(
    said: str | None, seconds: float | None
) -> None:
    head = {"Date": format_datetime(NOW, usegmt=True), **({} if said is None else {"Retry-After": said})}
    verdict = judge(503, b"", SEGMENT, head)
    assert isinstance(verdict, Trouble)
    assert verdict.retry_after == seconds


def test_a_date_is_compared_with_our_clock_where_the_server_tells_none() -> None:
    said = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    verdict = judge(429, b"", SEGMENT, {"Retry-After": said})
    assert isinstance(verdict, Trouble)
    assert 50 < (verdict.retry_after or 0) <= 60


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://:80",
        "http://host:port",
        "http://host:99999",
        "http://ho st",
        "http://host/\r\nX: y",
        "http://hést",
        "http://host?key=hunter2",
        "http://host#hunter2",
        "http://user:hunter2@host",
    ],
)
def test_an_address_that_is_none_is_told_when_it_is_set_and_without_its_secrets(url: str) -> None:
    with pytest.raises(SettingsError, match="DASHCAM_URL") as told:
        destination(url=url)
    assert "hunter2" not in str(told.value)


def test_a_key_that_fits_no_header_is_told_without_the_key() -> None:
    with pytest.raises(SettingsError, match="DASHCAM_API_KEY") as told:
        destination(url="http://host", api_key="hunter2\r\nX-Other: 1")
    assert "hunter2" not in str(told.value)


def test_no_address_at_all_is_told_with_an_example() -> None:
    with pytest.raises(SettingsError, match="DASHCAM_URL"):
        destination()


def test_a_last_slash_makes_no_other_server() -> None:
    assert destination(url="http://host/a/").digest == destination(url="http://host/a").digest
    assert destination(url="http://host/a").digest != destination(url="http://host/b").digest


def test_a_destination_never_prints_its_key() -> None:
    ours = destination(url="http://127.0.0.1:1", api_key="hunter2-hunter2")
    verdict = ours.send(SEGMENT, 0, b"{}\n", timeout=1.0)
    assert isinstance(verdict, Trouble)
    assert verdict.kind == "away"
    assert "hunter2" not in f"{ours!r} {verdict!r}"


def test_a_host_name_that_is_none_is_trouble_and_no_error() -> None:
    verdict = destination(url="http://a..b").send(SEGMENT, 0, b"{}\n", timeout=1.0)
    assert isinstance(verdict, Trouble)
