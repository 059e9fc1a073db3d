"""Views for the advice: use of priorities, TTLs and delivery windows."""
