-- Spans and log records with their OTLP messages, and what is projected from them. Nothing wrote either table before.
-- BLANK: see 0001.

-- The bodies of spans and log records, neighbours together: one page holds two spans of 700 bytes and wastes the rest,
-- and what spans repeat from one to the next is told once. `id` and `last` are the `seq` of its first and last record.
CREATE TABLE packs (
  id   INTEGER PRIMARY KEY,
  last INTEGER NOT NULL CHECK (last >= id),
  body BLOB NOT NULL  -- as packing.py packs it
) STRICT;

-- The resource and the instrumentation scope around spans: many spans, few of these.
CREATE TABLE scopes (
  id     INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 16),
  body   BLOB NOT NULL
);

DROP TABLE spans;
CREATE TABLE spans (
  seq            INTEGER PRIMARY KEY,
  trace_id       TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  span_id        TEXT NOT NULL CHECK (span_id BETWEEN '!' AND '~' OR trim(span_id, BLANK) <> ''),
  parent_span_id TEXT,
  name           TEXT NOT NULL,
  start_ns       INTEGER NOT NULL,
  end_ns         INTEGER NOT NULL,
  status         INTEGER NOT NULL CHECK (status BETWEEN 0 AND 2),  -- unset, ok, error
  digest         BLOB NOT NULL CHECK (length(digest) = 16),
  scope_id       INTEGER NOT NULL,  -- of scopes
  refs           TEXT,              -- JSON: which contents stand for values that were too large to stay
  marks          INTEGER NOT NULL DEFAULT 0,  -- 1 redacted
  body_at        INTEGER NOT NULL CHECK (body_at >= 0),  -- in its pack, unpacked
  body_size      INTEGER NOT NULL CHECK (body_size >= 0)
) STRICT;
CREATE UNIQUE INDEX spans_identity ON spans (trace_id, span_id);
CREATE INDEX spans_refs ON spans (seq) WHERE refs IS NOT NULL;

DROP TABLE logs;
CREATE TABLE logs (
  seq      INTEGER PRIMARY KEY,
  digest   BLOB NOT NULL UNIQUE CHECK (length(digest) = 16),
  trace_id TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  span_id  TEXT,
  ts       INTEGER NOT NULL,  -- microseconds since 1970, UTC
  name     TEXT NOT NULL,
  severity TEXT NOT NULL,
  scope_id INTEGER NOT NULL,
  refs     TEXT,
  marks    INTEGER NOT NULL DEFAULT 0,
  body_at  INTEGER NOT NULL CHECK (body_at >= 0),
  body_size INTEGER NOT NULL CHECK (body_size >= 0)
) STRICT;
CREATE INDEX logs_trace ON logs (trace_id);
CREATE INDEX logs_refs ON logs (seq) WHERE refs IS NOT NULL;

-- When the events of a trace begin and end, so that traces are listed without reading events. Microseconds.
ALTER TABLE session_traces ADD COLUMN first_ts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_traces ADD COLUMN last_ts INTEGER NOT NULL DEFAULT 0;
DELETE FROM session_traces;
INSERT INTO session_traces (session_id, trace_id, kind, events, first_ts, last_ts)
SELECT session_id, trace_id, kind, count(*), min(ts), max(ts) FROM events GROUP BY 1, 2, 3;
CREATE INDEX session_traces_recent ON session_traces (first_ts);
CREATE INDEX session_traces_trace ON session_traces (trace_id);

-- Layer 3: what the spans and logs of a trace tell. Times are milliseconds.
CREATE TABLE projected_traces (
  trace_id      TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  session_id    TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  session_by    TEXT NOT NULL CHECK (session_by <> ''),
  kind          TEXT NOT NULL CHECK (kind = 'user' OR (kind GLOB 'system:?*' AND kind NOT GLOB '*[' || BLANK || ']*')),
  name          TEXT NOT NULL,
  agent         TEXT NOT NULL,
  provider      TEXT,
  model         TEXT,
  metadata_json TEXT NOT NULL,
  first_at      INTEGER NOT NULL,
  last_at       INTEGER NOT NULL,
  spans         INTEGER NOT NULL,
  errors        INTEGER NOT NULL,
  starts        BLOB,
  ends          BLOB,
  PRIMARY KEY (trace_id, session_id)
) STRICT;
CREATE INDEX projected_traces_session ON projected_traces (session_id, first_at, trace_id);
CREATE INDEX projected_traces_recent ON projected_traces (first_at);
CREATE INDEX projected_traces_starts ON projected_traces (starts) WHERE starts IS NOT NULL;
CREATE INDEX projected_traces_ends ON projected_traces (ends) WHERE ends IS NOT NULL;

-- One answer may be told by two traces: by who sent the request, and by the client inside.
CREATE INDEX model_calls_response ON model_calls (response_id) WHERE response_id IS NOT NULL;

CREATE TABLE projected_turns (
  session_id TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  digest     BLOB NOT NULL,
  trace_id   TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  times      INTEGER NOT NULL,
  history    INTEGER NOT NULL,
  PRIMARY KEY (session_id, digest, trace_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX projected_turns_trace ON projected_turns (trace_id);

-- Which traces tell a message. Of several the least writes it, so that the order of arrival decides nothing.
CREATE TABLE projected_messages (
  message_id TEXT NOT NULL,
  trace_id   TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  PRIMARY KEY (message_id, trace_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX projected_messages_trace ON projected_messages (trace_id);

-- Sessions whose row in chat_sessions is made of projected traces. A session that is there and not here is recorded.
CREATE TABLE projected_sessions (
  session_id TEXT PRIMARY KEY NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> '')
) STRICT, WITHOUT ROWID;

-- The columns of the key come first: SQLite 3.40 checks a table WITHOUT ROWID wrongly where they don't.
CREATE TABLE scores (
  score_id   TEXT NOT NULL CHECK (score_id <> ''),
  told_by    TEXT NOT NULL,  -- the trace whose log tells it
  session_id TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  trace_id   TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  span_id    TEXT,
  name       TEXT NOT NULL,
  value      REAL,
  label      TEXT,
  comment    TEXT,
  source     TEXT NOT NULL,
  ts         INTEGER NOT NULL,
  PRIMARY KEY (score_id, told_by)
) STRICT, WITHOUT ROWID;
CREATE INDEX scores_session ON scores (session_id);
CREATE INDEX scores_trace ON scores (trace_id);
CREATE INDEX scores_told_by ON scores (told_by);

-- Traces to be projected again though their own log has not grown. `marked` tells one mark from the next.
CREATE TABLE dirty_traces (
  trace_id TEXT PRIMARY KEY NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  marked   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
