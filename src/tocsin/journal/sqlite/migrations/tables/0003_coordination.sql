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
