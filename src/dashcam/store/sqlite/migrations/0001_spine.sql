-- Layer 1, the log: what arrived, as it arrived. `seq` is one count over events, spans, logs and orphans.
-- BLANK stands for every character that Python's str.isspace() calls white space (connection.py); the BETWEEN
-- before it is the quick answer for nearly all ids, which begin with a letter or a digit.
-- STRICT where a column may hold only what it says.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- What was collected, and up to which byte. Rows and offset commit together.
CREATE TABLE sources (
  id         INTEGER PRIMARY KEY,
  segment    TEXT NOT NULL UNIQUE CHECK (segment <> ''),
  path       TEXT,              -- where a foreign file was last seen
  inode      TEXT,              -- device:inode there
  check_json TEXT,              -- digests of its beginning and of what precedes `offset`
  "offset"   INTEGER NOT NULL DEFAULT 0 CHECK ("offset" >= 0),
  updated_at INTEGER NOT NULL
);

CREATE TABLE events (
  seq        INTEGER PRIMARY KEY,
  source_id  INTEGER NOT NULL REFERENCES sources(id),
  "offset"   INTEGER NOT NULL CHECK ("offset" >= 0),
  session_id TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  trace_id   TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  step       INTEGER NOT NULL CHECK (step >= 0),
  kind       TEXT NOT NULL CHECK (kind = 'user' OR (kind GLOB 'system:?*' AND kind NOT GLOB '*[' || BLANK || ']*')),
  operation  TEXT NOT NULL CHECK (operation BETWEEN '!' AND '~' OR trim(operation, BLANK) <> ''),
  ts         INTEGER NOT NULL,  -- microseconds since 1970, UTC
  fields     TEXT NOT NULL,
  marks      INTEGER NOT NULL DEFAULT 0  -- 1 malformed, 2 redacted, 4 unencodable
) STRICT;
CREATE UNIQUE INDEX events_identity ON events (source_id, "offset");
CREATE INDEX events_trace ON events (trace_id, step);
CREATE INDEX events_session ON events (session_id);

CREATE TABLE spans (
  seq            INTEGER PRIMARY KEY,
  trace_id       TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  span_id        TEXT NOT NULL CHECK (span_id BETWEEN '!' AND '~' OR trim(span_id, BLANK) <> ''),
  parent_span_id TEXT,
  name           TEXT NOT NULL,
  start_ns       INTEGER NOT NULL,
  end_ns         INTEGER NOT NULL,
  status         TEXT NOT NULL,
  digest         TEXT NOT NULL,
  body           BLOB NOT NULL  -- text, or zlib where that is shorter
);
CREATE UNIQUE INDEX spans_identity ON spans (trace_id, span_id);

CREATE TABLE logs (
  seq      INTEGER PRIMARY KEY,
  digest   TEXT NOT NULL UNIQUE CHECK (digest <> ''),
  trace_id TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  span_id  TEXT,
  ts       INTEGER NOT NULL,
  severity TEXT NOT NULL,
  resource BLOB NOT NULL,
  body     BLOB NOT NULL
);
CREATE INDEX logs_trace ON logs (trace_id);

-- Quarantine: what came without identity, whole, with the reason.
CREATE TABLE orphans (
  seq       INTEGER PRIMARY KEY,
  source_id INTEGER NOT NULL REFERENCES sources(id),
  "offset"  INTEGER NOT NULL,
  reason    TEXT NOT NULL CHECK (reason <> ''),
  operation TEXT NOT NULL DEFAULT '',
  ts        INTEGER NOT NULL,
  body      BLOB NOT NULL,
  UNIQUE (source_id, "offset")
);

-- An opaque trace id leaves as OTLP under a derived one; both are kept.
CREATE TABLE trace_aliases (
  otel_trace_id TEXT PRIMARY KEY CHECK (otel_trace_id <> ''),
  trace_id      TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> '')
) WITHOUT ROWID;

-- Layer 2, contents: immutable, by the SHA-256 of their bytes.
CREATE TABLE contents (
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  body   BLOB NOT NULL,        -- text as text, other bytes and zlib as blob
  packed INTEGER NOT NULL DEFAULT 0,  -- 1: body is zlib, and its CRC-32 after it
  size   INTEGER NOT NULL
);

CREATE TABLE system_prompts (
  digest     TEXT PRIMARY KEY CHECK (length(digest) = 64),
  body       TEXT NOT NULL,
  created_at INTEGER NOT NULL
);

CREATE TABLE tool_catalogs (
  digest     TEXT PRIMARY KEY CHECK (length(digest) = 64),
  body       TEXT NOT NULL,
  created_at INTEGER NOT NULL
);

-- A context is a list of content digests, kept as a difference to its parent: the first `head` and
-- the last `tail` digests of the parent's list, with `middle` (32 bytes each) between, but for its
-- last `appended`, which come after the tail: what is dropped or pruned goes with what is new.
CREATE TABLE contexts (
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  length INTEGER NOT NULL CHECK (length >= 0),
  parent BLOB REFERENCES contexts(digest),  -- NULL: `middle` is the whole list
  head   INTEGER NOT NULL DEFAULT 0,
  tail   INTEGER NOT NULL DEFAULT 0,
  appended INTEGER NOT NULL DEFAULT 0,
  middle BLOB NOT NULL,
  since  INTEGER NOT NULL DEFAULT 0         -- digests held by the links since the last whole list
);
CREATE INDEX contexts_parent ON contexts (parent) WHERE parent IS NOT NULL;

-- Layer 3, projections: a pure function of the log; `dashcam rebuild` drops and redoes them.
CREATE TABLE model_calls (
  session_id           TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  trace_id             TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  step                 INTEGER NOT NULL CHECK (step >= 0),
  kind                 TEXT NOT NULL CHECK (kind = 'user' OR (kind GLOB 'system:?*' AND kind NOT GLOB '*[' || BLANK || ']*')),
  ts                   INTEGER NOT NULL,
  span_id              TEXT,
  provider             TEXT,
  model                TEXT NOT NULL CHECK (model <> ''),
  settings             TEXT NOT NULL,
  system_prompt_digest TEXT,
  tool_catalog_digest  TEXT,
  context_digest       TEXT,
  input_tokens         INTEGER,
  output_tokens        INTEGER,
  reasoning_tokens     INTEGER,
  cache_read           INTEGER,
  cache_write          INTEGER,
  cost_usd             REAL,
  first_token_ms       REAL,
  duration_ms          REAL,
  stop_reason          TEXT,
  error                TEXT,
  redacted             INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX model_calls_trace ON model_calls (trace_id, step);
CREATE INDEX model_calls_session ON model_calls (session_id);

CREATE TABLE rollups (
  day       TEXT NOT NULL,     -- UTC
  source_id INTEGER NOT NULL,
  kind      TEXT NOT NULL,
  operation TEXT NOT NULL,
  events    INTEGER NOT NULL,
  malformed INTEGER NOT NULL,
  redacted  INTEGER NOT NULL,
  orphans   INTEGER NOT NULL,
  PRIMARY KEY (day, source_id, kind, operation)
) WITHOUT ROWID;
