"""The file gateway: channels as NDJSON files, one directory per sender and receiver (APM §3.1, §6.4).

Every file has one writer. A *file agent* sends by appending lines to its own files, in directories that it owns; the
ownership identifies it. The hub writes all other files: messages to file agents, and a copy of the messages between
other agents. `names` names the directories, `safe_open` opens only files that are safe to use, `writing` and
`projector` write the hub's files, `reading`, `parsing` and `file_agent` serve the file agents, `answers` are the
replies to their lines, and `positions` stores how far files have been read and written.
"""
