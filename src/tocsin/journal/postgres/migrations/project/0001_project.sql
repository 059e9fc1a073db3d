-- One project: its journal, its tables and the search index. The schema of a project has nothing of another one; the column
-- `project` has the same value in every row.

-- One row per commit: a batch of events, its range of sequence numbers, who wrote it, and a checksum over all of that.
CREATE TABLE journal (
    project   text NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    at        bigint NOT NULL,
    epoch     bigint NOT NULL,
    checksum  bigint NOT NULL,
    events    bytea NOT NULL,
    chain     bigint,                    -- over its checksum and the chain value of the group before it; null in groups from before
    PRIMARY KEY (project, first_seq)
);
-- Batches are packed already, and trying to compress them costs more than it saves.
ALTER TABLE journal ALTER COLUMN events SET STORAGE EXTERNAL;

-- The SQL view of the project and its recovery point. The columns of SPEC-071 §8 bear its names and types; a time is null
-- where a thing has not happened. A checksum is null in rows from before there were checksums; a column that later writes
-- leave out has one of its own.

CREATE TABLE signal_queue (
    project          text NOT NULL,
    seq              bigint NOT NULL,  -- sequence number of its acceptance
    signal_id        text NOT NULL,
    message_id       text NOT NULL,
    sender           text NOT NULL,
    recipient        text NOT NULL,
    message_type     text NOT NULL,
    priority         bigint NOT NULL,  -- as admitted
    level            bigint NOT NULL,  -- as it counts now
    requested        bigint NOT NULL,
    importance       bigint NOT NULL,
    decay_rate       double precision NOT NULL,
    delivery_class   varchar(8) NOT NULL DEFAULT 'async',
    ack_required     boolean NOT NULL,
    state            text NOT NULL,
    created_at       timestamptz NOT NULL,
    enqueued_at      timestamptz NOT NULL,
    expires_at       timestamptz,
    sent_at          timestamptz NOT NULL,
    payload          text,  -- null for a copy of a broadcast, which has it
    metadata         text,
    correlation_id   text,
    broadcast_id     text,
    broadcast_seq    bigint,
    recipient_state  text NOT NULL,
    publish_path     varchar(24),
    resolved_session text,
    pushed           boolean NOT NULL,
    attempts         bigint NOT NULL,
    offers           bigint NOT NULL,
    boosts           bigint NOT NULL,
    overdue          boolean NOT NULL,
    backing_off      boolean NOT NULL,
    ready_at         timestamptz,
    offered_at       timestamptz,
    delivered_at     timestamptz,
    acked_at         timestamptz,
    processed_at     timestamptz,
    expired_at       timestamptz,  -- terminal: sweeper-marked
    recalled_at      timestamptz,  -- terminal: sender-recalled
    dead_at          timestamptz,
    ended_at         timestamptz,  -- when nothing more was awaited of it
    session          text,  -- of the offer that has no receipt yet
    digest           bytea,  -- set once the live state has dropped its content
    failures         bigint,
    first_failed_at  timestamptz,
    last_failed_at   timestamptz,
    failure_reason   text,
    failure_code     text,
    offered_seq      bigint,  -- event of its last offer
    dead_seq         bigint,  -- event of its last death
    remembered       boolean NOT NULL,  -- whether the live state holds it
    life             text NOT NULL,  -- what happened to it, one JSON object per line
    own_level        bigint,  -- its level if nobody lent it anything; null: the same
    lent             bigint,  -- who lends
    payload_checksum bigint,
    metadata_checksum bigint,
    offered_seq_checksum bigint,
    dead_seq_checksum bigint,
    checksum         bigint,
    PRIMARY KEY (project, seq)
);
CREATE INDEX ix_signal_queue_expires_at ON signal_queue (project, expires_at)
    WHERE expires_at IS NOT NULL AND delivered_at IS NULL AND expired_at IS NULL AND recalled_at IS NULL;
CREATE INDEX ix_signal_queue_correlation_id ON signal_queue (project, correlation_id, seq) WHERE correlation_id IS NOT NULL;
CREATE INDEX ix_signal_queue_message_id ON signal_queue (project, message_id);
CREATE INDEX ix_signal_queue_recipient ON signal_queue (project, recipient, seq);
CREATE INDEX ix_signal_queue_broadcast ON signal_queue (project, broadcast_seq) WHERE broadcast_seq IS NOT NULL;
CREATE INDEX ix_signal_queue_dead ON signal_queue (project, dead_seq) WHERE state = 'dead';
CREATE INDEX ix_signal_queue_remembered ON signal_queue (project, seq) WHERE remembered IS TRUE;
CREATE INDEX ix_signal_queue_ended_at ON signal_queue (project, ended_at) WHERE remembered IS FALSE;

CREATE TABLE agents (
    project        text NOT NULL,
    agent          text NOT NULL,
    registered_seq bigint NOT NULL,
    agent_type     text NOT NULL,
    role           text NOT NULL,
    version        text NOT NULL,
    supported      text NOT NULL,  -- JSON array
    capabilities   text NOT NULL,  -- JSON array
    registered_at  timestamptz NOT NULL,
    retired_at     timestamptz,
    tokens         double precision NOT NULL,
    tokens_at      timestamptz,
    critical_quota double precision NOT NULL,
    blocking_quota double precision NOT NULL,
    quotas_at      timestamptz,
    usage          bytea NOT NULL,
    gaming         boolean NOT NULL,
    checksum bigint,
    PRIMARY KEY (project, agent)
);

CREATE TABLE sessions (
    project        text NOT NULL,
    session       text NOT NULL,
    opened_seq    bigint NOT NULL,
    agent         text NOT NULL,
    kind          text NOT NULL,
    opened_at     timestamptz NOT NULL,
    heartbeat_at  timestamptz NOT NULL,
    closed_at     timestamptz,
    flight_window bigint NOT NULL,
    stale         boolean NOT NULL,
    checksum bigint,
    PRIMARY KEY (project, session)
);
CREATE INDEX ix_sessions_closed_at ON sessions (project, closed_at);

CREATE TABLE broadcasts (
    project        text NOT NULL,
    seq           bigint NOT NULL,
    broadcast     text NOT NULL,
    sender        text NOT NULL,
    message_type  text NOT NULL,
    receiver_type text NOT NULL,
    failed        text NOT NULL,  -- JSON array of agent=code
    accepted      bigint NOT NULL,
    created_at    timestamptz NOT NULL,
    payload       text NOT NULL,
    metadata      text NOT NULL,
    checksum bigint,
    PRIMARY KEY (project, seq)
);

CREATE TABLE threads (
    project        text NOT NULL,
    correlation_id text NOT NULL,
    message_id     text NOT NULL,  -- the opening message
    message_type   text NOT NULL,
    sender         text NOT NULL,
    opened_at      timestamptz NOT NULL,
    last_at        timestamptz NOT NULL,
    touched_seq    bigint NOT NULL,
    checksum bigint,
    PRIMARY KEY (project, correlation_id)
);
CREATE INDEX ix_threads_touched_seq ON threads (project, touched_seq);

CREATE TABLE policies (
    project        text NOT NULL,
    version    bigint NOT NULL,
    seq        bigint NOT NULL,
    adopted_at timestamptz NOT NULL,
    adopted_by text NOT NULL,
    reason     text NOT NULL,
    document   text NOT NULL,
    checksum bigint,
    PRIMARY KEY (project, version)
);

CREATE TABLE segments (
    project        text NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    path      text NOT NULL,
    size      bigint NOT NULL,
    cut_at    timestamptz NOT NULL,
    PRIMARY KEY (project, first_seq)
);

-- Ended messages in the order in which they are forgotten: chunks of a line, numbered from the project's beginning.
CREATE TABLE lines (
    project        text NOT NULL,
    name    text NOT NULL,
    first   bigint NOT NULL,
    count   bigint NOT NULL,
    entries bytea NOT NULL,
    checksum bigint,
    PRIMARY KEY (project, name, first)
);

-- The one row that says what the tables are true of.
CREATE TABLE standing (
    project        text NOT NULL,
    seq         bigint NOT NULL,
    document    bytea NOT NULL,
    indexed_seq bigint NOT NULL,
    checksum bigint,
    PRIMARY KEY (project)
);

CREATE VIEW dead_letters AS
SELECT project, seq, signal_id, sender, recipient, message_type, failure_reason, failure_code, failures, first_failed_at,
       last_failed_at, attempts, dead_at, payload
FROM signal_queue WHERE state = 'dead' AND remembered IS TRUE;

-- Words of payloads. The index follows the tables at its own pace (standing.indexed_seq).
CREATE TABLE signal_search (
    project text NOT NULL,
    seq     bigint NOT NULL,
    words   tsvector NOT NULL,
    PRIMARY KEY (project, seq)
);
CREATE INDEX ix_signal_search_words ON signal_search USING gin (words);

-- What agents coordinate by: one JSON object for each, under its kind and id.
CREATE TABLE documents (
    project  text NOT NULL,
    kind     text NOT NULL,
    id       text NOT NULL,
    document text NOT NULL,
    checksum bigint,
    PRIMARY KEY (project, kind, id)
);

-- One row for each resource that is held.
CREATE VIEW leases AS
SELECT d.project, d.id AS lease, d.document::jsonb ->> 'holder' AS holder, c ->> 'resource' AS resource,
       CASE WHEN (c ->> 'shared')::boolean THEN 'shared' ELSE 'exclusive' END AS mode,
       (d.document::jsonb ->> 'level')::bigint AS level,
       timestamptz 'epoch' + (d.document::jsonb ->> 'granted_at')::bigint * interval '1 microsecond' AS granted_at,
       timestamptz 'epoch' + (d.document::jsonb ->> 'expires_at')::bigint * interval '1 microsecond' AS expires_at,
       (d.document::jsonb ->> 'renewals')::bigint AS renewals
FROM documents d, jsonb_array_elements(d.document::jsonb -> 'claims') c WHERE d.kind = 'lease';

-- One row for each resource that somebody stands in line for.
CREATE VIEW lease_requests AS
SELECT d.project, d.id AS lease, d.document::jsonb ->> 'agent' AS agent, c ->> 'resource' AS resource,
       CASE WHEN (c ->> 'shared')::boolean THEN 'shared' ELSE 'exclusive' END AS mode,
       (d.document::jsonb ->> 'level')::bigint AS level,
       timestamptz 'epoch' + (d.document::jsonb ->> 'asked_at')::bigint * interval '1 microsecond' AS asked_at,
       timestamptz 'epoch' + (d.document::jsonb ->> 'wait_until')::bigint * interval '1 microsecond' AS wait_until
FROM documents d, jsonb_array_elements(d.document::jsonb -> 'claims') c WHERE d.kind = 'lease_request';
