"""Garbage collection: what no model call, no message and no span leads to any more goes.

Runs inside the transaction that the caller holds. Which digests stay is kept in temporary tables, so
that a large store doesn't have to fit into memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import msgspec

from dashcam.contracts.content import Link, link
from dashcam.store.sqlite.contexts import Row, Walk, columns_of, hook, shortest, split
from dashcam.store.sqlite.spans import remove_packs

ROWS = 2000  # a statement

# Who names what, as SELECTs of one column; what is named in capitals is named. A later table that
# names contents adds its own here.
CONTEXT_REFERRERS = (
    "SELECT lower(context_digest) FROM model_calls WHERE context_digest IS NOT NULL",
    "SELECT lower(context) FROM temp.named_by_events WHERE context IS NOT NULL",
    "SELECT lower(context) FROM temp.named_by_refs WHERE context IS NOT NULL",
)
# Beside contexts, whose rows pack many digests into one value.
CONTENT_REFERRERS = (
    "SELECT digest FROM contents WHERE lower(hex(digest)) IN ("
    "SELECT lower(output_digest) FROM model_calls WHERE output_digest IS NOT NULL "
    "UNION SELECT lower(envelope_digest) FROM model_calls WHERE envelope_digest IS NOT NULL "
    "UNION SELECT lower(output) FROM temp.named_by_events WHERE output IS NOT NULL "
    "UNION SELECT lower(envelope) FROM temp.named_by_events WHERE envelope IS NOT NULL "
    "UNION SELECT lower(content) FROM temp.named_by_refs WHERE content IS NOT NULL)",
)
# A message's metadata may have been edited by hand; a NULL is ignored where it is kept.
_NAMED_BY_MESSAGES = (
    "SELECT CASE WHEN json_valid(metadata_json) THEN lower(metadata_json ->> '$.{}') END FROM chat_messages"
)
PROMPT_REFERRERS = (
    "SELECT lower(system_prompt_digest) FROM model_calls WHERE system_prompt_digest IS NOT NULL",
    "SELECT lower(prompt) FROM temp.named_by_events WHERE prompt IS NOT NULL",
    _NAMED_BY_MESSAGES.format("system_prompt_digest"),
)
CATALOG_REFERRERS = (
    "SELECT lower(tool_catalog_digest) FROM model_calls WHERE tool_catalog_digest IS NOT NULL",
    "SELECT lower(catalog) FROM temp.named_by_events WHERE catalog IS NOT NULL",
    _NAMED_BY_MESSAGES.format("tool_catalog_digest"),
)
# A model_call event can be too malformed to become a row of model_calls, and names what it names all the same.
# One pass for all five; instr() spares the parsing where no key can match (an escaped one holds a \u).
_NAMED_BY_EVENTS = """
CREATE TEMP TABLE named_by_events AS
SELECT DISTINCT json_extract(fields, '$.context_digest') AS context,
  json_extract(fields, '$.system_prompt_digest') AS prompt,
  json_extract(fields, '$.tool_catalog_digest') AS catalog,
  json_extract(fields, '$.output_digest') AS output,
  json_extract(fields, '$.envelope_digest') AS envelope
FROM events WHERE operation IN ('model_call', 'model_request') AND (instr(fields, '_digest') OR instr(fields, '\\u')) AND json_valid(fields)
"""
# What stands in the place of the large values of spans and log records.
_NAMED_BY_REFS = "CREATE TEMP TABLE named_by_refs AS " + " UNION ".join(
    f"SELECT r.value ->> '$.content' AS content, r.value ->> '$.context' AS context FROM {table} AS t, "
    "json_each(CASE WHEN json_valid(t.refs) THEN t.refs ELSE '[]' END) AS r WHERE t.refs IS NOT NULL"
    for table in ("spans", "logs")
)
_SCOPES = "DELETE FROM scopes WHERE id NOT IN (SELECT scope_id FROM spans UNION SELECT scope_id FROM logs)"

_LINK = "parent = ?, head = ?, tail = ?, appended = ?, middle = ?, since = ?"
_LIVE = "SELECT digest FROM contexts WHERE lower(hex(digest)) IN (SELECT digest FROM temp.kept_hex)"
_CUT_OFF = (
    "SELECT c.rowid FROM contexts AS c WHERE c.parent IS NOT NULL"
    " AND c.digest IN (SELECT digest FROM temp.kept_contexts)"
    " AND c.parent NOT IN (SELECT digest FROM temp.kept_contexts)"
)
# UNION, not UNION ALL: a circle of parents in a damaged file ends.
_THEIR_ROOTS = f"""
WITH RECURSIVE above (id) AS (
  {_CUT_OFF}
  UNION
  SELECT p.rowid FROM above JOIN contexts AS c ON c.rowid = above.id JOIN contexts AS p ON p.digest = c.parent
)
SELECT id FROM above JOIN contexts ON contexts.rowid = id WHERE parent IS NULL ORDER BY id
"""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows went."""

    contexts: int = 0
    contents: int = 0
    prompts: int = 0
    catalogs: int = 0


def sweep(connection: sqlite3.Connection, content_referrers: Sequence[str] = CONTENT_REFERRERS) -> Swept:
    """Remove every context, content, prompt, catalog and scope that nothing names; return how many.

    Only for a store whose projections are up to date: before a trace is projected, nothing names
    what its calls were sent.
    """
    # A context may go before the dead ones that hang on it; all is well again by the commit.
    connection.execute("PRAGMA defer_foreign_keys = ON")
    for name, query in (("named_by_events", _NAMED_BY_EVENTS), ("named_by_refs", _NAMED_BY_REFS)):
        connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
        connection.execute(query)
    _keep(connection, "kept_hex", CONTEXT_REFERRERS)
    _keep(connection, "kept_contexts", (_LIVE,))
    _relink(connection)
    contexts = _remove(connection, "contexts", "kept_contexts")
    _keep(connection, "kept_contents", content_referrers)
    _keep_named_by_contexts(connection)
    contents = _remove(connection, "contents", "kept_contents")
    _keep(connection, "kept_prompts", PROMPT_REFERRERS)
    prompts = _remove(connection, "system_prompts", "kept_prompts")
    _keep(connection, "kept_catalogs", CATALOG_REFERRERS)
    catalogs = _remove(connection, "tool_catalogs", "kept_catalogs")
    connection.execute(_SCOPES)
    remove_packs(connection, 0, 2**63 - 1)
    for name in ("kept_hex", "named_by_events", "named_by_refs"):
        connection.execute(f"DROP TABLE temp.{name}")
    return Swept(contexts=contexts, contents=contents, prompts=prompts, catalogs=catalogs)


def _keep(connection: sqlite3.Connection, name: str, selects: Sequence[str]) -> None:
    connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
    connection.execute(f"CREATE TEMP TABLE {name} (digest PRIMARY KEY) WITHOUT ROWID")
    for select in selects:
        connection.execute(f"INSERT OR IGNORE INTO temp.{name} {select}")


def _keep_named_by_contexts(connection: sqlite3.Connection) -> None:
    """A row's own middle is enough: the rest of its list is its parent's, which is there as well."""
    middles = connection.execute("SELECT middle FROM contexts")
    connection.executemany(
        "INSERT OR IGNORE INTO temp.kept_contents (digest) VALUES (?)",
        ((digest,) for (middle,) in middles for digest in split(middle)),
    )


def _remove(connection: sqlite3.Connection, table: str, kept: str) -> int:
    """Delete the rows that aren't kept, a stretch at a time, and then the list of those that are."""
    removed = 0
    delete = (
        f"DELETE FROM {table} WHERE rowid BETWEEN ? AND ? AND NOT EXISTS"
        f" (SELECT 1 FROM temp.{kept} WHERE {kept}.digest = {table}.digest)"
    )
    for stretch in _ranges(connection, table):
        removed += connection.execute(delete, stretch).rowcount
    connection.execute(f"DROP TABLE temp.{kept}")
    return removed


def _ranges(connection: sqlite3.Connection, table: str) -> Iterator[tuple[int, int]]:
    """Stretches of rowids that hold at most ROWS rows each."""
    some = f"SELECT rowid FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {ROWS}"
    query = f"SELECT min(rowid), max(rowid) FROM ({some})"
    last = -(2**63)
    while True:
        first, last = connection.execute(query, (last,)).fetchone()
        if first is None:
            return
        yield first, last


def _relink(connection: sqlite3.Connection) -> None:
    """Hang every live context whose parent goes on its nearest live ancestor, or write it whole."""
    roots = connection.execute(_THEIR_ROOTS).fetchall()
    walk = Walk(connection)
    nearest: list[int] = []  # for each depth of the path, where on it the nearest live context is, or -1
    since: list[int] = []  # and the new `since` there
    for row in walk.below(root for (root,) in roots):
        depth = len(walk.path) - 1
        del nearest[depth:], since[depth:]
        anchor = nearest[-1] if nearest else -1
        alive = connection.execute("SELECT 1 FROM temp.kept_contexts WHERE digest = ?", (row.digest,)).fetchone()
        nearest.append(depth if alive else anchor)
        since.append(_rehang(connection, walk, row, anchor, since) if alive else 0)


def _rehang(connection: sqlite3.Connection, walk: Walk, row: Row, anchor: int, since: list[int]) -> int:
    """Write this live row anew where its parent, or what its parent's links hold, has changed."""
    if row.parent is None:
        return 0
    above = None
    if anchor >= 0:
        if anchor == len(walk.path) - 2:  # its own parent stays: so does the link
            change = Link(row.head, row.tail, tuple(split(row.middle)), row.appended)
        else:
            change = link(walk.list_at(anchor), walk.messages)
        above = hook(walk.path[anchor][0].digest, since[anchor], change)
    columns = columns_of(walk.messages, shortest(walk.messages, [above]))
    if columns[0] != row.parent or columns[-1] != row.since:
        connection.execute(f"UPDATE contexts SET {_LINK} WHERE rowid = ?", (*columns, row.id))
    return columns[-1]
