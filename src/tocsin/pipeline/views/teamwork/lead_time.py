"""Lead times of the threads opened on a day, per kind, type, responder and measure."""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution_of
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["LEAD_TIME"]

LEAD_TIME = View(
    name="lead_time",
    layer="gold",
    about="Lead times of the threads opened on a day, per kind, type, responder and measure.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of opening of the threads, UTC."),
        ("thread_kind", "string", "`task`, `handoff` or `request`."),
        ("message_type", "string", "Message type of the opening message."),
        ("responder", "string", "Agent that was asked; null if there were several."),
        ("measure", "string", "`to_delivery`, `to_first_update`, `to_response` or `to_completion`, since the opening."),
        *DISTRIBUTION,
    ),
    reads=("thread",),
    sql=distribution_of(
        """(SELECT project, date, thread_kind, message_type, responder, measure, lead_us FROM (
            SELECT *, not_negative(us(delivered_at) - us(opened_at)) AS to_delivery,
                not_negative(us(first_update_at) - us(opened_at)) AS to_first_update,
                not_negative(us(first_response_at) - us(opened_at)) AS to_response,
                not_negative(us(completed_at) - us(opened_at)) AS to_completion
            FROM thread)
        UNPIVOT (lead_us FOR measure IN (to_delivery, to_first_update, to_response, to_completion)))""",
        ("project", "date", "thread_kind", "message_type", "responder", "measure"),
        "lead_us",
        {},
    ),
    by_day=False,
)
