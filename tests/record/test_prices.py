"""Costs against the price table itself, and what is unknown."""

from __future__ import annotations

import builtins
import sys
from datetime import UTC, datetime
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot

from dashcam.contracts.chat import Usage
from dashcam.record.prices import ModelPrices, cost_of, prices_of

AT = datetime(2026, 1, 15, tzinfo=UTC)
MILLION = 1_000_000
USAGE = Usage(input=1_000, output=200, reasoning=50, cache_read=600, cache_write=100)


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-4o"), ("google", "gemini-2.5-pro")]
)
def test_a_cost_is_what_the_table_says_of_the_same_call(provider: str, model: str) -> None:
    told = genai_prices.Usage(input_tokens=1_700, cache_read_tokens=600, cache_write_tokens=100, output_tokens=250)
    expected = genai_prices.calc_price(told, model, provider_id=provider, genai_request_timestamp=AT).total_price
    assert cost_of(provider, model, USAGE, AT) == pytest.approx(float(expected))


def test_each_kind_of_token_has_its_own_price() -> None:
    """By hand, from what Anthropic asks for a million tokens: 3 in, 15 out, 0.30 read, 3.75 written."""
    prices = prices_of("anthropic", "claude-sonnet-4-5")
    assert prices is not None
    assert [prices.input, prices.output] == pytest.approx([3 / MILLION, 15 / MILLION])
    assert [prices.cache_read, prices.cache_write] == pytest.approx([0.3 / MILLION, 3.75 / MILLION])
    assert prices.context_window == 200_000
    by_hand = (1_000 * 3 + 250 * 15 + 600 * 0.3 + 100 * 3.75) / MILLION
    assert cost_of("anthropic", "claude-sonnet-4-5", USAGE, AT) == pytest.approx(by_hand)


def test_what_the_cache_served_costs_a_tenth_and_is_not_paid_twice() -> None:
    fresh = cost_of("anthropic", "claude-sonnet-4-5", Usage(input=1_000), AT)
    cached = cost_of("anthropic", "claude-sonnet-4-5", Usage(cache_read=1_000), AT)
    assert fresh is not None and cached is not None
    assert cached == pytest.approx(fresh / 10)


def test_a_price_that_nobody_knows_is_none_within_a_known_model() -> None:
    prices = prices_of("openai", "gpt-4o")
    assert prices is not None and prices.cache_write is None and prices.cache_read is not None


def test_a_long_context_pays_the_price_of_its_tier() -> None:
    short = cost_of("anthropic", "claude-sonnet-4-5", Usage(input=200_000), AT)
    long = cost_of("anthropic", "claude-sonnet-4-5", Usage(input=100_001, cache_read=100_000), AT)
    assert short == pytest.approx(200_000 * 3 / MILLION)
    assert long == pytest.approx((100_001 * 6 + 100_000 * 0.6) / MILLION)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic.messages", "claude-sonnet-4-5"),
        (None, "claude-sonnet-4-5"),
        ("", "claude-sonnet-4-5"),
        (None, "anthropic:claude-sonnet-4-5"),
        ("Anthropic", "claude-sonnet-4-5-20250929"),
    ],
)
def test_a_model_is_found_under_the_names_that_clients_use(provider: str | None, model: str) -> None:
    assert cost_of(provider, model, USAGE, AT) == cost_of("anthropic", "claude-sonnet-4-5", USAGE, AT)


def test_the_ai_sdks_names_of_a_providers_apis_are_the_provider() -> None:
    assert prices_of("groq.chat", "llama-3.3-70b-versatile") == prices_of("groq", "llama-3.3-70b-versatile") is not None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-of-next-year-perhaps-not"[::-1]),
        ("a proxy of our own", "gpt-4o"),
        (None, "fake-model"),
        (None, ""),
        ("openai", "x" * 100_000),
        ("x" * 100_000, "gpt-4o"),
    ],
)
def test_what_is_unknown_costs_none_and_not_nothing(provider: str | None, model: str) -> None:
    assert cost_of(provider, model, USAGE) is None
    assert cost_of(provider, model, Usage()) is None
    assert prices_of(provider, model) is None


@pytest.mark.parametrize("bad", [7, None, b"gpt-4o", ["gpt-4o"], {"id": "gpt-4o"}])
def test_names_of_the_wrong_type_are_unknown(bad: Any) -> None:
    assert cost_of("openai", bad, USAGE) is None
    assert prices_of("openai", bad) is None
    assert cost_of(["openai"], "gpt-4o", USAGE) is None  # type: ignore[arg-type]


def test_a_model_that_is_free_costs_nothing_and_one_without_a_price_is_unknown() -> None:
    free = [m.id for p in get_snapshot().providers if p.id == "openrouter" for m in p.models if m.id.endswith(":free")]
    assert cost_of("openrouter", free[0], USAGE) == 0.0
    prices = prices_of("openrouter", free[0])
    assert prices is not None and (prices.input, prices.output, prices.cache_read) == (0.0, 0.0, 0.0)
    assert cost_of("github-copilot", "gpt-4o", USAGE) is None
    assert prices_of("github-copilot", "gpt-4o") == ModelPrices(context_window=128_000)


def test_a_model_that_is_paid_by_the_hour_has_no_price_for_tokens() -> None:
    assert cost_of("groq", "whisper-large-v3", USAGE) is None


def test_every_model_of_the_table_has_a_cost_or_none() -> None:
    """Tiers, times of day, prices a request: nothing in it raises, and nothing is negative."""
    known = 0
    for provider in get_snapshot().providers:
        for model in provider.models:
            cost = cost_of(provider.id, model.id, USAGE, AT)
            prices = prices_of(provider.id, model.id)
            assert cost is None or cost >= 0
            known += cost is not None and prices is not None
    assert known > 1_000


def test_without_the_table_every_price_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("genai_prices"):
            raise ImportError(name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.startswith("genai_prices")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    assert cost_of("openai", "gpt-4o", USAGE) is None
    assert prices_of("openai", "gpt-4o") is None


@pytest.mark.parametrize(
    ("told", "model", "known_as"),
    [
        ("gcp.gen_ai", "gemini-2.5-pro", "google"),
        ("gcp.vertex_ai", "gemini-2.5-pro", "google"),
        ("azure.ai.openai", "gpt-4o", "azure"),
        ("x_ai", "grok-3", "x-ai"),
        ("strands-agents", "gpt-4o-mini", None),
    ],
)
def test_providers_are_known_by_the_names_that_opentelemetry_has_for_them(
    told: str, model: str, known_as: str | None
) -> None:
    usage = Usage(input=1000, output=100)
    assert cost_of(told, model, usage) == cost_of(known_as, model, usage) is not None
