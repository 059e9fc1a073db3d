-- Words of payloads. The index follows the tables at its own pace (standing.indexed_seq) and holds no content.
CREATE VIRTUAL TABLE signal_search USING fts5 (payload, content = '', contentless_delete = 1, tokenize = 'unicode61');
