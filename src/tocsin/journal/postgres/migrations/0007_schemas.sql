-- Each project has a schema of its own; `tocsin` keeps what the hubs share. The rows were copied there before this step.
DROP VIEW tocsin.dead_letters, tocsin.leases, tocsin.lease_requests;
DROP TABLE tocsin.journal, tocsin.signal_queue, tocsin.signal_search, tocsin.agents, tocsin.sessions, tocsin.broadcasts,
    tocsin.threads, tocsin.policies, tocsin.segments, tocsin.lines, tocsin.standing, tocsin.documents;

-- The hubs that share the projects of this database. A hub that does not beat is gone after its lease.
CREATE TABLE tocsin.hubs (
    address  text PRIMARY KEY,           -- where it can be reached; also its name in the placement
    hub      text NOT NULL,              -- machine and process
    weight   double precision NOT NULL,
    lease_s  double precision NOT NULL,
    beat_at  timestamptz NOT NULL        -- by the clock of this server, like every age that is compared with the lease
);

-- Tokens of all projects, and the projects beside the home project. Hubs of earlier versions made these tables themselves.
CREATE TABLE IF NOT EXISTS tocsin.grants (
    token_id   text NOT NULL PRIMARY KEY,
    project    text NOT NULL,
    agent      text NOT NULL,
    role       text NOT NULL,
    admin      boolean NOT NULL,
    digest     bytea NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
ALTER TABLE tocsin.grants ADD COLUMN IF NOT EXISTS types text;  -- null: the token grants any
CREATE TABLE IF NOT EXISTS tocsin.catalogue (
    name        text NOT NULL PRIMARY KEY,
    created_at  bigint NOT NULL,
    archived_at bigint,
    due_at      bigint
);
