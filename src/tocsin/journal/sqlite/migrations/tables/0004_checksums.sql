-- Checksums, null in rows from before. A column that later writes leave out has one of its own.
ALTER TABLE signal_queue ADD COLUMN payload_checksum INTEGER;
ALTER TABLE signal_queue ADD COLUMN metadata_checksum INTEGER;
ALTER TABLE signal_queue ADD COLUMN offered_seq_checksum INTEGER;
ALTER TABLE signal_queue ADD COLUMN dead_seq_checksum INTEGER;
ALTER TABLE signal_queue ADD COLUMN checksum INTEGER;
ALTER TABLE agents ADD COLUMN checksum INTEGER;
ALTER TABLE sessions ADD COLUMN checksum INTEGER;
ALTER TABLE broadcasts ADD COLUMN checksum INTEGER;
ALTER TABLE threads ADD COLUMN checksum INTEGER;
ALTER TABLE policies ADD COLUMN checksum INTEGER;
ALTER TABLE documents ADD COLUMN checksum INTEGER;
ALTER TABLE lines ADD COLUMN checksum INTEGER;
ALTER TABLE standing ADD COLUMN checksum INTEGER;
