-- Every row has a checksum. The table has no index beside it that could lead to another row.
CREATE TABLE sealed (
  token_id TEXT NOT NULL PRIMARY KEY, project TEXT NOT NULL, agent TEXT NOT NULL, role TEXT NOT NULL,
  admin INTEGER NOT NULL, digest BLOB NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER,
  types TEXT,
  issued_by TEXT,                       -- the token whose holder issued it; null: the operator, or an earlier version
  mac BLOB,                             -- over the rights, with a key from the secret; null: not presented since
  checksum INTEGER NOT NULL             -- over all other columns
) STRICT, WITHOUT ROWID;
INSERT INTO sealed
SELECT token_id, project, agent, role, admin, digest, created_at, expires_at, revoked_at, types, NULL, NULL,
  token_checksum(
    token_id, project, agent, role, admin, digest, created_at, expires_at, revoked_at, types, NULL, NULL
  )
FROM grants;
DROP TABLE grants;
ALTER TABLE sealed RENAME TO grants;
