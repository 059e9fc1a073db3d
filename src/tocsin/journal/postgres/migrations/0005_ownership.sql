-- Lease of each project's owner. It is apart from tocsin.projects, whose row every append locks: a renewal waits for none.
CREATE TABLE tocsin.ownership (
    project  text PRIMARY KEY,
    epoch    bigint NOT NULL,           -- the owner that renews
    renewals bigint NOT NULL,           -- counts its renewals: a standby watches whether this number changes
    lease_s  double precision NOT NULL  -- time without a renewal after which a standby may take over; 0 is never
);
