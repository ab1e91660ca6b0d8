"""Spans as agents send them: batches of 100, traces of 10 (an agent, five model calls, four tools), 1.4 KB each."""

from __future__ import annotations

import os
import random
import time
from itertools import pairwise

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

BATCH = 100
A_TRACE = 10
SIZE = 1400  # bytes a span, in the middle

_SECOND = 10**9


class Traffic:
    """Makes requests that all differ: random words, random ids. The same seed gives the same words."""

    def __init__(self, seed: int = 1, size: int = SIZE) -> None:
        self._random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = ["".join(self._random.choices(letters, k=self._random.randint(3, 9))) for _ in range(5000)]
        self._size = size

    def request(self) -> bytes:
        """An ExportTraceServiceRequest with one batch."""
        request = ExportTraceServiceRequest()
        block = request.resource_spans.add()
        _set(block.resource.attributes, {"service.name": "bench", "telemetry.sdk.language": "python"})
        scope = block.scope_spans.add()
        scope.scope.name = "bench"
        for _ in range(BATCH // A_TRACE):
            self._trace(scope)
        return bytes(request.SerializeToString())

    def prose(self, size: int) -> str:
        found: list[str] = []
        held = 0
        while held < size:
            found.append(self._random.choice(self._words))
            held += len(found[-1]) + 1
        return " ".join(found)[:size]

    def _trace(self, scope: ScopeSpans) -> None:
        trace_id, start = os.urandom(16), time.time_ns() - 20 * _SECOND
        session = _session(trace_id)
        root = self._span(scope, trace_id, b"", "invoke_agent helper", start, 19)
        question, answer = _message("user", _text(self.prose(150))), self.prose(self._size - 1000)
        _set(root.attributes, _common("invoke_agent", session) | {
            "gen_ai.agent.name": "helper", "gen_ai.input.messages": f"[{question}]",
            "gen_ai.output.messages": f"[{_message('assistant', _text(answer))}]", "notes": self.prose(300),
        })  # fmt: skip
        history = question
        for place in range(5):
            history = self._step(
                scope, root, session, start + place * 4 * _SECOND, history, answer if place == 4 else ""
            )

    def _step(self, scope: ScopeSpans, root: Span, session: str, start: int, history: str, answer: str) -> str:
        """A model call and the tool that it asks for; what the next call is sent. The last call answers."""
        call, path, result = f"call_{os.urandom(8).hex()}", self.prose(30), self.prose(self._size - 500)
        said = answer or self.prose(max(60, self._size - 650 - len(history)))
        out = _text(answer) if answer else f"{_text(said)},{_call(call, path)}"
        span = self._span(scope, root.trace_id, root.span_id, "chat gpt-4o", start, 2)
        _set(span.attributes, _common("chat", session) | {
            "gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.response.id": f"chatcmpl-{os.urandom(12).hex()}",
            "gen_ai.response.finish_reasons": "stop" if answer else "tool_calls",
            "gen_ai.input.messages": f"[{history}]", "gen_ai.output.messages": f"[{_message('assistant', out)}]",
            "gen_ai.usage.input_tokens": self._random.randint(500, 5000),
            "gen_ai.usage.output_tokens": self._random.randint(50, 500),
        })  # fmt: skip
        if answer:
            return history
        tool = self._span(scope, root.trace_id, root.span_id, "execute_tool look", start + 2 * _SECOND, 1)
        _set(tool.attributes, _common("execute_tool", session) | {
            "gen_ai.tool.name": "look", "gen_ai.tool.call.id": call,
            "gen_ai.tool.call.arguments": f'{{"path":"{path}"}}', "gen_ai.tool.call.result": result,
        })  # fmt: skip
        # The model is sent no more than the beginnings, as agents that mind their context do.
        returned = f'{{"type":"tool_call_response","id":"{call}","response":"{result[:40]}"}}'
        return f"{history},{_message('assistant', _call(call, path))},{_message('tool', returned)}"

    def _span(self, scope: ScopeSpans, trace_id: bytes, parent: bytes, name: str, start: int, seconds: int) -> Span:
        span: Span = scope.spans.add(
            trace_id=trace_id, span_id=os.urandom(8), parent_span_id=parent, name=name, start_time_unix_nano=start,
            end_time_unix_nano=start + seconds * _SECOND - self._random.randint(0, _SECOND // 2),
        )  # fmt: skip
        return span


def renewed(request: bytes) -> bytes:
    """The same request with other traces and sessions: made a hundred times faster than a new one."""
    told = ExportTraceServiceRequest.FromString(request)
    ids = {span.trace_id for block in told.resource_spans for scope in block.scope_spans for span in scope.spans}
    for old in ids:
        new = os.urandom(16)
        request = request.replace(old, new).replace(_session(old).encode(), _session(new).encode())
    return request


def _session(trace_id: bytes) -> str:
    return f"bench-{trace_id.hex()[:12]}"


def loop(trace_id: bytes, calls: int, prose: list[str]) -> list[bytes]:
    """The requests of one agent that repeats its whole history with every call, one a request."""
    found, history = [], [_message("user", _text(prose[0]))]
    start = time.time_ns() - calls * _SECOND
    for place, (question, answer) in enumerate(pairwise(prose[: calls + 1])):
        request = ExportTraceServiceRequest()
        block = request.resource_spans.add()
        _set(block.resource.attributes, {"service.name": "loop"})
        out = _message("assistant", _text(answer))
        span = block.scope_spans.add().spans.add(
            trace_id=trace_id, span_id=os.urandom(8), name="chat gpt-4o",
            start_time_unix_nano=start + place * _SECOND, end_time_unix_nano=start + (place + 1) * _SECOND,
        )  # fmt: skip
        _set(span.attributes, _common("chat", f"loop-{trace_id.hex()[:8]}") | {
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.input.messages": f"[{','.join(history)}]", "gen_ai.output.messages": f"[{out}]",
        })  # fmt: skip
        found.append(bytes(request.SerializeToString()))
        history += [out, _message("user", _text(f"go on {place} {question[:20]}"))]
    return found


def _common(operation: str, session: str) -> dict[str, str | int]:
    return {"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.conversation.id": session}


def _message(role: str, parts: str) -> str:
    return f'{{"role":"{role}","parts":[{parts}]}}'


def _text(text: str) -> str:
    return f'{{"type":"text","content":"{text}"}}'


def _call(call_id: str, path: str) -> str:
    return f'{{"type":"tool_call","id":"{call_id}","name":"look","arguments":{{"path":"{path}"}}}}'


def _set(attributes, values: dict[str, str | int]) -> None:  # type: ignore[no-untyped-def]  # a protobuf container
    for key, value in values.items():
        attribute = attributes.add()
        attribute.key = key
        if isinstance(value, int):
            attribute.value.int_value = value
        else:
            attribute.value.string_value = value
