-- One row per commit: a batch of events, its range of sequence numbers, who wrote it, and a checksum over all of that.
CREATE TABLE journal (
    first_seq INTEGER PRIMARY KEY,
    last_seq  INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    checksum  INTEGER NOT NULL,
    events    BLOB NOT NULL
);

-- The one row that says whose journal this is, which owner writes it, and how far it has been pruned.
CREATE TABLE ownership (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    project    TEXT NOT NULL,
    epoch      INTEGER NOT NULL,
    pruned_seq INTEGER NOT NULL,
    probes     INTEGER NOT NULL
);
