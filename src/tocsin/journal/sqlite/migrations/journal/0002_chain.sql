-- Value over the checksum of a group and the chain value of the group before it; null in groups from before.
ALTER TABLE journal ADD COLUMN chain INTEGER;
-- Chain value of the last pruned group.
ALTER TABLE ownership ADD COLUMN pruned_chain INTEGER;
