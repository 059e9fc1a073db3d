"""How what happened is kept."""

from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Seconds

__all__ = ["Storage"]


class Storage(Concern, frozen=True):
    """How what happened is kept: commits, tables, history and segments. The exchange itself never looks at it."""

    #: Events in one commit, as far as whole commands go.
    group_events_max: Count
    #: Commands that may wait for a place in a commit.
    commands_waiting_max: Count
    #: Replies and pushes let go in one turn of the loop; what is Critical does not count.
    turn_words_max: Count
    #: Bytes of commits after which a SQLite journal is checkpointed.
    checkpoint_bytes: Count
    #: Tries to rebuild after a failed commit before the hub stops.
    recovery_attempts_max: Count
    #: Wait before each of those tries, seconds.
    recovery_backoff_s: Seconds
    #: The tables follow the journal at least this often, seconds.
    projection_interval_s: Seconds
    #: Events after which they follow sooner.
    projection_events_max: Count
    #: Bytes that the recorded life of one message may take in the tables.
    life_bytes_max: Count
    #: Whether payloads can be searched.
    search: bool
    #: Messages added to the search index at a time.
    search_batch: Count
    #: Ended messages stay in the history for this long, seconds.
    history_s: Seconds
    #: Commits stay in the journal for this long at least, seconds, even when projected and exported.
    journal_s: Annotated[float, Meta(ge=0)]
    #: How often there is pruning, seconds.
    prune_interval_s: Seconds
    #: Rows pruned at a time.
    prune_batch: Count
    #: Whether the journal is exported to segment files.
    segments: bool
    #: A segment is cut once its first event is this old, seconds.
    segment_age_s: Seconds
    #: A segment is cut once it holds this many bytes, before compression.
    segment_bytes_max: Count
    #: Whether segments hold payloads and metadata.
    segment_payloads: bool
    #: Other hubs are told of commits at most this often, seconds.
    notify_interval_s: Seconds
