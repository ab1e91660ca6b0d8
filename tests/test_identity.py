"""No path writes a record without its identity. The writers are found by walking the package, not by a list."""

from __future__ import annotations

import contextvars
import importlib
import inspect
import pkgutil
import re
import sqlite3
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import dashcam
from dashcam import Trace, UnjoinableRecord
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteStore


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(dashcam.__path__, "dashcam."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def takers() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Every public function or method of the package that takes a Trace, and the name of that parameter."""
    for module in modules():
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            functions = [(name, value)] if inspect.isfunction(value) else []
            if inspect.isclass(value):
                functions = [(f"{name}.{key}", item) for key, item in vars(value).items() if inspect.isfunction(item)]
            for label, function in functions:
                try:
                    hints = typing.get_type_hints(function)
                except NameError:
                    continue
                for parameter, hint in hints.items():
                    if parameter != "return" and isinstance(hint, type) and issubclass(hint, Trace):
                        yield f"{module.__name__}.{label}", function, parameter


def forged(field: str, value: object) -> Trace:
    """A Trace as no code of ours makes it: emptied after it was checked."""
    trace = dashcam.new_trace("s")
    msgspec.structs.force_setattr(trace, field, value)
    return trace


def arguments_for(function: Callable[..., Any], parameter: str, trace: object) -> dict[str, Any]:
    """The trace, and something plausible for all else that the function wants."""
    given: dict[str, Any] = {}
    for name, wanted in inspect.signature(function).parameters.items():
        if name == parameter:
            given[name] = trace
        elif name == "self":
            given[name] = dashcam.sdk.emit.recorder()
        elif wanted.default is wanted.empty and wanted.kind is not wanted.VAR_KEYWORD:
            given[name] = {
                "fields": {},
                "operation": "reply_ready",
                "parent_span": False,
                "step": 0,
                "marks": None,
            }.get(name)
    return given


TAKERS = list(takers())


def test_the_walk_finds_the_writers() -> None:
    found = {name for name, _, _ in TAKERS}
    assert {
        "dashcam.sdk.emit.log_event",
        "dashcam.sdk.emit.write",
        "dashcam.sdk.emit.Recorder.record",
    } <= found


@pytest.mark.parametrize(("name", "function", "parameter"), TAKERS, ids=[name for name, _, _ in TAKERS])
@pytest.mark.parametrize("field", ["session_id", "trace_id"])
@pytest.mark.parametrize("value", ["", "  ", None])
def test_no_writer_writes_a_record_without_identity(
    name: str, function: Callable[..., Any], parameter: str, field: str, value: object, data: Path
) -> None:
    given = arguments_for(function, parameter, forged(field, value))
    positional = [
        given.pop(key)
        for key, wanted in inspect.signature(function).parameters.items()
        if wanted.kind in (wanted.POSITIONAL_ONLY, wanted.POSITIONAL_OR_KEYWORD) and key in given
    ]

    def use() -> None:
        result = function(*positional, **given)
        if hasattr(result, "__enter__"):
            result.__enter__()

    # Refused: how matters elsewhere, here only that nothing was written. In a context of its own: what is made
    # current there doesn't stay so for other tests.
    with suppress(UnjoinableRecord, TypeError, AttributeError):
        contextvars.copy_context().run(use)
    for path in data.rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            record = msgspec.json.decode(line)
            assert str(record["session_id"] or "").strip(), name
            assert str(record["trace_id"] or "").strip(), name


def test_only_the_journal_appends_to_journals_and_only_the_recorder_to_the_journal() -> None:
    """The walk above would miss a writer that takes no Trace; then it would have to write by other means."""
    package = Path(dashcam.__path__[0])
    appending = re.compile(r"""O_APPEND|open\([^)]*["']a[b+]?["']""")
    appends = {p.relative_to(package).as_posix() for p in package.rglob("*.py") if appending.search(p.read_text())}
    assert appends == {"sdk/journal.py", "host/runs.py"}  # both among the writers that the walk finds
    assert "dashcam.host.runs.append" in {name for name, _, _ in TAKERS}
    uses = {p.relative_to(package).as_posix() for p in package.rglob("*.py") if "journal.write(" in p.read_text()}
    assert uses == {"sdk/emit.py"}


IDENTITY_COLUMNS = {"session_id", "trace_id", "span_id", "step", "kind", "operation"}
# The tuple, and what goes with it, by table; every table that holds records must be here.
WHOLE_TUPLE = {"session_id", "trace_id", "step", "kind"}


def tables(connection: sqlite3.Connection) -> dict[str, dict[str, tuple[str, bool]]]:
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        name: {row[1]: (row[2], bool(row[3])) for row in connection.execute(f"PRAGMA table_info({name})")}
        for name in names
        if not name.startswith("sqlite_")
    }


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    SqliteStore(tmp_path / "sessions.db").close()
    connection = sqlite3.connect(tmp_path / "sessions.db")
    yield connection
    connection.close()


def test_the_tables_that_hold_records_hold_their_identity(database: sqlite3.Connection) -> None:
    found = tables(database)
    assert found["events"].keys() >= {*WHOLE_TUPLE, "operation"}
    assert found["model_calls"].keys() >= WHOLE_TUPLE
    assert found["spans"].keys() >= {"trace_id", "span_id"}
    assert found["logs"].keys() >= {"trace_id"}


def test_a_raw_insert_without_identity_is_refused_by_every_table(database: sqlite3.Connection) -> None:
    tried = 0
    for table, columns in tables(database).items():
        required = IDENTITY_COLUMNS & {name for name, (_, not_null) in columns.items() if not_null}
        if not {"session_id", "trace_id"} & required:
            continue  # holds no records, or quarantine, which is for what has no identity
        for column in required:
            bad: list[object] = [None, -1] if column == "step" else [None, "", "  ", "\t\u3000"]
            if column == "kind":
                bad += ["robot", "system:", "system: x", "system:a\tb"]
            for value in bad:
                row = {name: plausible(name, kind) for name, (kind, _) in columns.items()} | {column: value}
                names = ", ".join(f'"{name}"' for name in row)
                sql = f"INSERT INTO {table} ({names}) VALUES ({','.join('?' * len(row))})"
                with pytest.raises(sqlite3.IntegrityError):
                    database.execute(sql, list(row.values()))
                tried += 1
        good = {name: plausible(name, kind) for name, (kind, _) in columns.items()}
        names = ", ".join(f'"{name}"' for name in good)
        database.execute(f"INSERT INTO {table} ({names}) VALUES ({','.join('?' * len(good))})", list(good.values()))
    assert tried > 50


def plausible(name: str, kind: str) -> object:
    """A value that the column takes, so that only the one under test can be what is refused."""
    if kind == "BLOB":
        return b"d" * 16
    return {"kind": "user", "digest": "d" * 64}.get(name, 1 if kind in ("INTEGER", "REAL") else "x")


def test_the_contracts_refuse_what_the_tables_refuse() -> None:
    """Everything that a Batch can hold with an identity says so in its type."""
    for field in ("events", "spans", "logs"):
        hint = typing.get_type_hints(Batch)[field]
        (record,) = typing.get_args(hint)
        for name in IDENTITY_COLUMNS & {"session_id", "trace_id"} & set(record.__struct_fields__):
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert({name: ""}, type=record)
