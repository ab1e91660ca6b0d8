"""Personal data is told from what only looks like it."""

from __future__ import annotations

import pytest

from dashcam.sdk.redaction.personal import ADDRESSES, CARDS
from dashcam.sdk.redaction.sieve import REDACTED


@pytest.mark.parametrize("text", ["call 4111111111111112", "at 1700000000007", "order 12345678901234567890"])
def test_a_number_that_only_looks_like_a_card_stays(text: str) -> None:
    assert CARDS.hide(text) == text


@pytest.mark.parametrize("text", ["at 12:30:45", "std::vector a::b ::", "version 1.2.3", "300.1.1.1", "1.2.3.4.5"])
def test_what_only_looks_like_an_address_stays(text: str) -> None:
    assert ADDRESSES.hide(text) == text


@pytest.mark.parametrize("address", ["10.0.0.1", "fe80::1", "2001:db8:85a3::8a2e:370:7334", "::ffff:10.0.0.1"])
def test_addresses_of_both_kinds_are_found(address: str) -> None:
    assert ADDRESSES.hide(f"from {address}, port 80") == f"from {REDACTED}, port 80"


def test_a_card_beside_other_digits_is_still_found() -> None:
    assert CARDS.hide("2 x 4111-1111-1111-1111 12") == f"2 x {REDACTED} 12"
