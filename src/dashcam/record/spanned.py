"""A store's reader that finds in spans what was not copied out of them.

A model call that came as a span names what its model was sent and gave by digests, like every other; but the bodies
stand in the span, where they arrived. Whoever asks for them by digest gets them, and need not know.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from dashcam.contracts.call import OTLP, ModelCall
from dashcam.contracts.content import context_digest, digest_of
from dashcam.dialects.otlp.reading import Reading
from dashcam.errors import ContentNotFound
from dashcam.store.sqlite.store import SqliteReader

CALLS = 20_000  # whose spans are remembered
TRACES = 8  # whose bodies are


def sent_in(reading: Reading) -> list[bytes]:
    """The messages that a model was sent, each as it was told."""
    return [message.raw for message in reading.input or ()]


def context_of(reading: Reading) -> str | None:
    """The digest of what a model was sent; None where that isn't told."""
    sent = sent_in(reading)
    return context_digest(map(digest_of, sent)).hex() if sent else None


def answer_of(reading: Reading) -> str | None:
    """The digest of what a model gave."""
    given = answer_in(reading)
    return None if given is None else digest_of(given).hex()


def answer_in(reading: Reading) -> bytes | None:
    """What a model gave: the message, or a list where there are several."""
    given = [message.raw for message in reading.output or ()]
    if not given:
        return None
    return given[0] if len(given) == 1 else b"[" + b",".join(given) + b"]"


class SpannedReader(SqliteReader):
    """Reads a store. What its model calls name is found, wherever it stands."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._spans: OrderedDict[bytes, tuple[str, str]] = OrderedDict()  # by digest: trace and span
        self._loaded: OrderedDict[str, dict[bytes, bytes]] = OrderedDict()  # the bodies of a trace
        self._lists: dict[bytes, list[bytes]] = {}

    def model_calls(
        self, trace_id: str | None = None, *, session_id: str | None = None, message_id: str | None = None
    ) -> list[ModelCall]:
        calls = super().model_calls(trace_id, session_id=session_id, message_id=message_id)
        for call in calls:
            if call.wire == OTLP and call.span_id:
                for named in filter(None, (call.context_digest, call.output_digest)):
                    self._spans[bytes.fromhex(named)] = (call.trace_id, call.span_id)
        while len(self._spans) > CALLS:
            self._spans.popitem(last=False)
        return calls

    def context(self, digest: bytes) -> list[bytes]:
        try:
            return super().context(digest)
        except ContentNotFound:
            if digest not in self._lists and digest in self._spans:
                self._load(self._spans[digest][0])
            if digest not in self._lists:
                raise
            return self._lists[digest].copy()

    def bodies(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        wanted = list(digests)
        found = super().bodies(wanted)
        missing = [digest for digest in wanted if digest not in found]
        for digest in missing:
            if digest in self._spans and self._spans[digest][0] not in self._loaded:
                self._load(self._spans[digest][0])
        for known in self._loaded.values() if missing else ():
            found |= {digest: known[digest] for digest in missing if digest in known}
        return found

    def _load(self, trace_id: str) -> None:
        """Read what the models of a trace were sent and gave."""
        from dashcam.record.trace_readings import calls_in  # it needs the dialects, which not every reader does

        bodies: dict[bytes, bytes] = {}
        for reading in calls_in(self, trace_id):
            sent = sent_in(reading)
            digests = [digest_of(body) for body in sent]
            bodies |= dict(zip(digests, sent, strict=True))
            if digests:
                self._lists[context_digest(digests)] = digests
            if (given := answer_in(reading)) is not None:
                bodies[digest_of(given)] = given
        self._loaded[trace_id] = bodies
        if len(self._loaded) > TRACES:
            self._loaded.popitem(last=False)
            self._lists = {digest: known for digest, known in self._lists.items() if self._is_loaded(digest)}

    def _is_loaded(self, digest: bytes) -> bool:
        return digest in self._spans and self._spans[digest][0] in self._loaded
