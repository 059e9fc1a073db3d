-- The table message_life in DuckDB's SQL, for comparison: the same columns, from the same bronze files.
WITH event AS (SELECT * FROM $source),
step AS (
  SELECT project, message,
    max(seq) FILTER (kind = 'MessageOffered') AS offered_seq, arg_max("at", seq) FILTER (kind = 'MessageOffered') AS offered_at,
    max(seq) FILTER (kind = 'MessageDelivered') AS delivered_seq, arg_max("at", seq) FILTER (kind = 'MessageDelivered') AS delivered_at,
    max(seq) FILTER (kind = 'MessageAcknowledged') AS acknowledged_seq, arg_max("at", seq) FILTER (kind = 'MessageAcknowledged') AS acknowledged_at,
    max(seq) FILTER (kind = 'MessageProcessed') AS processed_seq, arg_max("at", seq) FILTER (kind = 'MessageProcessed') AS processed_at,
    max(seq) FILTER (kind = 'MessageRequeued') AS requeued_seq, arg_max("at", seq) FILTER (kind = 'MessageRequeued') AS requeued_at,
    max(seq) FILTER (kind = 'MessageRejected') AS rejected_seq, arg_max("at", seq) FILTER (kind = 'MessageRejected') AS rejected_at,
    max(seq) FILTER (kind = 'MessageBoosted') AS boosted_seq, arg_max("at", seq) FILTER (kind = 'MessageBoosted') AS boosted_at,
    max(seq) FILTER (kind = 'MessageExpired') AS expired_seq, arg_max("at", seq) FILTER (kind = 'MessageExpired') AS expired_at,
    max(seq) FILTER (kind = 'MessageRecalled') AS recalled_seq, arg_max("at", seq) FILTER (kind = 'MessageRecalled') AS recalled_at,
    max(seq) FILTER (kind = 'MessageDied') AS died_seq, arg_max("at", seq) FILTER (kind = 'MessageDied') AS died_at,
    max(seq) FILTER (kind = 'DeadLetterRedriven') AS redriven_seq, arg_max("at", seq) FILTER (kind = 'DeadLetterRedriven') AS redriven_at,
    max(seq) FILTER (kind = 'DeadLetterPurged') AS purged_seq, arg_max("at", seq) FILTER (kind = 'DeadLetterPurged') AS purged_at,
    max(offer) AS offers, min("at") FILTER (offer = 1) AS first_offered_at,
    max(waited_us) FILTER (offer = 1) AS first_waited_us,
    arg_max(how, seq) FILTER (kind = 'MessageDelivered') AS delivered_how,
    arg_max(status, seq) FILTER (kind = 'MessageAcknowledged') AS ack_status,
    arg_max(how, seq) FILTER (kind = 'MessageProcessed') AS processed_how,
    arg_max(reason, seq) FILTER (kind IN ('MessageDied', 'MessageExpired')) AS reason,
    arg_max(code, seq) FILTER (kind = 'MessageDied') AS code,
    max(latency_us) FILTER (kind = 'MessageAcknowledged') AS ack_latency_us,
    max(latency_us) FILTER (kind = 'MessageProcessed') AS processing_latency_us,
    arg_max(coalesce(new_level, level), seq) FILTER (kind IN ('MessageOffered', 'MessageBoosted')) AS level,
    arg_max(attempts, seq) FILTER (kind IN ('MessageRequeued', 'MessageDied')) AS attempts,
    arg_max(boosts, seq) FILTER (kind = 'MessageBoosted') AS boosts,
    arg_max(expires_at, seq) FILTER (kind = 'DeadLetterRedriven') AS redriven_expires_at,
    count(*) FILTER (kind = 'MessageRequeued') AS requeues,
    count(*) FILTER (kind = 'MessageRejected') AS rejections,
    count(*) FILTER (kind = 'DeadLetterRedriven') AS redrives,
    max(seq) AS last_seq, arg_max("at", seq) AS last_at
  FROM event WHERE message IS NOT NULL GROUP BY project, message
)
SELECT a.project, a.date, a.seq AS message, a.message_id, a.sender, a.recipient, a.message_type, a.requested,
  a.priority, a.rule, a.importance, a.decay_rate, a.delivery_class, a.ack_required, a.version, a.correlation_id, a.opens_thread,
  a.broadcast, a.recipient_state, a.publish_path, a.resolved_session, make_timestamp(a."at") AS created_at,
  make_timestamp(a.sent_at) AS sent_at,
  make_timestamp(coalesce(s.redriven_expires_at, a.expires_at)) AS expires_at,
  s.* EXCLUDE (project, message, redriven_expires_at),
  CASE greatest(
    coalesce(offered_seq, 0),
    coalesce(delivered_seq, 0),
    coalesce(acknowledged_seq, 0),
    coalesce(processed_seq, 0),
    coalesce(requeued_seq, 0),
    coalesce(expired_seq, 0),
    coalesce(recalled_seq, 0),
    coalesce(died_seq, 0),
    coalesce(redriven_seq, 0))
    WHEN 0 THEN 'queued' WHEN offered_seq THEN 'offered' WHEN delivered_seq THEN 'delivered'
    WHEN acknowledged_seq THEN 'acknowledged' WHEN processed_seq THEN 'processed' WHEN requeued_seq THEN 'queued'
    WHEN expired_seq THEN 'expired' WHEN recalled_seq THEN 'recalled' WHEN died_seq THEN 'dead' ELSE 'queued' END AS state
FROM event a LEFT JOIN step s ON s.project = a.project AND s.message = a.seq
WHERE a.kind = 'MessageAccepted'
