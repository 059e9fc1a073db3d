"""The four APIs: how a request is read, and the events of an answer."""

import json
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple, Protocol

from tests.clients.model.record import Part, text_of
from tests.clients.model.script import Call, Say

__all__ = ["APIS", "Api", "Read"]

_numbers = count(1)
_TOKENS = 7


class Read(NamedTuple):
    """What one request shows."""

    system: str
    parts: list[Part]
    tools: dict[str, str]


class Api(Protocol):
    """One API."""

    name: str

    def takes(self, path: str) -> bool:
        """Tell whether a path is that of a request for an answer."""

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        """Tell whether a request wants a stream of events."""

    def read(self, body: dict[str, Any]) -> Read:
        """Read a request."""

    def events(self, answer: Say | list[Call], model: str) -> Iterator[tuple[str, Any]]:
        """Return the events of an answer: names and data; a name may be empty."""

    def whole(self, answer: Say | list[Call], model: str) -> dict[str, Any]:
        """Return an answer as one document."""


def _id(kind: str) -> str:
    return f"{kind}_{next(_numbers):06}"


class Messages:
    """Anthropic Messages."""

    name = "messages"

    def takes(self, path: str) -> bool:
        return path.endswith("/v1/messages")

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def read(self, body: dict[str, Any]) -> Read:
        parts = [part for message in body["messages"] for part in self._parts(message)]
        tools = {tool["name"]: str(tool.get("description", "")) for tool in body.get("tools", [])}
        return Read(text_of(body.get("system")), parts, tools)

    def _parts(self, message: dict[str, Any]) -> Iterator[Part]:
        role, content = message["role"], message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kind = block["type"]
            if kind == "tool_use":
                yield Part(role, "call", json.dumps(block["input"]), block["name"], block["id"])
            elif kind == "tool_result":
                yield Part("tool", "result", text_of(block.get("content")), "", block["tool_use_id"])
            else:
                yield Part(role, "text", text_of(block))

    def _blocks(self, answer: Say | list[Call]) -> list[dict[str, Any]]:
        if isinstance(answer, Say):
            return [{"type": "text", "text": answer.text}]
        return [{"type": "tool_use", "id": _id("toolu"), "name": call.tool, "input": call.arguments} for call in answer]

    def whole(self, answer: Say | list[Call], model: str) -> dict[str, Any]:
        return {
            "id": _id("msg"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": self._blocks(answer),
            "stop_reason": "end_turn" if isinstance(answer, Say) else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": _TOKENS, "output_tokens": _TOKENS},
        }

    def events(self, answer: Say | list[Call], model: str) -> Iterator[tuple[str, Any]]:
        whole = self.whole(answer, model)
        begun = whole | {"content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": begun}
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty = block | {"input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": ended, "usage": {"output_tokens": _TOKENS}}
        yield "message_stop", {"type": "message_stop"}


class Responses:
    """OpenAI Responses."""

    name = "responses"

    def takes(self, path: str) -> bool:
        return path.endswith("/responses")

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def read(self, body: dict[str, Any]) -> Read:
        given = body["input"]
        items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
        tools: dict[str, str] = {}
        found = [tool for item in items if item.get("type") == "tool_search_output" for tool in item["tools"]]
        for tool in [*body.get("tools", []), *found]:
            tools |= self._tools(tool)
        return Read(text_of(body.get("instructions")), [part for item in items for part in self._parts(item)], tools)

    def _tools(self, tool: dict[str, Any]) -> dict[str, str]:
        """Return tools by name; one of a namespace has the namespace before its name."""
        name = str(tool.get("name") or tool["type"])
        if tool["type"] == "namespace":
            return {f"{name}__{inner['name']}": str(inner.get("description", "")) for inner in tool["tools"]}
        return {name: str(tool.get("description", ""))}

    def _parts(self, item: dict[str, Any]) -> Iterator[Part]:
        kind = item.get("type", "message")
        if kind == "message":
            role = item["role"] if item["role"] in ("user", "assistant") else "system"
            content = item["content"]
            for block in [content] if isinstance(content, str) else content:
                yield Part(role, "text", text_of(block))
        elif kind in ("function_call", "custom_tool_call"):
            name = "__".join(filter(None, [item.get("namespace"), item["name"]]))
            yield Part("assistant", "call", str(item.get("arguments") or item.get("input")), name, item["call_id"])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield Part("tool", "result", text_of(item["output"]), "", item["call_id"])
        elif kind == "tool_search_call":
            yield Part("assistant", "call", json.dumps(item["arguments"]), "tool_search", item["call_id"])
        elif kind == "tool_search_output":
            yield Part("tool", "result", text_of(item["tools"]), "", item["call_id"])
        else:
            yield Part("assistant" if kind == "reasoning" else "system", "text", text_of(item))

    def _items(self, answer: Say | list[Call]) -> list[dict[str, Any]]:
        if isinstance(answer, Say):
            content = [{"type": "output_text", "text": answer.text, "annotations": []}]
            return [
                {"type": "message", "id": _id("msg"), "role": "assistant", "status": "completed", "content": content}
            ]
        return [self._call(call) for call in answer]

    def _call(self, call: Call) -> dict[str, Any]:
        if call.tool == "tool_search":
            search = {"type": "tool_search_call", "id": _id("ts"), "call_id": _id("call"), "status": "completed"}
            return search | {"execution": "client", "arguments": call.arguments}
        namespace, _, name = call.tool.rpartition("__")
        item = {"type": "function_call", "id": _id("fc"), "call_id": _id("call"), "status": "completed"}
        item |= {"name": name, "namespace": namespace} if namespace else {"name": call.tool}
        return item | {"arguments": json.dumps(call.arguments)}

    def whole(self, answer: Say | list[Call], model: str) -> dict[str, Any]:
        usage = {"input_tokens": _TOKENS, "output_tokens": _TOKENS, "total_tokens": 2 * _TOKENS}
        return {
            "id": _id("resp"),
            "object": "response",
            "status": "completed",
            "model": model,
            "output": self._items(answer),
            "usage": usage,
        }

    def events(self, answer: Say | list[Call], model: str) -> Iterator[tuple[str, Any]]:
        whole = self.whole(answer, model)
        begun = whole | {"status": "in_progress", "output": [], "usage": None}
        for name, data in self._events(whole, begun):
            yield name, {"type": name} | data

    def _events(self, whole: dict[str, Any], begun: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "response.created", {"response": begun}
        for index, item in enumerate(whole["output"]):
            place = {"output_index": index}
            unfinished = item | {"status": "in_progress"}
            if item["type"] == "message":
                yield "response.output_item.added", place | {"item": unfinished | {"content": []}}
                delta = {"item_id": item["id"], "content_index": 0, "delta": item["content"][0]["text"]}
                yield "response.output_text.delta", place | delta
            else:
                yield "response.output_item.added", place | {"item": unfinished | {"arguments": ""}}
            yield "response.output_item.done", place | {"item": item}
        yield "response.completed", {"response": whole}


class Completions:
    """OpenAI Chat Completions."""

    name = "completions"

    def takes(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def read(self, body: dict[str, Any]) -> Read:
        parts = [part for message in body["messages"] for part in self._parts(message)]
        system = "\n".join(part.text for part in parts if part.role == "system")
        functions = [tool["function"] for tool in body.get("tools", [])]
        tools = {function["name"]: str(function.get("description", "")) for function in functions}
        return Read(system, [part for part in parts if part.role != "system"], tools)

    def _parts(self, message: dict[str, Any]) -> Iterator[Part]:
        role = "system" if message["role"] == "developer" else message["role"]
        if role == "tool":
            yield Part("tool", "result", text_of(message["content"]), "", message["tool_call_id"])
            return
        content = message.get("content") or []
        for block in [content] if isinstance(content, str) else content:
            yield Part(role, "text", text_of(block))
        for call in message.get("tool_calls") or []:
            yield Part(role, "call", call["function"]["arguments"], call["function"]["name"], call["id"])

    def _message(self, answer: Say | list[Call]) -> dict[str, Any]:
        if isinstance(answer, Say):
            return {"role": "assistant", "content": answer.text}
        functions = [{"name": call.tool, "arguments": json.dumps(call.arguments)} for call in answer]
        calls = [
            {"index": index, "id": _id("call"), "type": "function", "function": function}
            for index, function in enumerate(functions)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def whole(self, answer: Say | list[Call], model: str) -> dict[str, Any]:
        reason = "stop" if isinstance(answer, Say) else "tool_calls"
        choice = {"index": 0, "message": self._message(answer), "finish_reason": reason}
        return self._document("chat.completion", model, choice) | self._usage()

    def events(self, answer: Say | list[Call], model: str) -> Iterator[tuple[str, Any]]:
        choice = self.whole(answer, model)["choices"][0]
        kind, nothing = "chat.completion.chunk", {"index": 0, "delta": {}, "finish_reason": None}
        yield "", self._document(kind, model, nothing | {"delta": choice["message"]})
        yield "", self._document(kind, model, nothing | {"finish_reason": choice["finish_reason"]}) | self._usage()
        yield "", "[DONE]"

    def _document(self, kind: str, model: str, choice: dict[str, Any]) -> dict[str, Any]:
        return {"id": _id("chatcmpl"), "object": kind, "created": 1, "model": model, "choices": [choice]}

    def _usage(self) -> dict[str, Any]:
        return {
            "usage": {"prompt_tokens": _TOKENS, "completion_tokens": _TOKENS, "total_tokens": 2 * _TOKENS},
        }


class Gemini:
    """Gemini API."""

    name = "gemini"

    def takes(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return path.endswith(":streamGenerateContent")

    def read(self, body: dict[str, Any]) -> Read:
        contents = body["contents"]
        parts = [part for content in contents for part in self._parts(content)]
        declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
        tools = {one["name"]: str(one.get("description", "")) for one in declared}
        return Read(text_of((body.get("systemInstruction") or {}).get("parts")), parts, tools)

    def _parts(self, content: dict[str, Any]) -> Iterator[Part]:
        role = "assistant" if content.get("role") == "model" else "user"
        for part in content["parts"]:
            if call := part.get("functionCall"):
                yield Part(role, "call", json.dumps(call.get("args", {})), call["name"], call.get("id", call["name"]))
            elif result := part.get("functionResponse"):
                text = text_of(result["response"].get("output", result["response"]))
                yield Part("tool", "result", text, "", result.get("id", result["name"]))
            else:
                yield Part(role, "text", text_of(part))

    def whole(self, answer: Say | list[Call], model: str) -> dict[str, Any]:
        if isinstance(answer, Say):
            parts: list[dict[str, Any]] = [{"text": answer.text}]
        else:
            parts = [{"functionCall": {"id": _id("call"), "name": one.tool, "args": one.arguments}} for one in answer]
        content = {"role": "model", "parts": parts}
        usage = {"promptTokenCount": _TOKENS, "candidatesTokenCount": _TOKENS, "totalTokenCount": 2 * _TOKENS}
        candidate = {"index": 0, "content": content, "finishReason": "STOP"}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}

    def events(self, answer: Say | list[Call], model: str) -> Iterator[tuple[str, Any]]:
        yield "", self.whole(answer, model)


APIS: Iterable[Api] = (Messages(), Responses(), Completions(), Gemini())
