"""What the hub measures of itself, and that it gets to the exchange."""

import asyncio
from pathlib import Path

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, team_at


async def test_a_hub_that_is_too_slow_alerts_its_directors(tmp_path: Path) -> None:
    """With limits that nothing can meet, the hub's own measurements raise an alert, and it is seen everywhere."""
    policy = QUICK + "\nhealth: {sustained_s: 0.05, limits: {message_routing_p99_s: 0.000001}}"
    async with team_at(tmp_path, policy, health_interval_s=0.02) as team:
        await team.register("ada")
        await team.register("bob")
        await team.register("boss", "director")
        await team.post("ada", "/v1/messages", envelope(1))
        while not (rows := (await team.get("ada", "/v1/alerts")).json()["items"]) or rows[0]["state"] != "raised":
            await asyncio.sleep(0)
        assert rows[0]["metric"] == "message_routing_p99_s"
        assert (await team.get("boss", "/v1/escalations")).json()["items"][0]["trigger"] == "health_degraded"
        exposed = (await team.get("ada", "/metrics")).text
        assert 'alerts{metric="message_routing_p99_s"} 1.0' in exposed
        assert 'escalations_triggered_total{trigger="health_degraded"} 1.0' in exposed
        answer = await team.post("boss", "/v1/health-reports", {"values": {"clone_spawn_p99_s": 2.0}})
        assert answer.json() == {"alerts": ["message_routing_p99_s"]}
