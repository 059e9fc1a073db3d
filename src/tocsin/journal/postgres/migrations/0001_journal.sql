-- Who owns what: any hub can answer from this table where a project is served.
CREATE TABLE tocsin.projects (
    project    text PRIMARY KEY,
    epoch      bigint NOT NULL,          -- counts the owners; an append of an older one is refused
    owner      text NOT NULL,            -- the hub that serves it
    address    text NOT NULL,            -- where that hub can be reached
    owned_at   timestamptz NOT NULL,
    pruned_seq bigint NOT NULL DEFAULT 0,
    probes     bigint NOT NULL DEFAULT 0
);

-- One row per commit: a batch of events, its range of sequence numbers, who wrote it, and a checksum over all of that.
CREATE TABLE tocsin.journal (
    project   text NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    at        bigint NOT NULL,
    epoch     bigint NOT NULL,
    checksum  bigint NOT NULL,
    events    bytea NOT NULL,
    PRIMARY KEY (project, first_seq)
);
-- Batches are packed already, and trying to compress them costs more than it saves.
ALTER TABLE tocsin.journal ALTER COLUMN events SET STORAGE EXTERNAL;
