"""The tools that a team coordinates by, over both ways, with the official client library."""

from typing import Any

from tests.gateways.mcp.clients import Hub, Way, over_http


def mail_of(answer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = [*answer.get("messages", []), *answer["inbox"]["urgent"]]
    return [mail for mail in found if mail["type"] == kind]


async def test_a_story_with_every_tool_that_coordinates(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    one, two = pair
    boss, path = f"{one}boss", f"src/{one}/users.py"
    hub.join(boss, role="director")
    async with way(hub, one) as ada, way(hub, two) as bob, over_http(hub, boss) as dora:
        # Leases: one holds, the other waits, and is told.
        held = await ada.do("acquire_lease", exclusive=[f"src/{one}/**"], ttl_s=60)
        assert held["state"] == "held"
        assert (await ada.do("renew_lease", lease=held["lease"], ttl_s=120))["expires_at"] > held["expires_at"]
        assert (await bob.refused("acquire_lease", exclusive=[path], wait_s=0))["code"] == "E_LEASE_002"
        wanted = await bob.do("acquire_lease", exclusive=[path], priority="Blocking", lease=f"{two}.mine")
        assert (wanted["state"], wanted["holders"]) == ("waiting", [one])
        listed = await ada.do("list_leases", resource=path)
        assert ([row["agent"] for row in listed["held"]], [row["agent"] for row in listed["waiting"]]) == (
            [one],
            [two],
        )
        assert (await ada.do("release_lease", lease=held["lease"]))["resources"] == [f"src/{one}/**"]
        granted = mail_of(await bob.do("fetch_inbox"), "LEASE_GRANTED")
        assert [mail["payload"]["lease"] for mail in granted] == [f"{two}.mine"]
        await bob.do("release_lease", lease=f"{two}.mine")
        assert (await bob.refused("release_lease", lease=f"{two}.mine"))["code"] == "E_LEASE_001"

        # Work: interrupted at a pause point, and given back.
        chore = (await ada.do("send_message", to=two, text="sweep", priority="Info"))["message_id"]
        assert [mail["message_id"] for mail in (await bob.do("fetch_inbox"))["messages"]] == [chore]
        assert (await bob.do("begin_work", message_id=chore, interruptible=False))["working_on"] == chore
        assert (await bob.do("reach_pause_point"))["interrupted_by"] is None
        alarm = (await ada.do("send_message", to=two, text="fire", priority="Critical"))["message_id"]
        paused = await bob.do("reach_pause_point")
        assert (paused["interrupted_by"], paused["working_on"]) == (alarm, chore)
        assert [mail["payload"] for mail in paused["inbox"]["urgent"]] == [{"text": "fire"}]
        aside = await bob.do("put_aside", saved="half of the floor")
        assert (aside["working_on"], aside["aside"]) == (alarm, [chore])
        assert (await bob.do("finish_work"))["aside"] == [chore]
        resumed = await bob.do("resume_work")
        assert (resumed["message_id"], resumed["saved"]) == (chore, "half of the floor")
        assert (await bob.do("finish_work"))["working_on"] is None
        assert (hub.state(chore), hub.state(alarm)) == ("processed", "processed")

        # Topics.
        assert (await bob.do("subscribe_topic", topic=f"{one}.builds"))["topics"] == [f"{one}.builds"]
        published = await ada.do("publish_topic", topic=f"{one}.builds", text="red")
        assert [receipt["recipient"] for receipt in published["receipts"]] == [two]
        (news,) = mail_of(await bob.do("fetch_inbox"), "StatusUpdate")
        assert (news["message_id"], news["payload"]) == (published["message_id"], {"text": "red"})
        assert (await bob.do("unsubscribe_topic", topic=f"{one}.builds"))["topics"] == []

        # Discussions.
        opened = await ada.do("open_discussion", question="tabs?", participants=[two, boss], options=["yes", "no"])
        assert (await bob.do("speak_in_discussion", discussion=opened["discussion"], text="no"))["state"] == "open"
        await bob.do("vote", discussion=opened["discussion"], option="no")
        assert (await dora.do("vote", discussion=opened["discussion"], option="no"))["option"] == "no"

        # Approvals, escalations, alerts.
        subject = (await bob.do("acquire_lease", exclusive=[path]))["lease"]
        prose = {"handoff": "lease_override", "subject": "take it from bob"}
        assert (await ada.refused("request_approval", **prose))["code"] == "E_LEASE_001"
        asked = await ada.do("request_approval", handoff="lease_override", subject=subject)
        waiting = (await dora.do("list_approvals"))["items"]
        assert asked["approval"] in [row["approval"] for row in waiting]
        assert (await ada.refused("decide_approval", approval=asked["approval"], verdict="approve"))["code"] == (
            "E_AUTH_003"
        )
        refused = await dora.do("decide_approval", approval=asked["approval"], verdict="refuse", reason="wait")
        assert refused["outcome"] == "refused"
        (word,) = mail_of(await ada.do("list_alerts"), "ApprovalDecided")
        assert word["payload"]["reason"] == "wait"
        await bob.do("release_lease", lease=subject)
        assert (await ada.refused("list_escalations"))["code"] == "E_AUTH_003"
        # Two who wait for the same thing are contention, which a director is told of.
        first = await ada.do("acquire_lease", exclusive=[path])
        for waiter in (bob, dora):
            await waiter.do("acquire_lease", exclusive=[path])
        (found,) = [row for row in (await dora.do("list_escalations"))["items"] if row["subject"] == path]
        await dora.do("resolve_escalation", escalation=found["escalation"], resolution="ada is nearly done")
        closed = (await dora.do("list_escalations", closed=True))["items"]
        assert [row["resolved_by"] for row in closed if row["subject"] == path] == [boss]
        await ada.do("release_lease", lease=first["lease"])
