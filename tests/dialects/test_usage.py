"""Usage as anybody reports it: by hand for each reporter, and what holds for all."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.usage import RequestUsage, RunUsage

from dashcam.contracts.chat import USAGE, Usage
from dashcam.dialects.usage import usage_from

# 1000 tokens sent, of which 600 came from the cache and 100 went there; 200 answered, of which 50 are reasoning.
WHOLE = Usage(input=300, output=150, reasoning=50, cache_read=600, cache_write=100)
NO_WRITE = Usage(input=400, output=150, reasoning=50, cache_read=600)

REPORTS: dict[str, tuple[Any, Usage]] = {
    "ours": ({"input": 300, "output": 150, "reasoning": 50, "cache_read": 600, "cache_write": 100}, WHOLE),
    "our contract": (WHOLE, WHOLE),
    "our model_call": (
        {"input_tokens": 300, "output_tokens": 150, "reasoning_tokens": 50, "cache_read": 600, "cache_write": 100},
        WHOLE,
    ),
    "AI SDK 5": (
        {
            "inputTokens": 1000,
            "outputTokens": 200,
            "totalTokens": 1200,
            "reasoningTokens": 50,
            "cachedInputTokens": 600,
        },
        NO_WRITE,
    ),
    "AI SDK 6": (
        {
            "inputTokens": 1000,
            "inputTokenDetails": {"noCacheTokens": 300, "cacheReadTokens": 600, "cacheWriteTokens": 100},
            "outputTokens": 200,
            "outputTokenDetails": {"textTokens": 150, "reasoningTokens": 50},
            "totalTokens": 1200,
            "reasoningTokens": 50,
            "cachedInputTokens": 600,
        },
        WHOLE,
    ),
    "AI SDK 7": (
        {
            "inputTokens": 1000,
            "inputTokenDetails": {"noCacheTokens": 300, "cacheReadTokens": 600, "cacheWriteTokens": 100},
            "outputTokens": 200,
            "outputTokenDetails": {"textTokens": 150, "reasoningTokens": 50},
            "totalTokens": 1200,
        },
        WHOLE,
    ),
    "AI SDK, details alone": (
        {
            "inputTokenDetails": {"noCacheTokens": 300, "cacheReadTokens": 600, "cacheWriteTokens": 100},
            "outputTokenDetails": {"textTokens": 150, "reasoningTokens": 50},
        },
        WHOLE,
    ),
    "OpenAI chat": (
        {
            "prompt_tokens": 1000,
            "completion_tokens": 200,
            "total_tokens": 1200,
            "prompt_tokens_details": {"cached_tokens": 600, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 50},
        },
        NO_WRITE,
    ),
    "OpenAI chat, as an object": (
        SimpleNamespace(
            prompt_tokens=1000,
            completion_tokens=200,
            prompt_tokens_details=SimpleNamespace(cached_tokens=600),
            completion_tokens_details=SimpleNamespace(reasoning_tokens=50),
        ),
        NO_WRITE,
    ),
    "OpenRouter": (
        {
            "prompt_tokens": 1000,
            "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100},
            "completion_tokens": 200,
            "completion_tokens_details": {"reasoning_tokens": 50},
            "total_tokens": 1200,
            "cost": 0.01,
        },
        WHOLE,
    ),
    "DeepSeek": (
        {
            "prompt_tokens": 1000,
            "prompt_cache_hit_tokens": 600,
            "prompt_cache_miss_tokens": 400,
            "completion_tokens": 200,
            "completion_tokens_details": {"reasoning_tokens": 50},
            "total_tokens": 1200,
        },
        NO_WRITE,
    ),
    "DeepSeek, who says the same in OpenAI's words too": (
        {
            "prompt_tokens": 1000,
            "prompt_tokens_details": {"cached_tokens": 600},
            "prompt_cache_hit_tokens": 600,
            "prompt_cache_miss_tokens": 400,
            "completion_tokens": 150,
        },
        Usage(input=400, output=150, cache_read=600),
    ),
    "Bedrock Converse": (
        {
            "inputTokens": 300,
            "outputTokens": 200,
            "totalTokens": 1200,
            "cacheReadInputTokens": 600,
            "cacheWriteInputTokens": 100,
        },
        Usage(input=300, output=200, cache_read=600, cache_write=100),
    ),
    "Bedrock Converse without a cache": (
        {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
        Usage(input=7, output=3),
    ),
    "LangChain": (
        {
            "input_tokens": 1000,
            "output_tokens": 200,
            "total_tokens": 1200,
            "input_token_details": {"cache_read": 600, "cache_creation": 100, "audio": 0},
            "output_token_details": {"reasoning": 50},
        },
        WHOLE,
    ),
    "LangChain, what the cache took told by how long it is kept": (
        {
            "input_tokens": 1000,
            "output_tokens": 200,
            "input_token_details": {
                "cache_read": 600,
                "cache_creation": 0,
                "ephemeral_5m_input_tokens": 70,
                "ephemeral_1h_input_tokens": 30,
            },
            "output_token_details": {"reasoning": 50},
        },
        WHOLE,
    ),
    "OpenAI responses": (
        {
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 600},
            "output_tokens": 200,
            "output_tokens_details": {"reasoning_tokens": 50},
            "total_tokens": 1200,
        },
        NO_WRITE,
    ),
    "Anthropic": (
        {
            "input_tokens": 300,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 600,
            "output_tokens": 200,
            "service_tier": "standard",
        },
        Usage(input=300, output=200, cache_read=600, cache_write=100),
    ),
    "Gemini": (
        {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 600,
            "candidatesTokenCount": 150,
            "thoughtsTokenCount": 50,
            "totalTokenCount": 1200,
        },
        NO_WRITE,
    ),
    "Gemini with a tool's pages": (
        {"promptTokenCount": 10, "toolUsePromptTokenCount": 90, "candidatesTokenCount": 5, "totalTokenCount": 105},
        Usage(input=100, output=5),
    ),
    "Pydantic AI": (
        RequestUsage(
            input_tokens=1000,
            cache_read_tokens=600,
            cache_write_tokens=100,
            output_tokens=200,
            output_reasoning_tokens=50,
        ),
        WHOLE,
    ),
    "Pydantic AI, reasoning in the details": (
        RequestUsage(
            input_tokens=1000,
            cache_read_tokens=600,
            cache_write_tokens=100,
            output_tokens=200,
            details={"reasoning_tokens": 50},
        ),
        WHOLE,
    ),
    "Pydantic AI, a run": (RunUsage(input_tokens=10, output_tokens=2), Usage(input=10, output=2)),
    "Pydantic AI, as a dict": (
        {
            "input_tokens": 1000,
            "cache_read_tokens": 600,
            "cache_write_tokens": 100,
            "output_tokens": 200,
            "details": {"reasoning_tokens": 50},
        },
        WHOLE,
    ),
    "two names that all snake-case reporters share": (
        {"input_tokens": 7, "output_tokens": 3},
        Usage(input=7, output=3),
    ),
}


@pytest.mark.parametrize("reporter", REPORTS)
def test_each_reporter_comes_out_in_parts_that_do_not_overlap(reporter: str) -> None:
    reported, expected = REPORTS[reporter]
    assert usage_from(reported) == expected


def test_what_the_ai_sdk_says_the_cache_took_is_part_of_its_input() -> None:
    reported = {"inputTokens": 150, "inputTokenDetails": {"cacheWriteTokens": 50}, "outputTokens": 9}
    assert usage_from(reported) == Usage(input=100, output=9, cache_write=50)


def test_a_report_that_contradicts_itself_never_goes_below_nothing() -> None:
    reported = {"inputTokens": 10, "cachedInputTokens": 50, "outputTokens": 5, "reasoningTokens": 9}
    assert usage_from(reported) == Usage(input=0, output=0, cache_read=50, reasoning=9)


@pytest.mark.parametrize("garbage", ["12", True, -1, math.nan, math.inf, 1.5, None, [], {"tokens": 3}, 10**30, b"7"])
def test_what_is_no_count_is_ignored(garbage: Any) -> None:
    assert usage_from({"inputTokens": garbage, "outputTokens": 4}) == Usage(output=4)
    assert usage_from({"input": garbage}) is None
    assert usage_from({"inputTokens": 9, "inputTokenDetails": garbage}) == Usage(input=9)


def test_a_count_written_with_a_point_is_a_count() -> None:
    assert usage_from({"inputTokens": 12.0}) == Usage(input=12)


@pytest.mark.parametrize("nothing", [None, {}, [], "usage", 7, {"totalTokens": 5}, object(), {"details": {}}])
def test_where_nothing_is_legible_there_is_no_usage(nothing: object) -> None:
    assert usage_from(nothing) is None


def test_nothing_used_is_something_known() -> None:
    assert usage_from({"inputTokens": 0, "outputTokens": 0}) == Usage()


def test_an_object_whose_attributes_raise_is_no_usage() -> None:
    class Hostile:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    assert usage_from(Hostile()) is None


_counts = st.integers(min_value=0, max_value=10**9)


@given(fresh=_counts, read=_counts, write=_counts, answer=_counts, reasoning=_counts)
def test_the_total_is_the_reported_one_and_nothing_cached_counts_twice(
    fresh: int, read: int, write: int, answer: int, reasoning: int
) -> None:
    """The same call, told by each reporter in its own way."""
    sent, said = fresh + read + write, answer + reasoning
    told: dict[str, tuple[dict[str, Any], int]] = {
        "AI SDK": (
            {
                "inputTokens": sent,
                "inputTokenDetails": {"cacheReadTokens": read, "cacheWriteTokens": write},
                "outputTokens": said,
                "reasoningTokens": reasoning,
            },
            sent + said,
        ),
        "OpenAI chat": (
            {
                "prompt_tokens": sent,
                "prompt_tokens_details": {"cached_tokens": read},
                "completion_tokens": said,
                "completion_tokens_details": {"reasoning_tokens": reasoning},
            },
            sent + said,
        ),
        "OpenRouter": (
            {
                "prompt_tokens": sent,
                "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
                "completion_tokens": said,
            },
            sent + said,
        ),
        "DeepSeek": (
            {
                "prompt_tokens": sent,
                "prompt_cache_hit_tokens": read,
                "prompt_cache_miss_tokens": sent - read,
                "completion_tokens": said,
            },
            sent + said,
        ),
        "Bedrock Converse": (
            {
                "inputTokens": fresh,
                "cacheReadInputTokens": read,
                "cacheWriteInputTokens": write,
                "outputTokens": said,
            },
            sent + said,
        ),
        "LangChain": (
            {
                "input_tokens": sent,
                "input_token_details": {"cache_read": read, "cache_creation": write},
                "output_tokens": said,
                "output_token_details": {"reasoning": reasoning},
            },
            sent + said,
        ),
        "OpenAI responses": (
            {
                "input_tokens": sent,
                "input_tokens_details": {"cached_tokens": read},
                "output_tokens": said,
                "output_tokens_details": {"reasoning_tokens": reasoning},
            },
            sent + said,
        ),
        "Anthropic": (
            {
                "input_tokens": fresh,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": write,
                "output_tokens": said,
            },
            sent + said,
        ),
        "Gemini": (
            {
                "promptTokenCount": sent,
                "cachedContentTokenCount": read,
                "candidatesTokenCount": answer,
                "thoughtsTokenCount": reasoning,
            },
            sent + said,
        ),
        "Pydantic AI": (
            {
                "input_tokens": sent,
                "cache_read_tokens": read,
                "cache_write_tokens": write,
                "output_tokens": said,
                "output_reasoning_tokens": reasoning,
            },
            sent + said,
        ),
    }
    for reported, total in told.values():
        usage = usage_from(reported)
        assert usage is not None
        assert (usage.total, usage.context, usage.cache_read) == (total, sent, read)


_names = st.sampled_from(
    ["input", "output", "cache_read", "inputTokens", "inputTokenDetails", "cacheReadTokens", "cachedInputTokens",
     "prompt_tokens", "prompt_tokens_details", "cached_tokens", "input_tokens", "output_tokens", "details",
     "cache_read_input_tokens", "cache_read_tokens", "promptTokenCount", "reasoning_tokens", "cacheReadInputTokens",
     "cacheWriteInputTokens", "prompt_cache_hit_tokens", "input_token_details", "cache_creation", "cache_write_tokens",
     "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"]
)  # fmt: skip
_nonsense = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=8,
)


@given(_nonsense)
def test_whatever_is_reported_no_count_is_negative(reported: object) -> None:
    usage = usage_from(reported)
    assert usage is None or all(isinstance(getattr(usage, name), int) and getattr(usage, name) >= 0 for name in USAGE)


@given(whole=_counts, read=_counts, write=_counts)
def test_where_the_cache_is_within_the_input_the_two_are_never_added_up(whole: int, read: int, write: int) -> None:
    """The larger of the input and its cached part, even where that is larger than the whole."""
    reports: list[dict[str, Any]] = [
        {"inputTokens": whole, "inputTokenDetails": {"cacheReadTokens": read, "cacheWriteTokens": write}},
        {"inputTokens": whole, "cachedInputTokens": read, "inputTokenDetails": {"cacheWriteTokens": write}},
        {"prompt_tokens": whole, "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": write}},
        {"input_tokens": whole, "input_token_details": {"cache_read": read, "cache_creation": write}},
        {"input_tokens": whole, "cache_read_tokens": read, "cache_write_tokens": write},
    ]
    for reported in reports:
        usage = usage_from(reported)
        assert usage is not None
        assert usage.context == max(whole, read + write)
