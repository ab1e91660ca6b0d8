"""A score: what somebody or something thought of an answer."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Id = Annotated[str, Meta(min_length=1)]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `scores`, derived from the log.

    Rules: told twice under one `score_id` the later `ts` stands. A score has a value, a label, or both.
    """

    score_id: Id
    session_id: Id
    trace_id: Id
    span_id: str | None = None
    name: str = ""
    value: float | None = None
    label: str | None = None
    comment: str | None = None
    source: str = ""  # who judged, where that is known
    ts: int  # microseconds since 1970, UTC
