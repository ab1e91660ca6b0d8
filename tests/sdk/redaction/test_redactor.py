"""The host's own function, and redaction at hardly any cost."""

from __future__ import annotations

import random
import string
import threading
import time
from typing import Any

import pytest
from credential_samples import KEY, PROSE

from dashcam.sdk.redaction import Redaction, Redactor
from dashcam.sdk.redaction.outcomes import MAX_KNOWN, Outcomes


def test_the_hosts_function_comes_last_and_sees_what_is_left() -> None:
    seen: list[dict[str, Any]] = []

    def function(fields: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(fields))
        del fields["gone"]
        return {**fields, "name": "A.", "new": 1}

    given = {"password": "x", "name": "Ada", "gone": 1, "same": [1]}
    clean, paths, _ = Redactor(Redaction(function=function)).apply(given)
    assert seen == [{"password": "[REDACTED]", "name": "Ada", "gone": 1, "same": [1]}]
    assert clean == {"password": "[REDACTED]", "name": "A.", "same": [1], "new": 1}
    assert paths == ["password", "name", "gone"]
    assert given == {"password": "x", "name": "Ada", "gone": 1, "same": [1]}


def test_a_function_that_changes_nothing_costs_no_copy() -> None:
    fields = {"a": 1}
    assert Redactor(Redaction(function=dict)).apply(fields)[0] is fields


@pytest.mark.parametrize("answer", [ValueError("no"), None, [("a", 1)], RecursionError()])
def test_a_function_that_fails_takes_the_whole_record_with_it(answer: object) -> None:
    def function(fields: dict[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    redactor = Redactor(Redaction(function=function))
    assert redactor.apply({"a": 1, "b": "x"}) == ({"redaction": "failed"}, ["*"], [])
    assert redactor.failures == 1


def test_a_value_that_fights_back_takes_the_whole_record_with_it() -> None:
    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("no")

    redactor = Redactor(Redaction())
    assert redactor.apply({"a": Hostile()}) == ({"redaction": "failed"}, ["*"], [])
    assert redactor.failures == 1


def test_what_was_replaced_is_still_told_when_the_hosts_function_changes_more() -> None:
    redactor = Redactor(Redaction(function=lambda fields: {**fields, "name": "A."}))
    assert redactor.apply({"name": "Ada", "it": object}) == (
        {"name": "A.", "it": "<class 'object'>"},
        ["name"],
        ["it"],
    )


# --- cost --------------------------------------------------------------------------------------------


def test_a_long_message_repeated_in_forty_requests_is_scanned_once() -> None:
    redactor = Redactor(Redaction())
    for text in (PROSE * 5, f"{PROSE * 5} {KEY}"):
        before = redactor.scans
        results = [redactor.apply({"messages": [{"content": "".join(text)}] * 2}) for _ in range(40)]
        assert redactor.scans == before + 1
        assert all(result == results[0] for result in results)
    assert results[0][1] == ["messages.0.content", "messages.1.content"]


def test_a_known_short_text_is_not_scanned_again() -> None:
    redactor = Redactor(Redaction())
    for _ in range(3):
        assert taken_by(redactor, {"model": "claude-sonnet-4-5"}) == []
    assert redactor.scans == 1
    for _ in range(3):
        assert taken_by(redactor, {"model": "password=tr0ub4dor"}) == ["model"]


def taken_by(redactor: Redactor, fields: dict[str, Any]) -> list[str]:
    return redactor.apply(fields)[1]


def test_a_text_too_short_for_a_credential_is_not_scanned() -> None:
    redactor = Redactor(Redaction())
    redactor.apply({"a": "short-text=", "b": ["x_y"]})
    assert redactor.scans == 0


def test_what_is_remembered_is_bounded_by_entries_and_by_bytes() -> None:
    outcomes = Outcomes(entries=10, size=10_000)
    for number in range(100):
        outcomes.put(bytes([number]), "")
    assert [number for number in range(100) if outcomes.get(bytes([number])) is not None] == list(range(90, 100))
    for number in range(100):
        outcomes.put(bytes([number, 0]), "x" * 2_000)
    assert 1 <= sum(outcomes.get(bytes([number, 0])) is not None for number in range(100)) <= 4
    outcomes.put(b"huge", "x" * 9_000)
    assert outcomes.get(b"huge") is None


@pytest.mark.slow
def test_known_names_and_texts_are_bounded() -> None:
    redactor = Redactor(Redaction(emails=True, cards=True, phones=True, ip_addresses=True))
    for number in range(10_000):
        redactor.apply({f"field{number}": f"some-text-{number}"})
    assert len(redactor.innocent) <= MAX_KNOWN
    assert len(redactor._clean) <= MAX_KNOWN


def test_many_threads_get_the_same_answers() -> None:
    redactor = Redactor(Redaction())
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(200):
            text = f"{PROSE * 3} {turn} {KEY}"
            clean, paths, _ = redactor.apply({"note": text, f"key{turn}": turn, "password": number})
            if KEY in clean["note"] or paths != ["note", "password"]:
                wrong.append(clean)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_flat_record_with_nothing_to_hide_costs_microseconds() -> None:
    """About 1 µs where it was measured; the bound leaves room for a busy machine."""
    redactor = Redactor(Redaction())
    fields = {"tool": "search", "latency_ms": 42, "note": PROSE, "a": 1, "b": 2.5, "c": True, "d": None, "e": "hello"}
    assert redactor.apply(fields)[0] is fields
    rounds = []
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(1_000):
            redactor.apply(fields)
        rounds.append(time.perf_counter() - started)
    assert min(rounds) < 0.005


@pytest.mark.parametrize(
    "form", ["password={}", "api_key: {}", "--token={}", "X-Api-Key: {}", "DB_PASSWORD={}\nplease"]
)
def test_random_values_without_quotes_are_found(form: str) -> None:
    """Whatever they happen to begin like."""
    source = random.Random(5)
    redactor = Redactor(Redaction())
    values = ["".join(source.choices(string.ascii_letters + string.digits, k=24)) for _ in range(300)]
    missed = [value for value in values if value in redactor.scrub(form.format(value))]
    assert missed == []


def test_a_value_beside_the_name_of_a_secret_is_hidden_however_often_it_comes() -> None:
    """The quick way through flat fields knows names; what `value` means hangs on its neighbour."""
    redactor = Redactor(Redaction())
    header = {"name": "Authorization", "value": "hunter2"}
    assert [redactor.apply(dict(header)).fields["value"] for _ in range(3)] == ["[REDACTED]"] * 3
    assert redactor.apply({"name": "Accept", "value": "hunter2"}).fields["value"] == "hunter2"
