-- The SQL view of a project and its recovery point. Times are microseconds since the epoch, null where a thing has not
-- happened. The columns of SPEC-071 §8 bear its names.

CREATE TABLE signal_queue (
    seq              INTEGER PRIMARY KEY,   -- sequence number of its acceptance
    signal_id        TEXT NOT NULL,
    message_id       TEXT NOT NULL,
    sender           TEXT NOT NULL,
    recipient        TEXT NOT NULL,
    message_type     TEXT NOT NULL,
    priority         INTEGER NOT NULL,      -- as admitted
    level            INTEGER NOT NULL,      -- as it counts now
    requested        INTEGER NOT NULL,
    importance       INTEGER NOT NULL,
    decay_rate       REAL NOT NULL,
    delivery_class   TEXT NOT NULL DEFAULT 'async',
    ack_required     INTEGER NOT NULL,
    state            TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    enqueued_at      INTEGER NOT NULL,
    expires_at       INTEGER,
    sent_at          INTEGER NOT NULL,
    payload          TEXT,                  -- null for a copy of a broadcast, which has it
    metadata         TEXT,
    correlation_id   TEXT,
    broadcast_id     TEXT,
    broadcast_seq    INTEGER,
    recipient_state  TEXT NOT NULL,
    publish_path     TEXT,
    resolved_session TEXT,
    pushed           INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    offers           INTEGER NOT NULL,
    boosts           INTEGER NOT NULL,
    overdue          INTEGER NOT NULL,
    backing_off      INTEGER NOT NULL,
    ready_at         INTEGER,
    offered_at       INTEGER,
    delivered_at     INTEGER,
    acked_at         INTEGER,
    processed_at     INTEGER,
    expired_at       INTEGER,               -- terminal: sweeper-marked
    recalled_at      INTEGER,               -- terminal: sender-recalled
    dead_at          INTEGER,
    ended_at         INTEGER,               -- when nothing more was awaited of it
    session          TEXT,                  -- of the offer that has no receipt yet
    digest           BLOB,                  -- set once the live state has dropped its content
    failures         INTEGER,
    first_failed_at  INTEGER,
    last_failed_at   INTEGER,
    failure_reason   TEXT,
    failure_code     TEXT,
    offered_seq      INTEGER,               -- event of its last offer
    dead_seq         INTEGER,               -- event of its last death
    remembered       INTEGER NOT NULL,      -- whether the live state holds it
    life             TEXT NOT NULL          -- what happened to it, one JSON object per line
);
CREATE INDEX ix_signal_queue_expires_at ON signal_queue (expires_at)
    WHERE expires_at IS NOT NULL AND delivered_at IS NULL AND expired_at IS NULL AND recalled_at IS NULL;
CREATE INDEX ix_signal_queue_correlation_id ON signal_queue (correlation_id, seq) WHERE correlation_id IS NOT NULL;
CREATE INDEX ix_signal_queue_message_id ON signal_queue (message_id);
CREATE INDEX ix_signal_queue_recipient ON signal_queue (recipient, seq);
CREATE INDEX ix_signal_queue_broadcast ON signal_queue (broadcast_seq) WHERE broadcast_seq IS NOT NULL;
CREATE INDEX ix_signal_queue_dead ON signal_queue (dead_seq) WHERE state = 'dead';
CREATE INDEX ix_signal_queue_remembered ON signal_queue (seq) WHERE remembered IS TRUE;
CREATE INDEX ix_signal_queue_ended_at ON signal_queue (ended_at) WHERE remembered = 0;

CREATE TABLE agents (
    agent          TEXT PRIMARY KEY,
    registered_seq INTEGER NOT NULL,
    agent_type     TEXT NOT NULL,
    role           TEXT NOT NULL,
    version        TEXT NOT NULL,
    supported      TEXT NOT NULL,           -- JSON array
    capabilities   TEXT NOT NULL,           -- JSON array
    registered_at  INTEGER NOT NULL,
    retired_at     INTEGER,
    tokens         REAL NOT NULL,
    tokens_at      INTEGER,
    critical_quota REAL NOT NULL,
    blocking_quota REAL NOT NULL,
    quotas_at      INTEGER,
    usage          BLOB NOT NULL,
    gaming         INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE sessions (
    session       TEXT PRIMARY KEY,
    opened_seq    INTEGER NOT NULL,
    agent         TEXT NOT NULL,
    kind          TEXT NOT NULL,
    opened_at     INTEGER NOT NULL,
    heartbeat_at  INTEGER NOT NULL,
    closed_at     INTEGER,
    flight_window INTEGER NOT NULL,
    stale         INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ix_sessions_closed_at ON sessions (closed_at);

CREATE TABLE broadcasts (
    seq           INTEGER PRIMARY KEY,
    broadcast     TEXT NOT NULL,
    sender        TEXT NOT NULL,
    message_type  TEXT NOT NULL,
    receiver_type TEXT NOT NULL,
    failed        TEXT NOT NULL,            -- JSON array of agent=code
    accepted      INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    payload       TEXT NOT NULL,
    metadata      TEXT NOT NULL
);

CREATE TABLE threads (
    correlation_id TEXT PRIMARY KEY,
    message_id     TEXT NOT NULL,           -- the opening message
    message_type   TEXT NOT NULL,
    sender         TEXT NOT NULL,
    opened_at      INTEGER NOT NULL,
    last_at        INTEGER NOT NULL,
    touched_seq    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ix_threads_touched_seq ON threads (touched_seq);

CREATE TABLE policies (
    version    INTEGER PRIMARY KEY,
    seq        INTEGER NOT NULL,
    adopted_at INTEGER NOT NULL,
    adopted_by TEXT NOT NULL,
    reason     TEXT NOT NULL,
    document   TEXT NOT NULL
);

CREATE TABLE segments (
    first_seq INTEGER PRIMARY KEY,
    last_seq  INTEGER NOT NULL,
    path      TEXT NOT NULL,
    size      INTEGER NOT NULL,
    cut_at    INTEGER NOT NULL
);

-- Ended messages in the order in which they are forgotten: chunks of a line, numbered from the project's beginning.
CREATE TABLE lines (
    name    TEXT NOT NULL,
    first   INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (name, first)
) WITHOUT ROWID;

-- The one row that says what the tables are true of.
CREATE TABLE standing (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    seq         INTEGER NOT NULL,
    document    BLOB NOT NULL,
    indexed_seq INTEGER NOT NULL
);
INSERT INTO standing VALUES (1, 0, x'', 0);

CREATE VIEW dead_letters AS
SELECT seq, signal_id, sender, recipient, message_type, failure_reason, failure_code, failures, first_failed_at,
       last_failed_at, attempts, dead_at, payload
FROM signal_queue WHERE state = 'dead' AND remembered IS TRUE;
