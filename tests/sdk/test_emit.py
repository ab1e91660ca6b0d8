from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dashcam
from dashcam import UnjoinableRecord, log_event, new_trace
from dashcam.errors import ReservedField, SettingsError
from dashcam.sdk.settings import settings_from

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def test_a_line_opens_with_its_identity_in_this_order(tape: dashcam.testing.Tape) -> None:
    log_event(new_trace("chat-42"), "tool_call_completed", tool="search", latency_ms=42)
    (record,) = tape.records
    assert list(record) == ["session_id", "trace_id", "step", "kind", "operation", "ts", "tool", "latency_ms"]
    assert datetime.fromisoformat(record["ts"]).tzinfo == UTC


@pytest.mark.parametrize("field", ["session_id", "trace_id", "step", "kind", "operation", "ts", "_dashcam"])
@pytest.mark.parametrize("strict", [True, False])
def test_a_field_that_would_overwrite_identity_is_refused(field: str, strict: bool) -> None:
    with dashcam.testing.recording(strict=strict) as tape:
        with pytest.raises(ReservedField, match=field):
            log_event(new_trace("s"), "tool_call", tool="x", **{field: "other"})
        assert tape.records == []


@pytest.mark.parametrize("nothing", [None, {}, "trace", {"session_id": "s", "trace_id": "t"}, object()])
def test_only_a_trace_identifies_a_record(nothing: Any, tape: dashcam.testing.Tape) -> None:
    with pytest.raises(UnjoinableRecord):
        log_event(nothing, "tool_call", tool="x")
    assert tape.records == []


@pytest.mark.parametrize("operation", ["", " ", None, 3])
@pytest.mark.parametrize("strict", [True, False])
def test_a_record_always_says_what_happened(operation: Any, strict: bool) -> None:
    with dashcam.testing.recording(strict=strict) as tape:
        with pytest.raises(UnjoinableRecord):
            log_event(new_trace("s"), operation)
        assert tape.records == []


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.text(min_size=1).filter(
            lambda name: (
                name
                not in {
                    "session_id",
                    "trace_id",
                    "step",
                    "kind",
                    "operation",
                    "ts",
                    "span_id",
                    "parent_span_id",
                    "_dashcam",
                }
            )
        ),
        JSON,
        max_size=6,
    )
)
def test_what_is_recorded_is_read_back(fields: dict[str, Any]) -> None:
    """Redaction is off here: it has its own tests, and would rightly take out what looks like a secret."""
    with dashcam.testing.recording(strict=False, redaction=dashcam.Redaction(credentials=False)) as tape:
        log_event(new_trace("s"), "mine", **fields)
        (record,) = tape.records
    assert {name: record[name] for name in fields} == fields


def test_values_of_the_standard_library_have_a_form(tape: dashcam.testing.Tape) -> None:
    log_event(new_trace("s"), "tool_call", tool="x", when=datetime(2030, 1, 1, tzinfo=UTC), price=Decimal("1.50"))
    record = tape.records[0]
    assert (record["when"], record["price"]) == ("2030-01-01T00:00:00Z", "1.50")


@pytest.mark.parametrize("value", [object(), 1 << 80, "\ud800", {(1, 2): 3}, {1.5: object()}, lambda: None])
def test_a_value_that_cannot_be_encoded_never_raises_and_is_counted(value: Any, tape: dashcam.testing.Tape) -> None:
    log_event(new_trace("s"), "tool_call", tool="x", value=value, other=1)
    (record,) = tape.records
    assert record["other"] == 1
    assert dashcam.stats()["dropped"] == 0


LOOP: list[Any] = []
LOOP.append(LOOP)


class Browser:
    """As an agent passes them around."""


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        (object(), "value", "<object object at"),
        (lambda: None, "value", "<function <lambda>"),
        (Browser(), "value", "<test_emit.Browser object at"),
        (Browser, "value", "<class 'test_emit.Browser'>"),
        (LOOP, "value.0", "[TOO DEEP]"),
        ({"page": [1, Browser()]}, "value.page.1", "<test_emit.Browser object at"),
    ],
    ids=["object", "lambda", "instance", "class", "loop", "nested"],
)
def test_what_json_has_no_form_for_is_kept_as_a_text_marked_and_counted(
    value: Any, path: str, said: str, tape: dashcam.testing.Tape
) -> None:
    log_event(new_trace("s"), "tool_call", tool="x", value=value, other=1)
    (record,) = tape.records
    assert (record["tool"], record["other"]) == ("x", 1)
    kept: Any = record
    for part in path.split("."):
        kept = kept[int(part)] if isinstance(kept, list) else kept[part]
    assert kept.startswith(said)
    assert record["_dashcam"] == {"unencodable": [path]}
    assert (dashcam.stats()["unencodable"], dashcam.stats()["dropped"]) == (1, 0)


def test_what_fails_early_and_what_fails_late_are_listed_together(tape: dashcam.testing.Tape) -> None:
    """An object is replaced before anything is encoded; a lone surrogate only shows when it is."""
    log_event(new_trace("s"), "tool_call", tool="x", password="p", early=object(), late="\ud800")
    (record,) = tape.records
    assert record["_dashcam"] == {"redacted": ["password"], "unencodable": ["early", "late"]}


def test_values_with_a_form_of_their_own_are_not_marked(tape: dashcam.testing.Tape) -> None:
    log_event(new_trace("s"), "tool_call", tool="x", error=ValueError("no"), path=Path("a/b"), tags={"one"})
    (record,) = tape.records
    assert (record["error"], record["path"], record["tags"]) == ("ValueError('no')", "a/b", ["one"])
    assert "_dashcam" not in record
    assert dashcam.stats()["unencodable"] == 0


def test_a_loop_in_the_data_never_raises(tape: dashcam.testing.Tape) -> None:
    loop: list[Any] = []
    loop.append(loop)
    log_event(new_trace("s"), "tool_call", tool="x", value=loop)
    assert tape.records[0]["tool"] == "x"


def test_an_object_whose_repr_fails_never_raises(tape: dashcam.testing.Tape) -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    log_event(new_trace("s"), "tool_call", tool="x", value=Hostile())
    assert tape.records[0]["tool"] == "x"


def test_redacted_records_are_marked_and_counted(tape: dashcam.testing.Tape) -> None:
    log_event(
        new_trace("s"),
        "tool_call",
        tool="x",
        api_key="abc",
        input={"headers": {"Authorization": "Bearer abcdefgh1234"}},
    )
    (record,) = tape.records
    assert record["api_key"] == "[REDACTED]"
    assert record["_dashcam"]["redacted"] == ["api_key", "input.headers.Authorization"]
    assert dashcam.stats()["redacted"] == 1


def test_strict_is_the_default_under_pytest_and_only_there() -> None:
    assert settings_from({}).strict
    code = "import os; from dashcam.sdk.settings import settings_from; print(settings_from(os.environ).strict)"
    for said, expected in (("", "False"), ("1", "True")):
        printed = subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "DASHCAM_STRICT": said})
        assert printed.decode().strip() == expected


def test_bad_configuration_raises_where_it_is_given(tmp_path: Path) -> None:
    for bad in (
        {"project": "../x"},
        {"fsync": "sometimes"},
        {"url": "ftp://x"},
        {"colour": 1},
        {"segment_bytes": 0},
    ):
        with pytest.raises(SettingsError):
            dashcam.configure(data=tmp_path, **bad)


def test_a_folder_that_cannot_be_written_never_raises_is_logged_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    dashcam.configure(data=tmp_path / "file")
    trace = new_trace("s")
    with caplog.at_level(logging.WARNING, "dashcam"):
        for _ in range(10):
            trace = log_event(trace, "tool_call", tool="x")
    assert trace.step == 10
    assert dashcam.stats()["dropped"] == 10
    assert len(caplog.records) == 1


def test_folders_and_files_are_for_their_owner_alone(data: Path) -> None:
    log_event(new_trace("s"), "tool_call", tool="x")
    (segment,) = data.rglob("*.jsonl")
    assert segment.stat().st_mode & 0o777 == 0o600
    for folder in (data, data / "default", segment.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_projects_are_folders_of_their_own(data: Path) -> None:
    dashcam.configure(project="other")
    log_event(new_trace("s"), "tool_call", tool="x")
    assert [path.parent.parent.name for path in data.rglob("*.jsonl")] == ["other"]


def test_importing_dashcam_takes_less_than_50_ms() -> None:
    """The best of several: the machine may be busy, the package may not."""
    code = "import time; t = time.perf_counter(); import dashcam; print(time.perf_counter() - t)"
    taken = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))
    assert taken < 0.05


def test_the_sdk_needs_only_msgspec(tmp_path: Path) -> None:
    code = (
        "import sys, dashcam; dashcam.log_event(dashcam.new_trace('s'), 'tool_call', tool='x'); "
        "dashcam.run_of([], 't'); print(*{m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names)"
    )
    environment = {**os.environ, "DASHCAM_DATA": str(tmp_path)}
    found = subprocess.check_output([sys.executable, "-c", code], env=environment, cwd=tmp_path).decode().split()
    # typing_extensions comes along with msgspec only where something else has installed it.
    assert {name for name in found if not name.startswith("_")} <= {"dashcam", "msgspec", "typing_extensions"}


def test_every_public_name_is_there_and_documented() -> None:
    for name in dashcam.__all__:
        value = getattr(dashcam, name)
        assert name == "__version__" or (value.__doc__ or "").strip(), name
    with pytest.raises(AttributeError):
        dashcam.nothing_like_it  # noqa: B018


def test_settings_never_show_their_key() -> None:
    assert "hunter2" not in repr(settings_from({"DASHCAM_API_KEY": "hunter2", "DASHCAM_URL": "http://127.0.0.1"}))


def test_a_users_tests_ship_nowhere_whatever_the_machine_is_set_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHCAM_URL", "http://127.0.0.1:9")
    with dashcam.testing.recording():
        assert "ship" not in dashcam.stats()


def test_a_typo_in_the_environment_never_reaches_the_host(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, data: Path
) -> None:
    monkeypatch.setenv("DASHCAM_FSYNC", "foo")
    with caplog.at_level(logging.WARNING, "dashcam"):
        log_event(new_trace("s"), "tool_call", tool="x")
    assert "DASHCAM_FSYNC" in caplog.text
    assert list(data.rglob("*.jsonl"))
