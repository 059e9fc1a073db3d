"""Bronze layer: segments in the landing zone become files of the `event` table."""
