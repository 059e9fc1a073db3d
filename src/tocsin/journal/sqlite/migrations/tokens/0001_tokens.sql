-- Files of the versions before this step have the table, and lack at most the last column.
CREATE TABLE IF NOT EXISTS grants (
  token_id TEXT NOT NULL PRIMARY KEY, project TEXT NOT NULL, agent TEXT NOT NULL, role TEXT NOT NULL,
  admin INTEGER NOT NULL, digest BLOB NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER,
  types TEXT                            -- null: the token grants any
) STRICT;
