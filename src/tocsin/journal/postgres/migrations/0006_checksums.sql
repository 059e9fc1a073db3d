-- Value over the checksum of a group and the chain value of the group before it; null in groups from before.
ALTER TABLE tocsin.journal ADD COLUMN chain bigint;
-- Chain value of the last pruned group.
ALTER TABLE tocsin.projects ADD COLUMN pruned_chain bigint;
ALTER TABLE tocsin.projects ALTER COLUMN pruned_chain SET DEFAULT 0;
-- Checksums of rows, null in rows from before. A column that later writes leave out has one of its own.
ALTER TABLE tocsin.signal_queue ADD COLUMN payload_checksum bigint, ADD COLUMN metadata_checksum bigint,
    ADD COLUMN offered_seq_checksum bigint, ADD COLUMN dead_seq_checksum bigint, ADD COLUMN checksum bigint;
ALTER TABLE tocsin.agents ADD COLUMN checksum bigint;
ALTER TABLE tocsin.sessions ADD COLUMN checksum bigint;
ALTER TABLE tocsin.broadcasts ADD COLUMN checksum bigint;
ALTER TABLE tocsin.threads ADD COLUMN checksum bigint;
ALTER TABLE tocsin.policies ADD COLUMN checksum bigint;
ALTER TABLE tocsin.documents ADD COLUMN checksum bigint;
ALTER TABLE tocsin.lines ADD COLUMN checksum bigint;
ALTER TABLE tocsin.standing ADD COLUMN checksum bigint;
