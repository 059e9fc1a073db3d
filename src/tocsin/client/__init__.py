"""The SDK: an agent attached to a hub, or to a project in its own process, with the same verbs.

`Agent` is for asyncio, `SyncAgent` for everything else. A hub is reached with `tocsin[client]`; nothing else needs it.
"""

from tocsin.client.agent import Agent, Messages, Receipts
from tocsin.client.backoff import Retry
from tocsin.client.config import ClientConfig, client_config
from tocsin.client.connection import ConnectionState
from tocsin.client.envelopes import Draft
from tocsin.client.errors import Deadlock, LeaseLost, NoAnswer, NoResponse
from tocsin.client.leases import Lease
from tocsin.client.message import Message
from tocsin.client.replies import BroadcastReceipt, Receipt
from tocsin.client.sync import SyncAgent, SyncMessage
from tocsin.client.work import Interruption, Working

__all__ = [
    "Agent",
    "BroadcastReceipt",
    "ClientConfig",
    "ConnectionState",
    "Deadlock",
    "Draft",
    "Interruption",
    "Lease",
    "LeaseLost",
    "Message",
    "Messages",
    "NoAnswer",
    "NoResponse",
    "Receipt",
    "Receipts",
    "Retry",
    "SyncAgent",
    "SyncMessage",
    "Working",
    "client_config",
]
