"""The scripted model server over plain HTTP: what a client of each API gets, and what the record has."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.model import Call, Model, Say

_SCHEMA = {"type": "object", "properties": {}}


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(socket.create_server(("127.0.0.1", 0))) as model:
        yield model


def post(model: Model, path: str, body: dict[str, Any], **headers: str) -> str:
    address = urlsplit(model.url)
    connection = HTTPConnection(address.hostname or "", address.port)
    try:
        sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request("POST", path, json.dumps(body), sent)
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()
    finally:
        connection.close()


def events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def messages(*said: tuple[str, Any], stream: bool = True) -> dict[str, Any]:
    return {
        "model": "m",
        "stream": stream,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": role, "content": content} for role, content in said],
        "tools": [{"name": "mcp__tocsin__fetch_inbox", "description": "Fetch.", "input_schema": _SCHEMA}],
    }


def test_messages(model: Model) -> None:
    model.script("dev", Call("fetch_inbox", {"limit": 2}), Say("seen"))
    first = events(post(model, "/v1/messages?beta=true", messages(("user", "go")), x_api_key="dev"))
    assert [event["type"] for event in first] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    call = first[1]["content_block"]
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "mcp__tocsin__fetch_inbox", {})
    assert json.loads(first[2]["delta"]["partial_json"]) == {"limit": 2}
    assert first[4]["delta"]["stop_reason"] == "tool_use"
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "one message"}]}
    body = messages(("user", "go"), ("assistant", [call | {"input": {"limit": 2}}]), ("user", [result]))
    second = events(post(model, "/v1/messages", body, x_api_key="dev"))
    assert second[2]["delta"] == {"type": "text_delta", "text": "seen"}
    assert second[4]["delta"]["stop_reason"] == "end_turn"
    shown = model.of("dev")[1]
    assert (shown.api, shown.system) == ("messages", "Be brief.")
    assert shown.tools == {"mcp__tocsin__fetch_inbox": "Fetch."}
    assert [(part.role, part.kind) for part in shown.parts] == [
        ("user", "text"),
        ("assistant", "call"),
        ("tool", "result"),
    ]
    assert [part.text for part in shown.news] == ["one message"]
    assert shown.result_of("fetch_inbox") == "one message"


def test_messages_without_a_stream(model: Model) -> None:
    model.script("dev", Say("yes"))
    answer = json.loads(post(model, "/v1/messages", messages(("user", "go"), stream=False), x_api_key="dev"))
    assert answer["content"] == [{"type": "text", "text": "yes"}]
    assert answer["stop_reason"] == "end_turn"


def responses(*items: dict[str, Any], tools: Any = ()) -> dict[str, Any]:
    command = {"type": "function", "name": "exec_command", "description": "Run."}
    return {"model": "m", "stream": True, "instructions": "Be brief.", "input": items, "tools": [command, *tools]}


def test_responses(model: Model) -> None:
    model.script("dev", Call("fetch_inbox"), Say("seen"))
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    tool = {"type": "function", "name": "fetch_inbox", "description": "Fetch."}
    namespace = {"type": "namespace", "name": "mcp__tocsin", "tools": [tool]}
    first = events(post(model, "/v1/responses", responses(prompt, tools=[namespace]), Authorization="Bearer dev"))
    kinds = [event["type"] for event in first]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    [call] = first[-1]["response"]["output"]
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "mcp__tocsin", "fetch_inbox")
    assert {"type": "response.output_item.done", "output_index": 0, "item": call} in first
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "one message"}
    body = responses(prompt, call, output, tools=[namespace])
    second = events(post(model, "/v1/responses", body, Authorization="Bearer dev"))
    assert "seen" in [event.get("delta") for event in second]
    shown = model.of("dev")[1]
    assert shown.tools == {"exec_command": "Run.", "mcp__tocsin__fetch_inbox": "Fetch."}
    assert [part.text for part in shown.news] == ["one message"]
    assert shown.result_of("fetch_inbox") == "one message"


def test_responses_with_a_search_for_deferred_tools(model: Model) -> None:
    model.script("dev", Call("tool_search", {"query": "inbox"}), Say("seen"))
    [search] = events(post(model, "/v1/responses", responses(), Authorization="Bearer dev"))[-1]["response"]["output"]
    assert (search["type"], search["execution"], search["arguments"]) == (
        "tool_search_call",
        "client",
        {"query": "inbox"},
    )
    tool = {"type": "function", "name": "fetch_inbox", "description": "Fetch."}
    found = {"type": "tool_search_output", "call_id": search["call_id"]}
    found |= {"tools": [{"type": "namespace", "name": "mcp__tocsin", "tools": [tool]}]}
    post(model, "/v1/responses", responses(search, found), Authorization="Bearer dev")
    assert model.of("dev")[1].tools["mcp__tocsin__fetch_inbox"] == "Fetch."


def test_completions(model: Model) -> None:
    model.script("dev", [Call("fetch_inbox"), Call("other")], Say("seen"))
    names = ("tocsin_fetch_inbox", "other")
    tools = [{"type": "function", "function": {"name": name, "description": "It.", "parameters": {}}} for name in names]
    system, prompt = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"}
    body = {"model": "m", "stream": True, "messages": [system, prompt], "tools": tools}
    text = post(model, "/v1/chat/completions", body, Authorization="Bearer dev")
    assert text.endswith("data: [DONE]\n\n")
    first, last = events(text)
    calls = first["choices"][0]["delta"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == list(names)
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    results = [{"role": "tool", "tool_call_id": call["id"], "content": f"result {call['index']}"} for call in calls]
    said = {"role": "assistant", "content": None, "tool_calls": calls}
    post(
        model, "/v1/chat/completions", body | {"messages": [system, prompt, said, *results]}, Authorization="Bearer dev"
    )
    shown = model.of("dev")[1]
    assert shown.system == "Be brief."
    assert [part.text for part in shown.news] == ["result 0", "result 1"]
    assert shown.result_of("other") == "result 1"


def test_gemini(model: Model) -> None:
    model.script("dev", Call("fetch_inbox"), Say("seen"))
    declared = [{"name": "mcp_tocsin_fetch_inbox", "description": "Fetch."}]
    prompt = {"role": "user", "parts": [{"text": "go"}]}
    body = {"contents": [prompt], "tools": [{"functionDeclarations": declared}]}
    body |= {"systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]}}
    path = "/v1beta/models/m:streamGenerateContent?alt=sse"
    [event] = events(post(model, path, body, x_goog_api_key="dev"))
    [part] = event["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["name"] == "mcp_tocsin_fetch_inbox"
    response = {
        "id": part["functionCall"]["id"],
        "name": "mcp_tocsin_fetch_inbox",
        "response": {"output": "one message"},
    }
    answered = [prompt, {"role": "model", "parts": [part]}, {"role": "user", "parts": [{"functionResponse": response}]}]
    [event] = events(post(model, path, body | {"contents": answered}, x_goog_api_key="dev"))
    assert event["candidates"][0]["content"]["parts"] == [{"text": "seen"}]
    shown = model.of("dev")[1]
    assert (shown.system, shown.tools) == ("Be brief.", {"mcp_tocsin_fetch_inbox": "Fetch."})
    assert shown.result_of("fetch_inbox") == "one message"
    whole = json.loads(post(model, "/v1beta/models/m:generateContent", body, x_goog_api_key="dev"))
    assert whole["candidates"][0]["content"]["parts"] == [{"text": "Done."}]


@pytest.mark.parametrize("header", ["x-claude-code-agent-id", "x-openai-subagent", "x-parent-session-id"])
def test_a_sub_agent_has_a_script_of_its_own(model: Model, header: str) -> None:
    model.script("dev", Say("main"))
    model.script("dev", Say("sub"), purpose="sub")
    names = {"x_api_key": "dev", header: "1"}
    assert "sub" in post(model, "/v1/messages", messages(("user", "inner")), **names)
    assert "main" in post(model, "/v1/messages", messages(("user", "outer")), x_api_key="dev")
    assert "outer" in model.text("dev")
    assert "inner" not in model.text("dev")
    assert "inner" in model.text("dev", "sub")


def test_a_request_without_tools_takes_no_step(model: Model) -> None:
    model.script("dev", Say("main"))
    assert "title" in post(model, "/v1/messages", messages(("user", "a")) | {"tools": []}, x_api_key="dev")
    assert "main" in post(model, "/v1/messages", messages(("user", "b")), x_api_key="dev")
    assert [request.purpose for request in model.shown] == ["aside", "main"]


def test_a_function_sees_the_request_and_says_the_answer(model: Model) -> None:
    model.script("dev", lambda request: Say(request.parts[-1].text.upper()))
    assert "GO" in post(model, "/v1/messages", messages(("user", "go")), x_api_key="dev")


def test_a_tool_that_is_not_listed_yet_is_waited_for(model: Model) -> None:
    model.script("dev", Call("fetch_inbox"))
    early = messages(("user", "go")) | {"tools": [{"name": "Bash"}]}
    assert '"name": "Bash"' in post(model, "/v1/messages", early, x_api_key="dev")
    assert model.early == 1
    assert "mcp__tocsin__fetch_inbox" in post(model, "/v1/messages", messages(("user", "go")), x_api_key="dev")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Deferred:\nmcp__tocsin__fetch_inbox\n", "mcp__tocsin__fetch_inbox"),
        ("Deferred tool namespaces:\n- mcp__tocsin: carries messages", "mcp__tocsin__fetch_inbox"),
    ],
)
def test_a_deferred_tool_is_called_by_the_name_that_the_client_tells(model: Model, text: str, name: str) -> None:
    model.script("dev", Call("fetch_inbox"))
    body = messages(("user", text)) | {"tools": [{"name": "Bash"}]}
    assert f'"name": "{name}"' in post(model, "/v1/messages", body, x_api_key="dev")


def test_waiting_for_the_record(model: Model) -> None:
    post(model, "/v1/messages", messages(("user", "go")), x_api_key="dev")
    assert model.wait(lambda record: record.of("dev"))[0].who == "dev"
    assert model.comes(lambda record: record.of("dev"), 1.0)
    assert not model.comes(lambda record: record.of("lead"), 0.05)
    with pytest.raises(TimeoutError, match="not within"):
        model.wait(lambda record: record.of("lead"), patience_s=0.05)


def test_other_requests_are_noted(model: Model) -> None:
    assert json.loads(post(model, "/v1/messages/count_tokens", {})) == {"input_tokens": 7}
    assert model.others == ["POST /v1/messages/count_tokens"]
