"""Token usage as anybody reports it, into five parts that never overlap.

| who reports       | input            | the cache's tokens are                  | output               | reasoning is |
|-------------------|------------------|-----------------------------------------|----------------------|--------------|
| Bedrock Converse  | inputTokens      | beside: cache{Read,Write}InputTokens    | outputTokens         | never told   |
| AI SDK            | inputTokens      | within: inputTokenDetails, cachedInput… | outputTokens         | within       |
| Gemini            | promptTokenCount | within: cachedContentTokenCount         | candidatesTokenCount | beside       |
| OpenAI chat       | prompt_tokens    | within: prompt_tokens_details           | completion_tokens    | within       |
| … OpenRouter      | the same         | and cache_write_tokens there            | the same             | within       |
| … DeepSeek        | the same         | within: prompt_cache_hit_tokens         | the same             | within       |
| OpenAI responses  | input_tokens     | within: input_tokens_details            | output_tokens        | within       |
| Anthropic         | input_tokens     | beside: cache_{read,creation}_input_…   | output_tokens        | never told   |
| LangChain         | input_tokens     | within: input_token_details             | output_tokens        | within       |
| Pydantic AI       | input_tokens     | within: cache_{read,write}_tokens       | output_tokens        | within       |
| our model_call    | input_tokens     | beside: cache_read, cache_write         | output_tokens        | beside       |
| our chat messages | input            | beside: cache_read, cache_write         | output               | beside       |
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dashcam.contracts.chat import Usage

_MOST = 2**53  # what a JSON number holds exactly; more tokens than that are no count

# Each a name, or names with dots between, or a sum of those. Several say the same: the largest counts.
Paths = tuple[str, ...]


class _Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Where one reporter puts its counts, and which of them hold which others."""

    input: Paths
    output: Paths
    reasoning: Paths = ()
    cache_read: Paths = ()
    cache_write: Paths = ()
    fresh_input: Paths = ()  # told apart already, for where `input` is missing
    fresh_output: Paths = ()
    more_input: Paths = ()  # beside `input`
    cache_within_input: bool = True
    reasoning_within_output: bool = True
    marks: Paths = ()  # what tells this dialect from others with the same names; any of its names where empty

    def speaks(self, reported: object) -> bool:
        everywhere = self.input + self.output + self.reasoning + self.cache_read + self.cache_write
        return _told(reported, self.marks or everywhere + self.fresh_input + self.fresh_output) is not None

    def read(self, reported: object) -> Usage:
        read, write = _told(reported, self.cache_read) or 0, _told(reported, self.cache_write) or 0
        reasoning = _told(reported, self.reasoning) or 0
        whole, answer = _told(reported, self.input), _told(reported, self.output)
        if whole is None:
            fresh = _told(reported, self.fresh_input) or 0
        else:
            fresh = max(0, whole - read - write) if self.cache_within_input else whole
        if answer is None:
            answer = _told(reported, self.fresh_output) or 0
        elif self.reasoning_within_output:
            answer = max(0, answer - reasoning)
        fresh += _told(reported, self.more_input) or 0
        return Usage(input=fresh, output=answer, reasoning=reasoning, cache_read=read, cache_write=write)


# Where Anthropic tells how long what it took is kept, LangChain says so instead, with a cache_creation of 0.
_LANGCHAIN_BY_LIFETIME = "input_token_details.ephemeral_5m_input_tokens+input_token_details.ephemeral_1h_input_tokens"
_DIALECTS = (
    # The first two share the names inputTokens and outputTokens.
    _Dialect(
        input=("inputTokens",),
        output=("outputTokens",),
        cache_read=("cacheReadInputTokens",),
        cache_write=("cacheWriteInputTokens",),
        cache_within_input=False,
        marks=("cacheReadInputTokens", "cacheWriteInputTokens"),
    ),
    _Dialect(
        input=("inputTokens",),
        output=("outputTokens",),
        reasoning=("outputTokenDetails.reasoningTokens", "reasoningTokens"),
        cache_read=("inputTokenDetails.cacheReadTokens", "cachedInputTokens"),
        cache_write=("inputTokenDetails.cacheWriteTokens",),
        fresh_input=("inputTokenDetails.noCacheTokens",),
        fresh_output=("outputTokenDetails.textTokens",),
    ),
    _Dialect(
        input=("promptTokenCount", "prompt_token_count"),
        output=("candidatesTokenCount", "candidates_token_count"),
        reasoning=("thoughtsTokenCount", "thoughts_token_count"),
        cache_read=("cachedContentTokenCount", "cached_content_token_count"),
        more_input=("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
        reasoning_within_output=False,
    ),
    _Dialect(
        input=("prompt_tokens",),
        output=("completion_tokens",),
        reasoning=("completion_tokens_details.reasoning_tokens",),
        cache_read=("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens"),
        cache_write=("prompt_tokens_details.cache_write_tokens",),
        fresh_input=("prompt_cache_miss_tokens",),
    ),
    # From here on all but the last share the names input_tokens and output_tokens.
    _Dialect(
        input=("input_tokens",),
        output=("output_tokens",),
        cache_read=("cache_read_input_tokens",),
        cache_write=("cache_creation_input_tokens",),
        cache_within_input=False,
        marks=("cache_read_input_tokens", "cache_creation_input_tokens"),
    ),
    _Dialect(
        input=("input_tokens",),
        output=("output_tokens",),
        reasoning=("output_reasoning_tokens", "details.reasoning_tokens", "details.thoughts_tokens"),
        cache_read=("cache_read_tokens",),
        cache_write=("cache_write_tokens",),
        marks=(
            "cache_read_tokens", "cache_write_tokens", "output_reasoning_tokens",
            "details.reasoning_tokens", "details.thoughts_tokens",
        ),
    ),
    _Dialect(
        input=("input_tokens",),
        output=("output_tokens",),
        reasoning=("output_tokens_details.reasoning_tokens",),
        cache_read=("input_tokens_details.cached_tokens",),
        marks=("input_tokens_details.cached_tokens", "output_tokens_details.reasoning_tokens"),
    ),
    _Dialect(
        input=("input_tokens",),
        output=("output_tokens",),
        reasoning=("output_token_details.reasoning",),
        cache_read=("input_token_details.cache_read",),
        cache_write=("input_token_details.cache_creation", _LANGCHAIN_BY_LIFETIME),
        marks=(
            "input_token_details.cache_read", "input_token_details.cache_creation", _LANGCHAIN_BY_LIFETIME,
            "output_token_details.reasoning",
        ),
    ),
    _Dialect(
        input=("input_tokens",),
        output=("output_tokens",),
        reasoning=("reasoning_tokens",),
        cache_read=("cache_read",),
        cache_write=("cache_write",),
        cache_within_input=False,
        reasoning_within_output=False,
        marks=("input_tokens", "output_tokens", "reasoning_tokens"),
    ),
    _Dialect(
        input=("input",),
        output=("output",),
        reasoning=("reasoning",),
        cache_read=("cache_read",),
        cache_write=("cache_write",),
        cache_within_input=False,
        reasoning_within_output=False,
    ),
)  # fmt: skip


def usage_from(reported: object) -> Usage | None:
    """The five parts of what somebody reported, as a dict or an object; None where no count is legible.

    A count is a whole number from 0 on: anything else is ignored. Where a report contradicts itself
    (more cached than sent) the part that is told apart stands, and what remains is 0.
    """
    if reported is None:
        return None
    return next((dialect.read(reported) for dialect in _DIALECTS if dialect.speaks(reported)), None)


def _told(reported: object, paths: Paths) -> int | None:
    """The largest count at one of `paths`: who has a newer name for it leaves the older one out, or at 0."""
    return max((count for path in paths if (count := _sum(reported, path)) is not None), default=None)


def _sum(reported: object, path: str) -> int | None:
    counts = [count for each in path.split("+") if (count := _count(_at(reported, each))) is not None]
    return sum(counts) if counts else None


def _at(value: object, path: str) -> object:
    for name in path.split("."):
        try:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        except Exception:  # an attribute can be somebody's code
            return None
    return value


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None
