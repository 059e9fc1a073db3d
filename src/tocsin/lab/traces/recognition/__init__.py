"""Recognition of commands: reconstructs the command of each decision from its events.

A decision has a run of events; the first identifies the command, usually alone, sometimes together with the following
ones. `EventReader.open` takes one event, with the state before it, and returns the step that it opens; `FOLLOWS` if it
belongs to the current decision; `TICKS` if only a timer can have caused it. The state is not changed here.
"""

from tocsin.lab.traces.recognition.agents import AGENTS
from tocsin.lab.traces.recognition.base import FOLLOWS, TICKS, EventReader, Opener
from tocsin.lab.traces.recognition.messages import MESSAGES
from tocsin.lab.traces.recognition.teamwork import COORDINATION

__all__ = ["FOLLOWS", "OPENERS", "TICKS", "EventReader"]

#: The function for each kind of event that recognises the command.
OPENERS: dict[type, Opener] = {**AGENTS, **MESSAGES, **COORDINATION}
