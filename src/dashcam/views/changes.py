"""Two requests apart, as pure functions: how full a context is, what changed, and what a prompt cache could have
served.

Providers cache by prefix, in the order tool catalog, system prompt, messages. Tokens are told by bytes: each
piece has its share of the bytes sent, scaled to the tokens that the provider reports.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Literal

import msgspec

from dashcam.contracts.content import link
from dashcam.record.prices import ModelPrices
from dashcam.views.catalog import tools_of

BYTES_A_TOKEN = 4  # a rule of thumb, for calls whose tokens nobody reported
CACHE_SECONDS = 300  # how long providers keep a prefix unless told otherwise
LEAST_CACHED = 1024  # tokens: providers don't cache a shorter prefix

Reason = Literal["model", "catalog", "prompt", "message", "expired", "unserved", "none"]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One request as a prefix cache sees it: catalog, prompt, messages."""

    ts: int  # microseconds
    model: str = ""
    catalog_digest: str | None = None
    prompt_digest: str | None = None
    catalog_size: int = 0  # bytes
    prompt_size: int = 0
    messages: list[bytes]
    sizes: list[int]
    messages_size: int  # the sum of the sizes
    tokens: int | None = None  # as reported
    cache_read: int | None = None

    @property
    def size(self) -> int:
        return self.catalog_size + self.prompt_size + self.messages_size

    def size_up_to(self, message: int) -> int:
        """Bytes before that message. By what comes after it, which is little in a conversation that goes on."""
        return self.catalog_size + self.prompt_size + self.messages_size - sum(self.sizes[message:])

    def tokens_of(self, size: int) -> int:
        """The tokens of that many of its bytes."""
        if self.tokens is None:
            return size // BYTES_A_TOKEN
        return round(self.tokens * size / self.size) if self.size else 0


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the model's window a request takes."""

    tokens: int
    estimated: bool  # from bytes: the provider didn't say
    window: int | None = None

    @property
    def share(self) -> float | None:
        return self.tokens / self.window if self.window else None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How the messages come out of those of the call before, counted in messages."""

    kept: int
    appended: int = 0
    dropped_head: int = 0  # a window that slides
    replaced: int = 0  # taken out of the middle: folded or pruned
    by: int = 0  # put in their place
    rewound: int = 0  # taken off the end
    at: int | None = None  # the first that differs


class PromptChange(msgspec.Struct, frozen=True, kw_only=True):
    """Two system prompts apart: where they first differ, and all of it as a unified diff."""

    line: int  # from 1
    before: str
    after: str
    diff: str


class CatalogChange(msgspec.Struct, frozen=True, kw_only=True):
    """Two tool catalogs apart, by the names of their tools."""

    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    reordered: bool = False


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """What a prefix cache could have served, in tokens, and why it didn't.

    Rules: `could_serve` is what had been sent before; `lost` is the part of it that was not served, for
    `reason`; `lost_usd` is None where the model's prices are unknown.
    """

    reason: Reason
    could_serve: int
    served: int | None = None  # as reported
    lost: int = 0
    lost_usd: float | None = None
    share: float = 0.0  # could_serve of the whole context
    age_s: float = 0.0  # since the call before


def fill_of(tokens: int | None, size: int, window: int | None) -> Fill:
    """The reported tokens against the model's window; where nobody reported, by the bytes."""
    return Fill(tokens=size // BYTES_A_TOKEN if tokens is None else tokens, estimated=tokens is None, window=window)


def change_of(before: Sequence[bytes], now: Sequence[bytes]) -> Change:
    """What became of the messages of the call before."""
    made = link(before, now)
    gone = len(before) - made.head - made.tail
    if before and now and not made.head and not made.tail:
        return Change(kept=0, replaced=gone, by=len(now), at=0)
    if not made.tail:
        at = made.head if gone else None
        return Change(kept=made.head, appended=len(made.middle), rewound=gone, at=at)
    between = len(made.middle) - made.appended
    slid = made.head == 0 and between == 0
    return Change(
        kept=made.head + made.tail,
        appended=made.appended,
        dropped_head=gone if slid else 0,
        replaced=0 if slid else gone,
        by=between,
        at=made.head,
    )


def prompt_change(before: str, after: str) -> PromptChange | None:
    """Where two prompts differ; None where they don't."""
    if before == after:
        return None
    old, new = before.splitlines(), after.splitlines()
    same = next(
        (place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    diff = difflib.unified_diff(old, new, "before", "after", lineterm="")
    return PromptChange(
        line=same + 1,
        before=old[same] if same < len(old) else "",
        after=new[same] if same < len(new) else "",
        diff="\n".join(diff),
    )


def catalog_change(before: str, after: str) -> CatalogChange | None:
    """Which tools came, went and changed; None where the two texts are the same."""
    if before == after:
        return None
    old, new = tools_of(before), tools_of(after)
    kept = [name for name in new if name in old]
    return CatalogChange(
        added=[name for name in new if name not in old],
        removed=[name for name in old if name not in new],
        changed=[name for name in kept if old[name] != new[name]],
        reordered=kept != [name for name in old if name in new],
    )


def cache_of(
    before: Sent,
    now: Sent,
    prices: ModelPrices | None = None,
    max_age_s: float = CACHE_SECONDS,
    change: Change | None = None,
) -> Cache:
    """What the cache could have served of `now` after `before`, what of that was lost, why, and for how much.

    What a rewind took off the end is no loss: nothing behind it is sent again.
    """
    change = change or change_of(before.messages, now.messages)
    again = now.size_up_to(len(now.messages) - change.appended if change.kept else 0)
    age_s = (now.ts - before.ts) / 1e6
    reason, kept = _prefix(before, now, change, again, expired=age_s > max_age_s)
    could, prefix = now.tokens_of(again), now.tokens_of(kept)
    lost = could - prefix
    if now.cache_read is not None:
        if reason == "none" and not now.cache_read and could >= LEAST_CACHED:
            reason, lost = "unserved", could
        lost = max(0, min(lost, could - now.cache_read))  # what was served was not lost, whatever we think
    return Cache(
        reason=reason if lost else "none",
        could_serve=could,
        served=now.cache_read,
        lost=lost,
        lost_usd=_price_of(lost, prices),
        share=again / now.size if now.size else 0.0,
        age_s=age_s,
    )


def _prefix(before: Sent, now: Sent, change: Change, again: int, *, expired: bool) -> tuple[Reason, int]:
    """The first thing that ends the common prefix, and how many bytes precede it."""
    if before.model != now.model:
        return "model", 0
    if before.catalog_digest != now.catalog_digest:
        return "catalog", 0
    if before.prompt_digest != now.prompt_digest:
        return "prompt", now.catalog_size
    if expired:
        return "expired", 0
    if change.at is not None and not change.rewound:
        return "message", now.size_up_to(change.at)
    return "none", again


def _price_of(tokens: int, prices: ModelPrices | None) -> float | None:
    """What those tokens cost more than out of the cache."""
    if prices is None or prices.input is None or prices.cache_read is None:
        return None
    return tokens * max(0.0, prices.input - prices.cache_read)
