"""Models of agent frameworks that play a fixed conversation. Import this late: the frameworks take seconds to load."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import agents
from claude_agent_sdk import Transport
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

#: The recipients that the models try, one after the other: the first is refused.
TRIED = ("nobody", "dev")
TEXT = "the tests fail"
DONE = "dev knows"
WAIT_S = 60


class OpenAIModel(agents.Model):
    """A model of the OpenAI Agents SDK that calls the tool for each of `TRIED`, and then answers."""

    def __init__(self) -> None:
        self.calls = 0
        self.tools: set[str] = set()
        self.results: list[str] = []

    async def get_response(self, *_: Any, **given: Any) -> agents.ModelResponse:
        self.results = [item["output"] for item in given["input"] if item.get("type") == "function_call_output"]
        self.tools |= {tool.name for tool in given["tools"]}
        step, self.calls = self.calls, self.calls + 1
        output: Any
        if step < len(TRIED):
            output = ResponseFunctionToolCall(
                arguments=json.dumps({"to": TRIED[step], "text": TEXT}),
                call_id=f"call{step}",
                name="send_message",
                type="function_call",
            )
        else:
            text = ResponseOutputText(annotations=[], text=DONE, type="output_text")
            output = ResponseOutputMessage(
                id="end", content=[text], role="assistant", status="completed", type="message"
            )
        return agents.ModelResponse(output=[output], usage=agents.Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class LangChainModel(BaseChatModel):
    """A chat model that calls the tool for each of `TRIED`, and then answers."""

    tools: set[str] = set()  # noqa: RUF012 - a field of a pydantic model
    results: list[str] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "fixed"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        self.tools |= {tool.__name__ for tool in tools}
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.results = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        step = len(self.results)
        if step < len(TRIED):
            call = {"name": "send_message", "args": {"to": TRIED[step], "text": TEXT}, "id": f"call{step}"}
            answer = AIMessage(content="", tool_calls=[call])
        else:
            answer = AIMessage(content=DONE)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class ClaudeCode(Transport):
    """The process of Claude Code, as the SDK sees it: it calls the tool for each of `TRIED`, and then answers."""

    def __init__(self) -> None:
        self.tools: set[str] = set()
        self.results: list[str] = []
        self._said: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._running: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        pass

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        self._said.put_nowait(None)

    async def close(self) -> None:
        if self._running is not None:
            await self._running

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._said.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            self._said.put_nowait({"type": "control_response", "response": response})
        elif message["type"] == "control_response":
            self._answers[message["response"]["request_id"]].set_result(message["response"])
        else:
            assert message["message"]["content"] == "Tell dev that the tests fail."
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        client = {"name": "test", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        await self._call("initialize", hello)
        listed = await self._call("tools/list", {})
        self.tools |= {tool["name"] for tool in listed["tools"]}
        for to in TRIED:
            told = await self._call("tools/call", {"name": "send_message", "arguments": {"to": to, "text": TEXT}})
            self.results.append(told["content"][0]["text"])
        spent = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "session_id": "one"}
        self._said.put_nowait({"type": "result", "subtype": "success", "is_error": False, "result": DONE, **spent})

    async def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Call the program's own MCP server over the control channel."""
        name = f"{method}{len(self._answers)}"
        self._answers[name] = asyncio.get_running_loop().create_future()
        rpc = {"jsonrpc": "2.0", "id": len(self._answers), "method": method, "params": parameters}
        request = {"subtype": "mcp_message", "server_name": "team", "message": rpc}
        self._said.put_nowait({"type": "control_request", "request_id": name, "request": request})
        response = await asyncio.wait_for(self._answers[name], WAIT_S)
        result: dict[str, Any] = response["response"]["mcp_response"]["result"]
        return result


def model_of(framework: str) -> Any:
    """Make the model of a framework, which keeps to itself: nothing is reported to its maker."""
    agents.set_tracing_disabled(True)
    return {"openai": OpenAIModel, "langgraph": LangChainModel, "claude": ClaudeCode}[framework]()
