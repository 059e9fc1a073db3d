-- A hub of an earlier version writes no checksums: it is refused.
ALTER TABLE tocsin.grants ALTER COLUMN checksum SET NOT NULL;
