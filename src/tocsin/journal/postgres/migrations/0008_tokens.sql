-- The checksums of the rows are made after this step.
ALTER TABLE tocsin.grants
    ADD COLUMN issued_by text,           -- the token whose holder issued it; null: the operator, or an earlier version
    ADD COLUMN mac bytea,                -- over the rights, with a key from the secret; null: not presented since
    ADD COLUMN checksum bigint;          -- over all other columns

-- Counts the changes of the tokens of a project.
CREATE TABLE tocsin.token_versions (
    project text PRIMARY KEY,
    version bigint NOT NULL
);

-- The processes that use the tokens of a project without owning it. A change of tokens is answered when each of them
-- has read it, or has not been heard of for its lease.
CREATE TABLE tocsin.token_readers (
    reader  text PRIMARY KEY,            -- machine, process, and a random part
    project text NOT NULL,
    version bigint NOT NULL,             -- that it has read
    lease_s double precision NOT NULL,
    read_at timestamptz NOT NULL         -- by the clock of this server
);
