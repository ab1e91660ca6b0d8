"""What tokens cost, from the price table that genai_prices brings along. Without it every price is unknown.

Unknown is None and never 0. Nothing here raises, warns or goes to the network: a price is a remark on the
record, and the record goes on without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import msgspec

from dashcam.contracts.chat import Usage

_PER = 1_000_000  # tokens; the table's prices are for that many
_LONGEST = 200  # characters of a name; the table keeps what it didn't find, and matches with patterns
# How OpenTelemetry and others call providers that the table knows by another name. None: no provider, but what asked it.
_ALIASES = {
    "gcp.gen_ai": "google",
    "gcp.gemini": "google",
    "gcp.vertex_ai": "google",
    "gcp.vertex.agent": "google",
    "vertex_ai": "google",
    "google_genai": "google",
    "aws.bedrock": "aws",
    "bedrock": "aws",
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "az.ai.openai": "azure",
    "mistral_ai": "mistral",
    "x_ai": "x-ai",
    "strands-agents": None,
    "langchain": None,
}
_KEYS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True):
    """USD for one token of each kind, before any tier for long contexts; None where unknown."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    context_window: int | None = None


def cost_of(provider: str | None, model: str, usage: Usage, at: datetime | None = None) -> float | None:
    """What a call cost in USD, at the prices of `at` (now where None); None where the price is unknown."""
    try:
        found = _find(provider, model)
        return None if found is None else _cost(*found, usage, at or datetime.now(UTC))
    except Exception:  # whatever the table holds or the caller hands in
        return None


def prices_of(provider: str | None, model: str) -> ModelPrices | None:
    """The prices of a model today, and how much it can be sent; None where nobody knows the model."""
    try:
        found = _find(provider, model)
        if found is None:
            return None
        prices = found[1].get_prices(datetime.now(UTC))
        window = found[1].context_window
        default = 0.0 if _is_free(found[1], prices) else None
        told = {name: _a_token(getattr(prices, key, None), default) for name, key in _KEYS.items()}
        return ModelPrices(**told, context_window=window if isinstance(window, int) else None)
    except Exception:
        return None


@cache
def warm() -> None:
    """Load the table, which takes a tenth of a second: when recording begins, and not in the middle of a turn."""
    prices_of(None, "gpt-4o")


def _cost(provider: Any, model: Any, usage: Usage, at: datetime) -> float | None:
    prices = model.get_prices(at)
    answered = usage.output + usage.reasoning
    if _is_free(model, prices):
        return 0.0
    if prices.input_mtok is None or (answered and prices.output_mtok is None):
        return None
    # An object and not its own Usage: from that it takes the counts it knows, and warns of no others.
    counts = SimpleNamespace(
        input_tokens=usage.context,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        output_tokens=answered,
        output_reasoning_tokens=usage.reasoning,
    )
    return float(model.calc_price(counts, provider, genai_request_timestamp=at).total_price)


def _is_free(model: Any, prices: Any) -> bool:
    """The table leaves prices out both where there are none and where nobody knows them; the name tells."""
    return str(model.id).endswith(":free") and all(value is None for value in vars(prices).values())


def _a_token(price: Any, default: float | None) -> float | None:
    """The price of one token; of a price in tiers the first."""
    price = getattr(price, "base", price)
    return default if price is None else float(price / _PER)


def _find(provider: str | None, model: str) -> tuple[Any, Any] | None:
    """The table's provider and model of these names."""
    if not model or max(len(provider or ""), len(model)) > _LONGEST:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    # A table that the host has renewed knows models that the one before didn't.
    return _find_in(get_snapshot().timestamp, provider, model)


@lru_cache(maxsize=1024)
def _find_in(_: datetime, provider: str | None, model: str) -> tuple[Any, Any] | None:
    from genai_prices.data_snapshot import get_snapshot

    for provider_id, reference in _references(provider, model):
        try:
            return get_snapshot().find_provider_model(reference, None, provider_id, None)
        except LookupError:
            continue
    return None


def _references(provider: str | None, model: str) -> Iterator[tuple[str | None, str]]:
    """What to look for, the most exact first."""
    provider = _ALIASES.get(provider, provider) if provider else None
    yield provider or None, model
    if provider:
        yield provider.split(".")[0], model  # the AI SDK says openai.responses
    elif ":" in model:
        named, _, rest = model.partition(":")  # Pydantic AI says openai:gpt-4o
        yield named, rest
