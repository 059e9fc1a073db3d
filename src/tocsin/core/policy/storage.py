"""Policy of storage: commits, tables, history, segments and pruning."""

from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Pause, Seconds

__all__ = ["Storage"]


class Storage(Concern, frozen=True):
    """Commits, tables, history and segments; the exchange itself does not use these settings."""

    #: Events in one commit; the events of one command are never split, and receipts do not count.
    group_events_max: Count
    #: Payload bytes in one commit, of the messages that it accepts; the last one may exceed it.
    group_bytes_max: Count
    #: Time for which receipts wait for a commit that they can join, seconds; no call waits for them.
    receipt_delay_s: Pause
    #: Commands that may wait for a commit.
    commands_waiting_max: Count
    #: Replies and pushes sent in one turn of the event loop, and commands decided that waited for a commit; Critical
    #: ones do not count.
    turn_words_max: Count
    #: Size of the write-ahead log at which a SQLite journal is checkpointed, bytes.
    checkpoint_bytes: Count
    #: Bytes by which the write-ahead log of a SQLite journal is extended ahead of commits; 0 switches that off.
    log_reserve_bytes: Annotated[int, Meta(ge=0)]
    #: Attempts to rebuild after a failed commit before the hub stops.
    recovery_attempts_max: Count
    #: Wait before each of those attempts, seconds.
    recovery_backoff_s: Seconds
    #: Time between two updates of the tables from the journal, seconds. A reader that needs newer tables does not wait
    #: for it.
    projection_interval_s: Seconds
    #: Events within that time from which on the update is left for later, because the processor is needed for them.
    projection_busy_events: Count
    #: Longest time for which it is left for later, seconds.
    projection_delay_max_s: Seconds
    #: Events after which the tables are updated in any case.
    projection_events_max: Count
    #: Payload bytes of new messages after which they are too, because they are kept in memory until then.
    projection_bytes_max: Count
    #: Events that the tables may be behind; commands wait while it is more.
    projection_lag_max: Count
    #: Events after which the messages that they changed are copied for the next update.
    projection_slice: Count
    #: Pause after every few rows of such an update, seconds, so that decisions and commits have the interpreter
    #: meanwhile; shorter if a reader waits for the tables, or if they are far behind.
    projection_pause_s: Annotated[float, Meta(ge=0, le=0.1)]
    #: Bytes that the recorded history of one message may take in the tables.
    life_bytes_max: Count
    #: Whether payloads can be searched.
    search: bool
    #: Messages added to the search index at a time.
    search_batch: Count
    #: Time for which ended messages stay in the history, seconds.
    history_s: Seconds
    #: Minimum time for which commits stay in the journal, seconds, even when projected and exported.
    journal_s: Annotated[float, Meta(ge=0)]
    #: Interval between prunings, seconds.
    prune_interval_s: Seconds
    #: Minimum time between two backups of the tables of a SQLite project, seconds. The journal is pruned only up to the
    #: last one, so that damaged tables can be rebuilt.
    backup_interval_s: Seconds
    #: Rows pruned at a time.
    prune_batch: Count
    #: Whether the journal is exported to segment files.
    segments: bool
    #: Age of its first event at which a segment is closed, seconds.
    segment_age_s: Seconds
    #: Size at which a segment is closed, bytes before compression.
    segment_bytes_max: Count
    #: Whether segments hold payloads and metadata.
    segment_payloads: bool
    #: Minimum time between two notifications of commits to other hubs, seconds.
    notify_interval_s: Seconds
