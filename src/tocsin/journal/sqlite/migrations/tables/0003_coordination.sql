-- What a message's level would be if nobody lent it anything (null: the same), and who lends.
ALTER TABLE signal_queue ADD COLUMN own_level INTEGER;
ALTER TABLE signal_queue ADD COLUMN lent INTEGER;

-- What agents coordinate by: one JSON object for each, under its kind and id.
CREATE TABLE documents (
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- One row for each resource that is held.
CREATE VIEW leases AS
SELECT d.id AS lease, json_extract(d.document, '$.holder') AS holder, json_extract(c.value, '$.resource') AS resource,
       iif(json_extract(c.value, '$.shared'), 'shared', 'exclusive') AS mode, json_extract(d.document, '$.level') AS level,
       json_extract(d.document, '$.granted_at') AS granted_at, json_extract(d.document, '$.expires_at') AS expires_at,
       json_extract(d.document, '$.renewals') AS renewals
FROM documents d, json_each(d.document, '$.claims') c WHERE d.kind = 'lease';

-- One row for each resource that somebody stands in line for.
CREATE VIEW lease_requests AS
SELECT d.id AS lease, json_extract(d.document, '$.agent') AS agent, json_extract(c.value, '$.resource') AS resource,
       iif(json_extract(c.value, '$.shared'), 'shared', 'exclusive') AS mode, json_extract(d.document, '$.level') AS level,
       json_extract(d.document, '$.asked_at') AS asked_at, json_extract(d.document, '$.wait_until') AS wait_until
FROM documents d, json_each(d.document, '$.claims') c WHERE d.kind = 'lease_request';
