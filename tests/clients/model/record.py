"""What a model was shown: the requests of the four APIs in one form."""

import json
from typing import Any, NamedTuple

__all__ = ["Part", "Request", "text_of"]


class Part(NamedTuple):
    """One piece of a conversation."""

    #: `system`, `user`, `assistant` or `tool`.
    role: str
    #: `text`, `call` (of a tool, by the model) or `result` (of one).
    kind: str
    text: str
    #: Name of the tool of a call.
    tool: str = ""
    #: Id of the call, in a call and in its result.
    call_id: str = ""


class Request(NamedTuple):
    """One request that a client has sent to its model."""

    #: API key: it names the agent, because each agent's client is given a key of its own.
    who: str
    #: `messages`, `responses`, `completions` or `gemini`.
    api: str
    #: `main`, `sub` (of a sub-agent) or `aside` (titles and other small errands of the client, without tools).
    purpose: str
    system: str
    parts: tuple[Part, ...]
    #: Descriptions of the tools that were listed, by name.
    tools: dict[str, str]
    headers: dict[str, str]
    body: dict[str, Any]
    #: Seconds, as `time.monotonic` has them, when the request had been read.
    at_s: float

    @property
    def text(self) -> str:
        """Return all that the model reads, except its own output and the tools."""
        said = (part.text for part in self.parts if part.role != "assistant")
        return "\n".join([self.system, *said])

    @property
    def news(self) -> tuple[Part, ...]:
        """Return what has been added since the model's last output."""
        last = max((place for place, part in enumerate(self.parts) if part.role == "assistant"), default=-1)
        return self.parts[last + 1 :]

    def result_of(self, tool: str) -> str:
        """Return the latest result of a tool, named as Tocsin names it."""
        ids = {part.call_id for part in self.parts if part.kind == "call" and part.tool.endswith(tool)}
        found = [part.text for part in self.parts if part.kind == "result" and part.call_id in ids]
        return found[-1] if found else ""


def text_of(content: Any) -> str:
    """Return the text of content: a text, a list of blocks, or an object that becomes JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(block) for block in content)
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return str(content["text"])
    return json.dumps(content, ensure_ascii=False)
