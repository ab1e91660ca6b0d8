"""Token usage as anybody reports it, into five parts that never overlap.

| who reports       | input            | the cache's tokens are                  | output               | reasoning is |
|-------------------|------------------|-----------------------------------------|----------------------|--------------|
| AI SDK            | inputTokens      | within: inputTokenDetails, cachedInput… | outputTokens         | within       |
| Gemini            | promptTokenCount | within: cachedContentTokenCount         | candidatesTokenCount | beside       |
| OpenAI chat       | prompt_tokens    | within: prompt_tokens_details           | completion_tokens    | within       |
| OpenAI responses  | input_tokens     | within: input_tokens_details            | output_tokens        | within       |
| Anthropic         | input_tokens     | beside: cache_{read,creation}_input_…   | output_tokens        | never told   |
| Pydantic AI       | input_tokens     | within: cache_{read,write}_tokens       | output_tokens        | within       |
| our model_call    | input_tokens     | beside: cache_read, cache_write         | output_tokens        | beside       |
| our chat messages | input            | beside: cache_read, cache_write         | output               | beside       |

One reporter contradicts itself: AI SDK 5 hands Anthropic's
input on as it is, without the cache; its usage has no inputTokenDetails, and the provider's name tells.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dashcam.contracts.chat import Usage

_MOST = 2**53  # what a JSON number holds exactly; more tokens than that are no count

Paths = tuple[str, ...]  # each a name, or names with dots between; several say the same, the largest counts


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


_AI_SDK = _Dialect(
    input=("inputTokens",),
    output=("outputTokens",),
    reasoning=("outputTokenDetails.reasoningTokens", "reasoningTokens"),
    cache_read=("inputTokenDetails.cacheReadTokens", "cachedInputTokens"),
    cache_write=("inputTokenDetails.cacheWriteTokens",),
    fresh_input=("inputTokenDetails.noCacheTokens",),
    fresh_output=("outputTokenDetails.textTokens",),
)
_AI_SDK_5_ON_ANTHROPIC = msgspec.structs.replace(_AI_SDK, cache_within_input=False)
_DIALECTS = (
    _AI_SDK,
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
        cache_read=("prompt_tokens_details.cached_tokens",),
    ),
    # From here on five share the names input_tokens and output_tokens.
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


def usage_from(reported: object, provider: str | None = None) -> Usage | None:
    """The five parts of what somebody reported, as a dict or an object; None where no count is legible.

    A count is a whole number from 0 on: anything else is ignored. Where a report contradicts itself
    (more cached than sent) the part that is told apart stands, and what remains is 0.
    """
    for dialect in _DIALECTS:
        if dialect.speaks(reported):
            if dialect is _AI_SDK and _without_cache(reported, provider):
                dialect = _AI_SDK_5_ON_ANTHROPIC
            return dialect.read(reported)
    return None


def _without_cache(reported: object, provider: str | None) -> bool:
    """Whether the AI SDK's inputTokens are Anthropic's own."""
    details = ("inputTokenDetails.noCacheTokens", "inputTokenDetails.cacheReadTokens")
    return isinstance(provider, str) and "anthropic" in provider.lower() and _told(reported, details) is None


def _told(reported: object, paths: Paths) -> int | None:
    """The largest count at one of `paths`: who has a newer name for it leaves the older one out, or at 0."""
    return max((count for path in paths if (count := _count(_at(reported, path))) is not None), default=None)


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
