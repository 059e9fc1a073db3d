"""Leases, human inbox and dead letters in a real browser: live updates, and the effect of every action."""

import itertools
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.dashboard.stage import Stage, Visitor

ToolCall = Callable[..., Visitor]
_names = itertools.count(1)


def fresh(word: str) -> str:
    """Return a name that no other test uses."""
    return f"{word}{next(_names)}"


def card(page: Page, title: str) -> Locator:
    return page.locator(f"section[aria-label='{title}']")


def row(page: Page, text: str) -> Locator:
    return page.locator("tbody tr").filter(has_text=text)


def item(page: Page, name: str) -> Locator:
    return page.locator(f"[data-id='{name}']")


def notified(page: Page, text: str) -> None:
    expect(page.locator(".toast").filter(has_text=text)).to_be_visible()


def press_to(page: Page, target: Locator, key: str = "Tab", most: int = 80) -> None:
    """Move the focus to an element with a key."""
    for _ in range(most):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{most} times {key} did not lead there")


def contention(stage: Stage) -> tuple[str, str]:
    """Let ada hold a resource that bob requests at Critical; return the resource and the lease."""
    resource, lease = fresh("src/part") + ".py", fresh("lease_")
    stage.ok("POST", "ada", "/v1/leases", {"exclusive": [resource], "lease": lease})
    stage.ok("POST", "bob", "/v1/leases", {"exclusive": [resource], "priority": "Critical"})
    return resource, lease


def test_leases_show_holders_waiting_requests_the_graph_and_inherited_priority(
    tool_call: ToolCall, stage: Stage
) -> None:
    visitor = tool_call("leases")
    page = visitor.page
    resource, _ = contention(stage)
    held = row(page, resource).filter(has=page.get_by_role("button", name="Release"))
    expect(held).to_contain_text("ada")
    expect(held).to_contain_text("inherits Critical")
    expect(row(page, resource).filter(has_text="Remove")).to_contain_text("bob")
    graph = page.locator("svg.graph")
    expect(graph.locator("a.graph-node[aria-label^='ada:']")).to_contain_text("inherits Critical")
    line = graph.locator("path.graph-edge").filter(has=page.locator("title", has_text="bob waits for ada at Critical"))
    expect(line).to_have_count(1)
    at = {name: graph.locator(f"a.graph-node[aria-label^='{name}:']").bounding_box() for name in ("ada", "bob")}
    assert at["bob"] is not None
    assert at["ada"] is not None
    assert at["bob"]["x"] < at["ada"]["x"], "the waiting agent must be at the left"


def test_a_lease_is_released_by_force_with_keys_alone(tool_call: ToolCall, stage: Stage) -> None:
    resource, lease = contention(stage)
    page = tool_call("leases").page
    button = row(page, resource).get_by_role("button", name="Release")
    expect(button).to_be_visible()
    press_to(page, button)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("ada is notified that it lost the lease")
    press_to(page, page.get_by_label("Reason"))
    page.keyboard.type("the build is broken")
    press_to(page, page.get_by_role("button", name="Release by force"))
    page.keyboard.press("Enter")
    notified(page, f"Released {resource}")
    expect(row(page, resource).filter(has_text="bob").get_by_role("button", name="Release")).to_be_visible()
    assert stage.call("GET", "boss", f"/v1/leases/{lease}").status_code == 409
    holders = [row["agent"] for row in stage.get(f"/v1/leases?resource={resource}")["held"]]
    assert holders == ["bob"]
    notices = [message for message in stage.get("/v1/inbox", "ada")["items"] if message["type"] == "LEASE_LOST"]
    assert notices[-1]["payload"]["note"] == "the build is broken"
    assert stage.get(f"/v1/messages/{notices[-1]['message_id']}")[0]["recipient"] == "ada"


def test_a_reason_is_required_and_escape_cancels(tool_call: ToolCall, stage: Stage) -> None:
    resource, lease = contention(stage)
    page = tool_call("leases").page
    button = row(page, resource).get_by_role("button", name="Release")
    button.click()
    page.get_by_role("button", name="Release by force").click()
    expect(page.get_by_role("dialog")).to_be_visible()  # the browser asks for the reason
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    assert stage.get(f"/v1/leases/{lease}")["state"] == "held"


def test_a_waiting_request_is_removed(tool_call: ToolCall, stage: Stage) -> None:
    resource, _ = contention(stage)
    page = tool_call("leases").page
    row(page, resource).get_by_role("button", name="Remove").click()
    page.get_by_label("Reason").fill("not now")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    notified(page, "Removed bob from the queue")
    expect(row(page, resource).filter(has_text="Remove")).to_have_count(0)
    assert stage.get(f"/v1/leases?resource={resource}")["waiting"] == []


def test_a_message_to_the_human_is_shown_live_and_answered(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("inbox").page
    expect(card(page, "Messages to hanna")).to_be_visible()
    thread = fresh("thread")
    name = stage.send("ada", "hanna", messageType="CUSTOM_QUESTION", payload={"text": "Shall I?"}, correlationId=thread)
    expect(item(page, name)).to_contain_text("Shall I?")
    expect(item(page, name).get_by_role("button", name="Answer")).to_be_visible()
    item(page, name).get_by_role("button", name="Answer").click()
    expect(page.get_by_label("To", exact=True)).to_have_value("ada")
    page.get_by_label("Text").fill("Yes, do.")
    page.get_by_role("button", name="Send").click()
    expect(item(page, name)).to_have_count(0)
    assert stage.states(name) == ["processed"]
    (answer,) = [m for m in stage.get(f"/v1/threads/{thread}")["items"] if m["sender"] == "hanna"]
    assert (answer["recipient"], answer["payload"]) == ("ada", {"text": "Yes, do."})


def test_shown_messages_are_received_and_done_or_rejected_ones_disappear(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("inbox").page
    done, rejected = stage.send("ada", "hanna"), stage.send("bob", "hanna")
    for name in (done, rejected):
        expect(item(page, name)).to_be_visible()
    item(page, done).get_by_role("button", name="Done").click()
    expect(item(page, done)).to_have_count(0)
    assert stage.states(done) == ["processed"]
    item(page, rejected).get_by_role("button", name="Reject").click()
    page.get_by_label("Reason").fill("not for me")
    page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    expect(item(page, rejected)).to_have_count(0)
    assert stage.states(rejected) == ["dead"]


def test_the_notices_of_the_bus_are_marked_as_done_together(tool_call: ToolCall, stage: Stage) -> None:
    visitor = tool_call("inbox")
    page = visitor.page
    kept = stage.send("ada", "hanna")
    stage.send("ada", "bob", messageType="CUSTOM_PLAN")
    messages = card(page, "Messages to hanna")
    expect(messages).to_contain_text("ApprovalRequested")
    expect(item(page, kept)).to_be_visible()
    messages.get_by_role("button", name=re.compile("as done")).click()
    expect(messages).not_to_contain_text("ApprovalRequested")
    assert stage.states(kept) == ["delivered"]


def test_the_human_writes_to_an_agent_with_keys_alone(tool_call: ToolCall, stage: Stage) -> None:
    stage.drain("bob")
    page = tool_call("inbox").page
    press_to(page, page.get_by_role("button", name="Write to an agent"))
    page.keyboard.press("Enter")
    press_to(page, page.get_by_label("To", exact=True))
    page.keyboard.type("bob")
    press_to(page, page.get_by_label("Text"))
    page.keyboard.type('{"text": "look at it", "ticket": 7}')
    press_to(page, page.get_by_role("button", name="Send"))
    page.keyboard.press("Enter")
    notified(page, "bob")
    mine = [m for m in stage.get("/v1/inbox", "bob")["items"] if m["sender"] == "hanna"]
    assert mine[-1]["payload"] == {"text": "look at it", "ticket": 7}
    assert mine[-1]["type"] == "CUSTOM_NOTE"


def test_an_override_goes_at_the_highest_priority(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("inbox").page
    page.get_by_role("button", name="Override …").first.click()
    page.get_by_label("To", exact=True).fill("bob")
    page.get_by_label("Text").fill("Stop what you do.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    (urgent,) = [m for m in stage.get("/v1/inbox", "bob")["items"] if m["payload"] == {"text": "Stop what you do."}]
    assert (urgent["sender"], urgent["priority"]) == ("hanna", "DirectorOverride")


def test_a_refusal_is_shown_and_the_text_is_kept(browser: Any, stage: Stage) -> None:
    visitor = Visitor(browser, stage).sign_in().open("inbox")
    page = visitor.page
    page.get_by_role("button", name="Write to an agent").click()
    page.get_by_label("To", exact=True).fill("nobody-here")
    page.get_by_label("Text").fill("hello?")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("E_ROUTING_001")
    expect(page.get_by_label("Text")).to_have_value("hello?")
    visitor.close(allow=lambda complaint: "404" in complaint)


def test_approvals_are_approved_changed_and_refused(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("inbox").page
    texts = ["Delete the old importer?", "Rename the tables?", "Skip the tests?"]
    plans = [
        stage.send("ada", "bob", messageType="CUSTOM_PLAN", payload={"step": number, "text": text})
        for number, text in enumerate(texts, 1)
    ]
    cards = [card(page, "Approvals").locator(".item").filter(has_text=text) for text in texts]
    for shown, plan in zip(cards, plans, strict=True):
        expect(shown).to_contain_text("message held")
        expect(shown.get_by_role("link").first).to_have_attribute("href", f"#/messages/{plan}")
    cards[0].get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(cards[0]).to_have_count(0)
    cards[1].get_by_role("button", name="Approve with changes …").click()
    expect(page.get_by_label("Payload (JSON)")).to_have_value(re.compile('"step": 2'))
    page.get_by_label("Payload (JSON)").fill('{"step": 22}')
    page.get_by_role("button", name="Approve with changes", exact=True).click()
    expect(cards[1]).to_have_count(0)
    cards[2].get_by_role("button", name="Refuse").click()
    page.get_by_label("Reason").fill("too early")
    page.get_by_role("dialog").get_by_role("button", name="Refuse").click()
    expect(cards[2]).to_have_count(0)
    assert [stage.states(plan)[0] for plan in plans[:2]] == ["queued", "queued"]
    assert stage.states(plans[2]) == ["dead"]
    drained = stage.ok("POST", "bob", "/v1/inbox/drain", {})["deliveries"]
    given = {entry["signal_id"]: entry["envelope"]["payload"] for entry in drained}
    assert (given[plans[0]], given[plans[1]]) == ({"step": 1, "text": texts[0]}, {"step": 22})
    stage.ok("POST", "bob", "/v1/inbox/receipts", {"message_ids": list(given)})


def test_a_changed_payload_must_be_an_object(tool_call: ToolCall, stage: Stage) -> None:
    page = tool_call("inbox").page
    plan = stage.send("ada", "bob", messageType="CUSTOM_PLAN")
    shown = card(page, "Approvals").locator(".item").filter(has_text=plan)
    shown.get_by_role("button", name="Approve with changes …").click()
    page.get_by_label("Payload (JSON)").fill("[1]")
    page.get_by_role("button", name="Approve with changes", exact=True).click()
    notified(page, "must be a JSON object")
    assert stage.states(plan) == ["held"]


def test_an_escalation_is_passed_to_a_human_and_resolved(tool_call: ToolCall, stage: Stage) -> None:
    visitor = tool_call("inbox")
    page = visitor.page
    resource = fresh("db/table")
    for agent in ("ada", "bob", "boss"):
        stage.ok("POST", agent, "/v1/leases", {"exclusive": [resource]})
    shown = card(page, "Escalations").locator(".item").filter(has_text=resource)
    expect(shown).to_contain_text(f"Contended: {resource}")
    shown.get_by_role("button", name="Escalate to a human").click()
    page.get_by_label("Reason").fill("please look")
    page.get_by_role("dialog").get_by_role("button", name="Escalate").click()
    expect(shown).to_contain_text("human escalation")
    shown.get_by_role("button", name="Resolve").click()
    page.get_by_label("How it was resolved").fill("told them to take turns")
    page.get_by_role("dialog").get_by_role("button", name="Resolve").click()
    expect(shown).to_have_count(0)
    (closed,) = [row for row in stage.get("/v1/escalations?closed=true")["items"] if row["subject"] == resource]
    assert (closed["resolution"], closed["resolved_by"]) == ("told them to take turns", "hanna")
    assert [step["detail"] for step in closed["steps"] if step["by"] == "hanna"][:1] == ["please look"]


def kill(stage: Stage, code: str, count: int = 1) -> list[str]:
    """Send messages from ada that bob rejects, so that they become dead letters."""
    names, said = [], {"reason": "There is no such branch.", "can_retry": False}
    for _ in range(count):
        names.append(stage.send("ada", "bob"))
        stage.drain("bob")
        stage.ok("POST", "bob", f"/v1/messages/{names[-1]}/nack", said | {"code": code})
    return names


def test_dead_letters_by_reason_and_one_redriven(tool_call: ToolCall, stage: Stage) -> None:
    visitor = tool_call("dead-letters")
    page = visitor.page
    (name, other) = kill(stage, "E_TASK_002", 2)
    group = card(page, "By reason").locator("tbody tr").filter(has_text="E_TASK_002")
    expect(group).to_contain_text("StatusUpdate 2")
    group.get_by_role("link").click()
    letters = page.get_by_role("region", name="Dead letters", exact=True)
    expect(letters.locator("tbody tr")).to_have_count(2)
    letter = letters.locator("tbody tr").filter(has_text=name)
    expect(letter).to_contain_text("ada → bob StatusUpdate")
    expect(letter).to_contain_text("There is no such branch.")
    expect(letter).to_contain_text("rejected by its recipient")
    letters.locator("tbody tr").filter(has_text=name).get_by_role("button", name="Redrive").click()
    notified(page, f"Redriven: {name}")
    expect(letters.locator("tbody tr")).to_have_count(1)
    assert (stage.states(name), stage.states(other)) == (["queued"], ["dead"])


def test_selected_dead_letters_are_redriven_together(tool_call: ToolCall, stage: Stage) -> None:
    names = kill(stage, "E_TASK_004", 3)
    page = tool_call("dead-letters?reason=rejected&code=E_TASK_004").page
    for name in names[:2]:
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Redrive 2 selected").click()
    notified(page, "2 redriven")
    expect(row(page, names[0])).to_have_count(0)
    assert [stage.states(name)[0] for name in names] == ["queued", "queued", "dead"]


def test_all_dead_letters_of_a_group_are_redriven_with_keys_alone(tool_call: ToolCall, stage: Stage) -> None:
    names, spared = kill(stage, "E_TASK_001", 3), kill(stage, "E_LEASE_002")
    page = tool_call("dead-letters").page
    group = card(page, "By reason").locator("tbody tr").filter(has_text="E_TASK_001")
    button = group.get_by_role("button", name="Redrive all")
    expect(button).to_be_visible()
    press_to(page, button)
    page.keyboard.press("Enter")
    press_to(page, page.get_by_role("dialog").get_by_role("button", name="Redrive all"))
    page.keyboard.press("Enter")
    notified(page, "3 redriven")
    expect(group).to_have_count(0)
    assert {stage.states(name)[0] for name in names} == {"queued"}
    assert stage.states(*spared) == ["dead"]
