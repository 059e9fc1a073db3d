"""Which command an event began: history read backwards, from what was decided to what was asked.

A decision leaves a run of events; its first names the command, mostly by itself, sometimes together with those after
it. `Reading.open` looks at one event, with the state as it was before it, and returns the step that it opens; `FOLLOWS`
where it belongs to the decision under way; `TICKS` where only a timer can have caused it. Nothing here moves the state.
"""

from tocsin.lab.traces.recognition.agents import AGENTS
from tocsin.lab.traces.recognition.base import FOLLOWS, TICKS, EventReader, Opener
from tocsin.lab.traces.recognition.messages import MESSAGES
from tocsin.lab.traces.recognition.teamwork import COORDINATION

__all__ = ["FOLLOWS", "OPENERS", "TICKS", "EventReader"]

#: What each kind of event says about the command that it began.
OPENERS: dict[type, Opener] = {**AGENTS, **MESSAGES, **COORDINATION}
