"""No secret of a span or a log record reaches a disk, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from dashcam.dialects.otlp import decode, wire
from dashcam.dialects.otlp.calm import calm_of
from dashcam.dialects.otlp.redact import redact
from dashcam.sdk.redaction import Redaction, Redactor

TRACE, SPAN = bytes(range(1, 17)), bytes(range(1, 9))
SECRET = "sk-ant-" + 3 * "abcdefghijkl"  # the shape of a key, and no key


def in_request(*spans: SpanMessage) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(spans)
    return request


def span(**more: Any) -> SpanMessage:
    return SpanMessage(**{"trace_id": TRACE, "span_id": SPAN, "name": "chat", **more})


def array(*items: AnyValue) -> AnyValue:
    value = AnyValue()
    value.array_value.values.extend(items)
    return value


def kvlist(*pairs: tuple[str, AnyValue]) -> AnyValue:
    value = AnyValue()
    value.kvlist_value.values.extend(KeyValue(key=key, value=item) for key, item in pairs)
    return value


def attributes_in(received: wire.Received) -> list[KeyValue]:
    """The attributes of the one span that was received; small, so nothing was taken out of it."""
    return list(SpanMessage.FromString(received.spans[0].body).attributes)


def _with_secrets() -> SpanMessage:
    """A span with a secret at every place that can hold one."""
    message = span(name=f"GET https://u:{SECRET}@host/", trace_state=f"a={SECRET}")
    message.attributes.add(key="api_key").value.string_value = "hunter2"
    message.attributes.add(key="input.value").value.string_value = '{"password": "hunter2"}'
    message.attributes.add(key="list").value.array_value.values.add().string_value = SECRET
    message.attributes.add(key="raw").value.bytes_value = b"\xff" + SECRET.encode()
    message.attributes.add(key=SECRET).value.int_value = 1
    nested = message.attributes.add(key="headers").value.kvlist_value
    for value in ("hunter2", "hunter2"):
        nested.values.add(key="password").value.string_value = value
    nested.values.add(key="password").value.bool_value = True
    twice = message.attributes.add(key="auth_token")
    twice.value.string_value = "hunter2"
    message.attributes.add(key="auth_token").value.bool_value = True
    message.attributes.add(key="pairs").value.array_value.values.append(
        array(AnyValue(string_value="x-api-key"), AnyValue(string_value="hunter2"))
    )
    message.attributes.add(key="name").value.string_value = "Authorization"
    for value in ("hunter2", "hunter2", "x"):
        message.attributes.add(key="value").value.string_value = value
    message.attributes.add(key="name").value.string_value = "Accept"
    message.status.message = f"refused {SECRET}"
    message.events.add(name=f"sent {SECRET}").attributes.add(key="token").value.string_value = "hunter2"
    message.links.add(trace_id=TRACE, span_id=SPAN).attributes.add(key="secret").value.string_value = "hunter2"
    return message


@pytest.mark.parametrize("trace_id", [TRACE, b""])
def test_no_secret_of_a_span_is_left_wherever_it_stood(trace_id: bytes) -> None:
    message = _with_secrets()
    message.trace_id = trace_id
    message.attributes.add(key="long").value.string_value = f"{'x ' * 3000} api_key = {SECRET}"
    request = in_request(message)
    request.resource_spans[0].resource.attributes.add(key="db.password").value.string_value = "hunter2"
    request.resource_spans[0].scope_spans[0].scope.attributes.add(key="secret").value.string_value = "hunter2"
    received = wire.receive_traces(request, Redactor(Redaction()))
    left = repr(received).encode() + b"".join(received.contents)
    assert b"hunter2" not in left and b"abcdefghijkl" not in left
    assert b"[REDACTED]" in left
    assert all(each.redacted for each in received.spans)
    assert len(received.spans) + len(received.orphans) == 1


def test_what_is_no_secret_stays_beside_one() -> None:
    message = _with_secrets()
    message.attributes.add(key="gen_ai.request.model").value.string_value = "gpt-4o"
    request = in_request(message)
    received = wire.receive_traces(request, Redactor(Redaction()))
    left = decode.attributes_of(attributes_in(received))
    assert (left["gen_ai.request.model"], left["api_key"], left["name"]) == ("gpt-4o", "[REDACTED]", "Accept")
    assert left["pairs"] == [["x-api-key", "[REDACTED]"]]
    names = [attribute.key.replace(SECRET, "[REDACTED]") for attribute in _with_secrets().attributes]
    assert [attribute.key for attribute in attributes_in(received)] == [*names, "gen_ai.request.model"]


def test_names_that_come_twice_on_every_level_are_hidden_and_stay_readable() -> None:
    """What stands there then is no deeper than what was sent, which a reader of protobuf would refuse."""
    value, told = AnyValue(string_value="hunter2"), AnyValue(string_value="x")
    for _ in range(30):
        value = kvlist(("name", told), ("inner", value), ("name", told), ("token", AnyValue(string_value="hunter2")))
    message = span()
    message.attributes.add(key="deep", value=value)
    message.attributes.add(key="labelled", value=kvlist(*_twice_labelled()))
    assert redact(message, Redactor(Redaction()))
    stored = message.SerializeToString()
    assert SpanMessage.FromString(stored) == message
    assert stored.count(b"hunter2") == 1  # the innermost, which has no name that says so


def _twice_labelled() -> list[tuple[str, AnyValue]]:
    told = [("name", "Authorization"), ("value", "hunter2"), ("name", "Accept"), ("value", "hunter2")]
    return [(key, AnyValue(string_value=text)) for key, text in told]


def test_a_secret_of_the_resource_marks_every_span_below_it() -> None:
    request = in_request(span(), span(span_id=SPAN[::-1]))
    request.resource_spans[0].resource.attributes.add(key="password").value.string_value = "hunter2"
    assert [each.redacted for each in wire.receive_traces(request, Redactor(Redaction())).spans] == [True, True]


@pytest.mark.parametrize(
    "body", [AnyValue(string_value=f"key {SECRET}"), kvlist(("token", AnyValue(string_value="hunter2")))]
)
def test_no_secret_of_a_log_record_is_left(body: AnyValue) -> None:
    record = LogMessage(trace_id=TRACE, body=body)
    record.attributes.add(key="authorization").value.string_value = "Bearer hunter2"
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.append(record)
    received = wire.receive_logs(request, Redactor(Redaction()))
    assert received.logs[0].redacted
    assert b"hunter2" not in received.logs[0].body and b"abcdefghijkl" not in received.logs[0].body


def test_the_hosts_own_function_has_the_last_word() -> None:
    def without_user(fields: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if key != "user"}

    def broken(fields: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError

    for function, expected in ((without_user, {"n": 1}), (broken, {"redaction": "failed"})):
        message = span()
        message.attributes.add(key="user").value.string_value = "ada"
        message.attributes.add(key="n").value.int_value = 1
        assert redact(message, Redactor(Redaction(function=function)))
        assert decode.attributes_of(message.attributes) == expected


pieces = st.sampled_from(
    ["password", "passwd", "passphrase", "token", "tokens", "access_token", "input_tokens", "session_tokens", "api_key", "apiKey", "API-KEY", "key", "keys", "secret", "Secret", "credentials", "cookie", "Set-Cookie", "authorization", "Authorization", "bearer", "Bearer", "Basic", "basic_auth", "jwt", "pwd", "PWD", "sig", "signature", "x-amz-signature", "secret_value", "connection_string", "password_confirmation", "db_pass", "next_token", "auth", "--password", "--token", "-u", "curl", "aws4-hmac", "credential", "-----BEGIN", "RSA", "PRIVATE", "KEY-----", "sk-ant-", "sk-proj-", "ghp_", "github_pat_", "glpat-", "xoxb-", "AKIA", "AIza", "ya29.", "GOCSPX-", "sk_live_", "whsec_", "hf_", "npm_", "pypi-AgE", "eyJ", "SG.", "hvs.", "dapi", "ATATT3x", "gsk_", "xai-", "hooks.slack.com/services/", "12345678:AA", "https://", "user:", "@host", "?sig=", "&x-goog-signature=", "hunter2", "Abcdefgh1234567890abcdefghijklmnop", "0123456789abcdef0123456789abcdef", "dXNlcjpwYXNzd29yZA==", "string", "type", "null", "toKen", "İ", "é", "—", "�"]
) | st.sampled_from([*"\"'`\\=:><[]{}(),;&|*._- \t\n0123456789", ": ", '": "', '\\": \\"', " = ", "=>", ":=", "</", "s", "1"])  # fmt: skip
suspicious = st.lists(pieces, max_size=14).map("".join)
readable = suspicious.map(lambda text: text.encode("utf-8", "replace").decode())


@given(suspicious)
@example("pass\u212aword toKen: hunter2")
@example("to\u212aen: 'hunter2hunter2'")
def test_a_text_that_is_calm_would_stay_as_it_is(text: str) -> None:
    redactor = Redactor(Redaction())
    text = text.encode("utf-8", "replace").decode()
    message = span(attributes=[KeyValue(key="content", value=AnyValue(string_value=text))])
    if calm_of(redactor).is_calm(message.SerializeToString()):
        assert redactor.scrub(text) == text


plain = st.one_of(
    st.builds(AnyValue, int_value=st.integers(0, 9)),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, string_value=readable),
    st.builds(AnyValue, bytes_value=suspicious.map(lambda text: text.encode("utf-8", "replace"))),
)
values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: array(*items))
        | st.lists(st.tuples(readable, inner), max_size=3).map(lambda pairs: kvlist(*pairs))
    ),
    max_leaves=5,
)


@pytest.mark.slow
@given(st.lists(st.builds(KeyValue, key=readable, value=values), max_size=4))
def test_attributes_that_are_calm_would_stay_as_they_are(told: list[KeyValue]) -> None:
    message = span(attributes=told)
    redactor = Redactor(Redaction())
    before, sent = decode.attributes_of(message.attributes), message.SerializeToString()
    is_calm = calm_of(redactor).is_calm(sent)
    if not redact(message, redactor):
        assert redactor.apply({"": before}).fields == {"": before}
        assert message.SerializeToString() == sent
    else:
        assert not is_calm
        assert not redact(message, redactor), "what is clean stays clean"


@pytest.mark.parametrize("key", ["api:key", "config::api::key", "db=pass", "x-api-key", "API KEY 2", "p.a.s.s.w.o.r.d"])
def test_a_name_is_a_name_however_it_is_written(key: str) -> None:
    redactor = Redactor(Redaction())
    for told in (
        KeyValue(key=key, value=AnyValue(string_value="hunter2hunter2")),
        KeyValue(
            key="headers", value=array(array(AnyValue(string_value=key), AnyValue(string_value="hunter2hunter2")))
        ),
        KeyValue(key="headers", value=kvlist((key, AnyValue(string_value="hunter2hunter2")))),
    ):
        message = span(attributes=[told])
        is_calm = calm_of(redactor).is_calm(message.SerializeToString())
        assert not (redact(message, redactor) and is_calm)


def test_a_shape_of_the_hosts_own_is_never_called_calm() -> None:
    redactor = Redactor(Redaction(keys=("employee number",)))
    named = span(attributes=[KeyValue(key="Employee-Number", value=AnyValue(string_value="4711"))])
    assert not calm_of(redactor).is_calm(named.SerializeToString())
    assert calm_of(Redactor(Redaction())).is_calm(named.SerializeToString())
    asking = Redactor(Redaction(function=lambda fields: fields))
    assert not calm_of(asking).is_calm(span(attributes=[]).SerializeToString())
