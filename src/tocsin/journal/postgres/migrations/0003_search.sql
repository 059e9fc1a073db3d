-- Words of payloads. The index follows the tables at its own pace (standing.indexed_seq).
CREATE TABLE tocsin.signal_search (
    project text NOT NULL,
    seq     bigint NOT NULL,
    words   tsvector NOT NULL,
    PRIMARY KEY (project, seq)
);
CREATE INDEX ix_signal_search_words ON tocsin.signal_search USING gin (words);
