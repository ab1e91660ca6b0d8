"""Projecting with two hands: traces are judged while those before them are written. SQLite works without the GIL."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from dashcam.record.prices import warm
from dashcam.record.projector import GROUP, Refused, concerned, judge_all, replace
from dashcam.record.traces import Judged
from dashcam.store.base import Reader, Store

PAGE = 4 * GROUP  # traces that are listed at once


class Pipeline:
    """Projects a store page by page. `reader` sees what is committed, and nobody else uses it or the store meanwhile.

    What is judged while others are being written can't know of them yet: where both are of one session, or one goes on
    from the other, it is judged again before it is written itself.
    """

    def __init__(self, store: Store, reader: Reader, refused: Refused | None = None) -> None:
        self._store, self._reader, self._refused = store, reader, refused
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="dashcam-project")
        self._under_way: tuple[Future[None], dict[str, Judged]] | None = None

    def project_some(self) -> int:
        """Project the traces of the next page; return how many."""
        page = self._store.unprojected(limit=PAGE)
        for start in range(0, len(page.trace_ids), GROUP):
            wanted = page.trace_ids[start : start + GROUP]
            is_last = start + GROUP >= len(page.trace_ids)
            self._write(self._judge(wanted), page.cursor if is_last else page.since)
        self._wait()
        if not page.trace_ids:
            self._store.replace({}, cursor=page.cursor)
        return len(page.trace_ids)

    def close(self) -> None:
        self._writer.shutdown()

    def _judge(self, trace_ids: list[str]) -> dict[str, Judged]:
        judged = judge_all(self._reader, trace_ids, self._refused)
        written = self._wait()
        stale = [trace_id for trace_id, each in judged.items() if _concern(each, written)] if written else []
        return judged | judge_all(self._reader, stale, self._refused) if stale else judged

    def _write(self, judged: dict[str, Judged], cursor: str) -> None:
        self._under_way = (self._writer.submit(self._replace, judged, cursor), judged)

    def _replace(self, judged: dict[str, Judged], cursor: str) -> None:
        replace(self._store, judged, cursor, self._refused)
        if others := concerned(self._store, judged.values()):
            replace(self._store, judge_all(self._store, sorted(others), self._refused), cursor, self._refused)

    def _wait(self) -> list[Judged]:
        """What was being written, once it is."""
        if self._under_way is None:
            return []
        (written, judged), self._under_way = self._under_way, None
        written.result()
        return list(judged.values())


def warm_up() -> None:
    """Load what the first trace would wait for: OpenTelemetry's messages, the dialects, the table of prices."""
    from dashcam.record import trace_readings  # noqa: F401

    warm()


def _concern(judged: Judged, others: Iterable[Judged]) -> bool:
    """Whether what these tell may change what a trace tells."""
    sessions, ends = set(), set()
    for other in others:
        sessions |= {piece.session_id for piece in other.projection.pieces}
        ends |= {piece.ends for piece in other.projection.pieces}
    return any(piece.session_id in sessions or piece.starts in ends for piece in judged.projection.pieces)
