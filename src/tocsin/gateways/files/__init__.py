"""The file gateway: channels as NDJSON files, one directory per sender and receiver (APM §3.1, §6.4).

Every file has one writer. What a *file agent* says, it appends to files of its own, in directories that it owns; owning
them is its identity. Everything else is written by the hub: what is said to a file agent, and, for whoever likes to
look on, what anybody says to anybody. `names` says which directory is whose, `custody` opens nothing that is not
plainly what it should be, `writing` and `projector` are the hub's side, `reading` and `attendant` the agents'.
"""
