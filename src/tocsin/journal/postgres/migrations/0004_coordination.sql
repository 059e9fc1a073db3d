-- What a message's level would be if nobody lent it anything (null: the same), and who lends.
ALTER TABLE tocsin.signal_queue ADD COLUMN own_level bigint;
ALTER TABLE tocsin.signal_queue ADD COLUMN lent bigint;

-- What agents coordinate by: one JSON object for each, under its kind and id.
CREATE TABLE tocsin.documents (
    project  text NOT NULL,
    kind     text NOT NULL,
    id       text NOT NULL,
    document text NOT NULL,
    PRIMARY KEY (project, kind, id)
);

-- One row for each resource that is held.
CREATE VIEW tocsin.leases AS
SELECT d.project, d.id AS lease, d.document::jsonb ->> 'holder' AS holder, c ->> 'resource' AS resource,
       CASE WHEN (c ->> 'shared')::boolean THEN 'shared' ELSE 'exclusive' END AS mode,
       (d.document::jsonb ->> 'level')::bigint AS level,
       timestamptz 'epoch' + (d.document::jsonb ->> 'granted_at')::bigint * interval '1 microsecond' AS granted_at,
       timestamptz 'epoch' + (d.document::jsonb ->> 'expires_at')::bigint * interval '1 microsecond' AS expires_at,
       (d.document::jsonb ->> 'renewals')::bigint AS renewals
FROM tocsin.documents d, jsonb_array_elements(d.document::jsonb -> 'claims') c WHERE d.kind = 'lease';

-- One row for each resource that somebody stands in line for.
CREATE VIEW tocsin.lease_requests AS
SELECT d.project, d.id AS lease, d.document::jsonb ->> 'agent' AS agent, c ->> 'resource' AS resource,
       CASE WHEN (c ->> 'shared')::boolean THEN 'shared' ELSE 'exclusive' END AS mode,
       (d.document::jsonb ->> 'level')::bigint AS level,
       timestamptz 'epoch' + (d.document::jsonb ->> 'asked_at')::bigint * interval '1 microsecond' AS asked_at,
       timestamptz 'epoch' + (d.document::jsonb ->> 'wait_until')::bigint * interval '1 microsecond' AS wait_until
FROM tocsin.documents d, jsonb_array_elements(d.document::jsonb -> 'claims') c WHERE d.kind = 'lease_request';
