"""Which session a run of an agent belongs to, what of it is recorded already, and with which recorder it goes on."""

from __future__ import annotations

import atexit
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from operator import is_
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pydantic_ai.messages import ModelMessage, ModelResponse

from dashcam.contracts.content import digest_of
from dashcam.record.calls import Sent
from dashcam.record.pydantic_messages import Item, Key, bodies_of, items_of, keys_of, leaves_of
from dashcam.record.recorder import SessionRecorder
from dashcam.sdk import emit
from dashcam.sdk.trace import Trace

MAX_SESSIONS = 256
MAX_OPEN = 16  # recorders of one session that are kept open for models that may come back, and tools that may end
MAX_KNOWN = 100_000  # things said and messages that a session remembers

Body = tuple[bytes, bytes]  # a message's digest, and its JSON


class Dump(NamedTuple):
    """A message's JSON, and what it was made of, held so that nothing else can take its place."""

    leaves: list[Any]
    body: Body


class Lane:
    """A recorder in the hands of one run at a time.

    Two runs at once in one session get two: one message never mixes what two models say.
    """

    def __init__(self, chat: SessionRecorder, owner: object, *, is_ours: bool = True) -> None:
        self.chat, self.owner, self.is_ours = chat, owner, is_ours
        self.run_id: str | None = None
        self.is_busy = False
        self.pending: set[str] = set()  # tool calls without an outcome
        self.outputs: set[str] = set()  # calls that are the answer themselves; their outcome comes with the next run
        self._sent: dict[bytes, Sent] = {}

    def awaits(self, call_id: str) -> bool:
        return call_id in self.pending or call_id in self.outputs

    def settle(self, *call_ids: str) -> None:
        """These calls have their outcome; without any named, all of them."""
        for awaited in (self.pending, self.outputs):
            awaited.difference_update(call_ids or tuple(awaited))

    def sent(self, bodies: Sequence[Body]) -> list[Sent]:
        """Keep each message once; one that was kept before isn't looked through again."""
        if len(self._sent) > MAX_KNOWN:
            self._sent.clear()
        for digest, body in bodies:
            if digest not in self._sent or not self.chat.calls.knows(self._sent[digest]):
                self._sent[digest] = self.chat.calls.message(body)
        return [self._sent[digest] for digest, _ in bodies]


class Session:
    """What is known of one session in this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.lanes: list[Lane] = []
        self.retries: set[datetime] = set()
        self._seen: Counter[bytes] = Counter()
        self._keys: dict[bytes, list[Key]] = {}  # of messages, by their digests
        self._dumps: dict[str | None, dict[int, Dump]] = {}  # of each run's last request, by the messages' id()

    def bodies(self, messages: Sequence[ModelMessage], run_id: str | None) -> list[Body]:
        """Each message as JSON, made anew only of what is new or has changed since the last request of this run."""
        before, now = self._dumps.pop(run_id, {}), dict[int, Dump]()
        changed = []
        for message in messages:
            leaves, known = leaves_of(message), before.get(id(message))
            if known and len(known.leaves) == len(leaves) and all(map(is_, known.leaves, leaves)):
                now[id(message)] = known
            else:
                now[id(message)] = Dump(leaves, (b"", b""))
                changed.append(message)
        for message, body in zip(changed, bodies_of(changed), strict=True):
            now[id(message)] = Dump(now[id(message)].leaves, (digest_of(body), body))
        while len(self._dumps) >= MAX_OPEN:
            self.forget(next(iter(self._dumps)))
        self._dumps[run_id] = now
        return [now[id(message)].body for message in messages]

    def forget(self, run_id: str | None) -> None:
        """A turn is over: its messages are the host's to keep."""
        with self.lock:
            self._dumps.pop(run_id, None)

    def news(self, messages: Sequence[ModelMessage], bodies: Sequence[Body], run_id: str | None) -> list[Item]:
        """What is said here for the first time.

        What stands before something known is no news: the host has rewritten its history, and the context
        of the call tells how. Of earlier runs the words are enough to know them again, since many a host
        makes their messages anew from its own database.
        """
        items: list[Item] = []
        counts: Counter[bytes] = Counter()
        known = 0
        for message, (digest, _) in zip(messages, bodies, strict=True):
            is_own = run_id is not None and message.run_id == run_id
            is_response = isinstance(message, ModelResponse)
            for item in items_of(message, self._keys_of(message, digest)):
                items.append(item)
                counts[item.exact] += 1
                counts[item.words] += 1
                is_known = counts[item.exact] <= self._seen[item.exact] or (is_own and is_response)
                if not is_known and (is_response or not (is_own or message is messages[-1])):
                    is_known = counts[item.words] <= self._seen[item.words]
                if is_known:
                    known = len(items)
        self._remember({key: max(count, self._seen[key]) for key, count in counts.items()})
        return items[known:]

    def _keys_of(self, message: ModelMessage, digest: bytes) -> list[Key]:
        if len(self._keys) > MAX_KNOWN:
            self._keys.clear()
        if digest not in self._keys:
            self._keys[digest] = keys_of(message)
        return self._keys[digest]

    def saw(self, response: ModelResponse) -> None:
        """An answer was recorded as it came: when it comes back as history it is known."""
        counts = Counter(key for item in items_of(response) for key in (item.exact, item.words))
        with self.lock:
            self._remember({key: count + self._seen[key] for key, count in counts.items()})

    def _remember(self, counts: dict[bytes, int]) -> None:
        dict.update(self._seen, counts)  # a Counter's own would add
        while len(self._seen) > MAX_KNOWN:
            del self._seen[next(iter(self._seen))]

    def lane(
        self, owner: object, run_id: str | None, trace: Trace | None, calls: set[str], make: Callable[[], Lane]
    ) -> Lane:
        """The recorder for a request: that of its run, one whose open tool calls it answers, or one at rest."""
        free = [lane for lane in self.lanes if not lane.is_busy]
        fitting = [lane for lane in free if lane.owner is owner and _is_in(lane, trace)]
        choices = (
            [lane for lane in fitting if lane.run_id == run_id and run_id is not None],
            [lane for lane in free if lane.pending & calls],
            [lane for lane in fitting if not lane.pending],
        )
        found = next((lane for lanes in choices for lane in lanes), None)
        if found is None:
            found = make()
            self.lanes.append(found)
        found.run_id, found.is_busy = run_id, True
        return found

    def close_old(self, owner: object, trace: Trace | None) -> None:
        """Close the recorders that nobody will come back to."""
        with self.lock:
            free = [lane for lane in self.lanes if not lane.is_busy]
            ours = [lane for lane in free if lane.is_ours]
            resting, waiting = [[lane for lane in ours if bool(lane.pending) is is_open] for is_open in (False, True)]
            over = [lane for lane in resting if lane.owner is owner and not _is_in(lane, trace)]  # a trace that is over
            over += [lane for lane in resting if lane not in over][:-MAX_OPEN]
            over += waiting[:-MAX_OPEN]  # of runs that died in a tool
            for lane in over:
                self._close(lane)

    def close(self) -> None:
        for lane in [lane for lane in self.lanes if lane.is_ours]:
            self._close(lane)

    def _close(self, lane: Lane) -> None:
        self.lanes.remove(lane)
        lane.chat.close()


def _is_in(lane: Lane, trace: Trace | None) -> bool:
    """A recorder writes into one trace; the host's own recorder into the one that it was made with."""
    return trace is None or not lane.is_ours or lane.chat.trace.trace_id == trace.trace_id


class Sessions:
    """The sessions that one journal was last told of, those unused longest forgotten first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    def of(self, session_id: str) -> Session:
        with self._lock:
            session = self._sessions.pop(session_id, None) or Session()
            self._sessions[session_id] = session
            oldest = list(self._sessions.items())[: max(0, len(self._sessions) - MAX_SESSIONS)]
            idle = [name for name, each in oldest if not any(lane.is_busy for lane in each.lanes)]
            forgotten = [self._sessions.pop(name) for name in idle]
        for each in forgotten:
            each.close()
        return session

    def close(self) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()


# A host that configures another journal begins anew there: what was told to the one before isn't in it.
_of_journal: WeakKeyDictionary[Any, Sessions] = WeakKeyDictionary()
_lock = threading.Lock()


def sessions() -> Sessions:
    """The sessions of the journal that is in use."""
    recorder = emit.recorder()
    with _lock:
        found = _of_journal.get(recorder)
        if found is None:
            found = _of_journal[recorder] = Sessions()
        return found


@atexit.register
def _close_all() -> None:
    # Where nothing is recorded any more, closing must not begin another journal.
    with suppress(Exception):
        if emit._recorder in _of_journal:
            sessions().close()


def current_run() -> Any:
    """The run that asks, where the library tells."""
    try:
        from pydantic_ai._run_context import get_current_run_context

        return get_current_run_context()
    except Exception:
        return None


def run_id_of(messages: Sequence[ModelMessage], run: Any) -> str | None:
    """The run of a request.

    A last message that was put together from two has lost it: then it is the current run's, if that is
    what it tells of, and not some other request from inside a tool.
    """
    last = messages[-1]
    if last.run_id is not None or not getattr(run, "messages", None):
        return last.run_id
    times = [{getattr(part, "timestamp", None) for part in each.parts} - {None} for each in (last, run.messages[-1])]
    return str(run.run_id) if times[0] & times[1] else None
