-- Chat sessions belong to layer 1: rows as they were told, a later one in the place of an earlier one.
-- BLANK: see 0001.

CREATE TABLE chat_sessions (
  id                TEXT PRIMARY KEY NOT NULL CHECK (id BETWEEN '!' AND '~' OR trim(id, BLANK) <> ''),
  agent             TEXT NOT NULL,
  workspace_root    TEXT,
  model_json        TEXT NOT NULL DEFAULT '{}',
  parent_id         TEXT,
  parent_message_id TEXT,
  permissions_json  TEXT NOT NULL DEFAULT '[]',
  metadata_json     TEXT NOT NULL DEFAULT '{}',
  prompt_tokens     INTEGER NOT NULL DEFAULT 0,  -- these five: sums over the session's assistant messages
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens  INTEGER NOT NULL DEFAULT 0,
  cache_read        INTEGER NOT NULL DEFAULT 0,
  cache_write       INTEGER NOT NULL DEFAULT 0,
  total_tokens      INTEGER NOT NULL DEFAULT 0,
  cost_usd          REAL,                        -- NULL: nobody told any
  created_at        INTEGER NOT NULL,            -- milliseconds since 1970, UTC
  updated_at        INTEGER NOT NULL,
  archived_at       INTEGER
);
CREATE INDEX chat_sessions_agent ON chat_sessions (agent, updated_at);
CREATE INDEX chat_sessions_workspace ON chat_sessions (workspace_root, updated_at);
CREATE INDEX chat_sessions_parent ON chat_sessions (parent_id);
CREATE INDEX chat_sessions_archived ON chat_sessions (archived_at);

CREATE TABLE chat_messages (
  id            TEXT PRIMARY KEY NOT NULL CHECK (id BETWEEN '!' AND '~' OR trim(id, BLANK) <> ''),
  session_id    TEXT NOT NULL REFERENCES chat_sessions(id) ON DELETE CASCADE
                CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  role          TEXT NOT NULL,
  metadata_json TEXT NOT NULL DEFAULT '{}',
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
);
-- With the id, which orders what else ties, and unique: so SQLite knows that it need not sort a session (nor its parts).
CREATE UNIQUE INDEX chat_messages_session ON chat_messages (session_id, created_at, id);

CREATE TABLE chat_parts (
  id           TEXT PRIMARY KEY NOT NULL CHECK (id BETWEEN '!' AND '~' OR trim(id, BLANK) <> ''),
  message_id   TEXT NOT NULL REFERENCES chat_messages(id) ON DELETE CASCADE
               CHECK (message_id BETWEEN '!' AND '~' OR trim(message_id, BLANK) <> ''),
  session_id   TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  "index"      INTEGER NOT NULL CHECK ("index" >= 0),
  type         TEXT NOT NULL CHECK (type <> ''),
  data_json    TEXT NOT NULL,
  tool_call_id TEXT,
  tool_state   TEXT,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
);
CREATE UNIQUE INDEX chat_parts_message ON chat_parts (message_id, "index", id);
CREATE INDEX chat_parts_session ON chat_parts (session_id);
CREATE INDEX chat_parts_tool_call ON chat_parts (tool_call_id, session_id) WHERE tool_call_id IS NOT NULL;
-- A failed call is counted without reading its part, which may be long.
CREATE INDEX chat_parts_failed ON chat_parts (session_id) WHERE tool_state = 'output-error';

-- A session's parts in the order in which they were said.
-- CROSS JOIN keeps SQLite from beginning with the parts, which it then would have to sort.
CREATE VIEW chat_parts_ordered AS
SELECT p.id, p.message_id, m.session_id, p."index", p.type, p.data_json, p.tool_call_id, p.tool_state,
  p.created_at, p.updated_at
FROM chat_messages AS m CROSS JOIN chat_parts AS p ON p.message_id = m.id
ORDER BY m.session_id, m.created_at, m.id, p."index", p.id;

-- What is looked for. The words stand in chat_parts alone: the index reads them through a view, by a number
-- of its own, since VACUUM may give the rows of chat_parts new ones.
CREATE TABLE chat_texts (
  id      INTEGER PRIMARY KEY,
  part_id TEXT NOT NULL UNIQUE REFERENCES chat_parts(id) ON DELETE CASCADE
);
-- What a tool took and gave is mostly an object: there the escapes of JSON would be letters of the words beside them.
-- (json_tree would read the strings themselves, but FTS5 can't rebuild from a view with a virtual table in it.)
CREATE VIEW chat_words (id, part_id, words) AS
SELECT t.id, t.part_id, CASE
  WHEN p.type = 'step-start' OR NOT json_valid(p.data_json) THEN ''
  WHEN p.type IN ('text', 'reasoning') THEN coalesce(p.data_json ->> '$.text', '')
  WHEN p.type = 'dynamic-tool' OR p.type GLOB 'tool-*' THEN
    coalesce(p.data_json ->> '$.toolName', iif(p.type GLOB 'tool-*', substr(p.type, 6), '')) || ' ' ||
    coalesce(iif(json_type(p.data_json, '$.input') = 'text', p.data_json ->> '$.input',
      replace(replace(replace(replace(p.data_json ->> '$.input', '\\', ' '), '\n', ' '), '\t', ' '), '\r', ' ')),
      p.data_json ->> '$.rawInput', '') || ' ' ||
    coalesce(iif(json_type(p.data_json, '$.output') = 'text', p.data_json ->> '$.output',
      replace(replace(replace(replace(p.data_json ->> '$.output', '\\', ' '), '\n', ' '), '\t', ' '), '\r', ' ')), '') || ' ' ||
    coalesce(p.data_json ->> '$.errorText', '')
  WHEN p.type = 'data-compaction' THEN coalesce(p.data_json ->> '$.data.summary', '')
  WHEN p.type GLOB 'data-*' THEN
    coalesce(iif(json_type(p.data_json, '$.data') = 'text', p.data_json ->> '$.data',
      replace(replace(replace(replace(p.data_json ->> '$.data', '\\', ' '), '\n', ' '), '\t', ' '), '\r', ' ')), '')
  WHEN p.type IN ('source-url', 'source-document') THEN
    coalesce(p.data_json ->> '$.title', '') || ' ' || coalesce(p.data_json ->> '$.filename', '') || ' ' ||
    coalesce(p.data_json ->> '$.url', '')
  ELSE coalesce(p.data_json ->> '$.title', '') || ' ' || coalesce(p.data_json ->> '$.filename', '')
  END
FROM chat_texts AS t JOIN chat_parts AS p ON p.id = t.part_id;
-- Without the places of words in a text, which would take three times the room and serve only phrases.
CREATE VIRTUAL TABLE chat_search USING fts5 (words, content='chat_words', content_rowid='id', columnsize=0, detail=none);

-- Beside every session what a list of sessions shows and asks for, kept with the rows that it is counted from.
CREATE TABLE session_traces (
  session_id TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  trace_id   TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  kind       TEXT NOT NULL CHECK (kind = 'user' OR (kind GLOB 'system:?*' AND kind NOT GLOB '*[' || BLANK || ']*')),
  events     INTEGER NOT NULL,
  PRIMARY KEY (session_id, trace_id, kind)
) WITHOUT ROWID;
CREATE TABLE session_facts (
  session_id TEXT PRIMARY KEY NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  kind       TEXT NOT NULL CHECK (kind = 'user' OR (kind GLOB 'system:?*' AND kind NOT GLOB '*[' || BLANK || ']*')),
  first_at   INTEGER NOT NULL,              -- milliseconds, as all times of chat rows
  last_at    INTEGER NOT NULL,
  traces     INTEGER NOT NULL DEFAULT 0,
  events     INTEGER NOT NULL DEFAULT 0,
  provider   TEXT,
  model      TEXT,
  title      TEXT NOT NULL DEFAULT '',
  turns      INTEGER NOT NULL DEFAULT 0,
  messages   INTEGER NOT NULL DEFAULT 0,
  errors     INTEGER NOT NULL DEFAULT 0,
  state      TEXT NOT NULL DEFAULT 'ended', -- of the last turn: asked, open, ended, failed
  told_at    INTEGER NOT NULL DEFAULT 0     -- updated_at of the session's own row, without that of its messages
);
CREATE INDEX session_facts_recent ON session_facts (last_at, session_id);
CREATE INDEX session_facts_kind ON session_facts (kind, last_at, session_id);

-- With the time, so that a session's first and last moment are found without reading what lies between.
DROP INDEX events_session;
CREATE INDEX events_session ON events (session_id, ts);
INSERT INTO session_traces (session_id, trace_id, kind, events)
SELECT session_id, trace_id, kind, count(*) FROM events GROUP BY 1, 2, 3;
INSERT INTO session_facts (session_id, kind, first_at, last_at, traces, events)
SELECT session_id, max(kind),
  (SELECT min(ts) FROM events WHERE session_id = t.session_id) / 1000,
  (SELECT max(ts) FROM events WHERE session_id = t.session_id) / 1000,
  count(DISTINCT trace_id), sum(events)
FROM session_traces AS t GROUP BY session_id;

-- A projection with more columns: dropped, and redone from the log.
DROP TABLE model_calls;
CREATE TABLE model_calls (
  session_id           TEXT NOT NULL CHECK (session_id BETWEEN '!' AND '~' OR trim(session_id, BLANK) <> ''),
  trace_id             TEXT NOT NULL CHECK (trace_id BETWEEN '!' AND '~' OR trim(trace_id, BLANK) <> ''),
  step                 INTEGER NOT NULL CHECK (step >= 0),
  kind                 TEXT NOT NULL CHECK (kind = 'user' OR (kind GLOB 'system:?*' AND kind NOT GLOB '*[' || BLANK || ']*')),
  ts                   INTEGER NOT NULL,
  span_id              TEXT,
  message_id           TEXT,
  provider             TEXT,
  model                TEXT NOT NULL CHECK (model <> ''),
  settings             TEXT NOT NULL,
  wire                 TEXT,
  system_prompt_digest TEXT,
  tool_catalog_digest  TEXT,
  context_digest       TEXT,
  envelope_digest      TEXT,
  output_digest        TEXT,
  response_id          TEXT,
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
  redacted             INTEGER NOT NULL DEFAULT 0,
  redacted_paths       TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX model_calls_trace ON model_calls (trace_id, step);
CREATE INDEX model_calls_session ON model_calls (session_id, ts);
CREATE INDEX model_calls_prompt ON model_calls (system_prompt_digest) WHERE system_prompt_digest IS NOT NULL;
CREATE INDEX model_calls_catalog ON model_calls (tool_catalog_digest) WHERE tool_catalog_digest IS NOT NULL;
CREATE INDEX model_calls_message ON model_calls (message_id) WHERE message_id IS NOT NULL;
REPLACE INTO meta (name, value) VALUES ('projected', '0');
