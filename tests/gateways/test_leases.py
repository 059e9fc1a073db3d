"""Leases over HTTP, in process: acquisition, queue, notices, force-release and lookup."""

from pathlib import Path

from tests.gateways.hubs import registered_team


async def test_a_lease_is_held_waited_for_released_and_told(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        held = await team.post("ada", "/v1/leases", {"exclusive": ["src/api/**"], "lease": "mine"})
        assert (held.status_code, held.json()["state"], held.json()["lease"]) == (200, "held", "mine")
        waiting = await team.post("bob", "/v1/leases", {"exclusive": ["src/api/users.py"], "priority": "Blocking"})
        assert waiting.status_code == 202
        assert waiting.json() | {"lease": "", "wait_until": ""} == {
            "lease": "",
            "state": "waiting",
            "agent": "bob",
            "exclusive": ["src/api/users.py"],
            "shared": [],
            "priority": "Blocking",
            "expires_at": None,
            "place": 1,
            "wait_until": "",
            "holders": ["ada"],
            "duplicate": False,
        }
        listed = (await team.get("boss", "/v1/leases")).json()
        assert [row["agent"] for row in listed["held"]] == ["ada"]
        assert [row["agent"] for row in listed["waiting"]] == ["bob"]
        none = (await team.get("boss", "/v1/leases?resource=docs/**")).json()
        assert none == {"held": [], "waiting": [], "next": None}
        assert (await team.get("boss", "/v1/leases?agent=bob")).json()["held"] == []
        freed = await team.call("DELETE", "ada", "/v1/leases/mine")
        assert freed.json() == {"resources": ["src/api/**"], "cancelled": []}
        told = (await team.post("bob", "/v1/inbox/drain")).json()["deliveries"][0]["envelope"]
        assert (told["messageType"], told["payload"]["lease"]) == ("LEASE_GRANTED", waiting.json()["lease"])
        shown = await team.get("bob", f"/v1/leases/{waiting.json()['lease']}")
        assert shown.json()["state"] == "held"


async def test_a_lease_is_renewed_by_its_holder_and_taken_away_by_a_director(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        before = (await team.post("ada", "/v1/leases", {"exclusive": ["x"], "lease": "mine"})).json()
        renewed = (await team.post("ada", "/v1/leases/mine/renew", {"ttl_s": 3600})).json()
        assert renewed["expires_at"] > before["expires_at"]
        assert (await team.post("bob", "/v1/leases/mine/renew")).json()["error_code"] == "lease_not_held"
        taking = "/v1/leases/mine/force-release"
        assert (await team.post("bob", taking, {"reason": "mine"})).json()["error_code"] == "not_permitted"
        assert (await team.post("boss", taking, {"reason": "broken build"})).json()["resources"] == ["x"]
        told = (await team.post("ada", "/v1/inbox/drain")).json()["deliveries"][0]["envelope"]
        assert (told["messageType"], told["payload"]["note"]) == ("LEASE_LOST", "broken build")


async def test_what_is_not_free_or_not_held_is_refused(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/leases", {"exclusive": ["x"]})
        taken = await team.post("bob", "/v1/leases", {"shared": ["x"], "wait_s": 0})
        assert (taken.status_code, taken.json()["error_code"], taken.json()["facts"]["holders"]) == (
            409,
            "lease_conflict",
            ["ada"],
        )
        free = await team.post("bob", "/v1/leases/release", {"resources": ["x"]})
        assert free.json()["error_code"] == "lease_not_held"
        assert (await team.post("ada", "/v1/leases/release", {"resources": ["x"]})).json()["resources"] == ["x"]
        assert (await team.get("ada", "/v1/leases/none")).json()["error_code"] == "lease_not_held"
        assert (await team.get("ada", "/v1/leases?resource=a//b")).json()["error_code"] == "invalid_resource"
        wrong = await team.post("ada", "/v1/leases", {"exclusive": ["x"], "priority": "Shouting"})
        assert wrong.json()["error_code"] == "invalid_enum"


async def test_paths_that_others_hold_are_named(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/leases", {"exclusive": ["src/**"], "shared": ["docs/*.md"]})
        await team.post("bob", "/v1/leases", {"exclusive": ["web/[a]"]})
        paths = {"paths": ["src/a.py", "docs/x.md", "docs/x/y.md", "web/[a]", "web/a"]}
        found = (await team.post("bob", "/v1/leases/check", paths)).json()
        assert [(row["path"], row["resource"], row["holder"], row["shared"]) for row in found] == [
            ("src/a.py", "src/**", "ada", False),
            ("docs/x.md", "docs/*.md", "ada", True),
        ]
        assert [row["path"] for row in (await team.post("ada", "/v1/leases/check", paths)).json()] == ["web/a"]
        too_many = {"paths": ["x"] * 501}
        assert (await team.post("ada", "/v1/leases/check", too_many)).json()["error_code"] == "limit_reached"


async def test_a_deadlock_is_refused_with_its_circle(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/leases", {"exclusive": ["x"]})
        await team.post("bob", "/v1/leases", {"exclusive": ["y"]})
        await team.post("ada", "/v1/leases", {"exclusive": ["y"]})
        refused = await team.post("bob", "/v1/leases", {"exclusive": ["x"]})
        assert (refused.status_code, refused.json()["error_code"]) == (409, "deadlock_broken")
        assert sorted(refused.json()["facts"]["cycle"]) == ["ada", "bob"]
        told = (await team.post("boss", "/v1/inbox/drain")).json()["deliveries"][0]["envelope"]["payload"]
        assert [member["agent"] for member in told["context"]["cycle"]] == ["bob", "ada"]
