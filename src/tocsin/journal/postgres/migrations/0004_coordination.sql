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
