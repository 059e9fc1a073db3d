"""Scripted model server for coding agents, and the record of all that it was shown."""

from tests.clients.model.record import Part, Request
from tests.clients.model.script import Call, Say, Step
from tests.clients.model.server import Model

__all__ = ["Call", "Model", "Part", "Request", "Say", "Step"]
