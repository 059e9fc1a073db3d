from tests.pipeline.rows import S, T, events, life, lives, made, opened
from tocsin.core import events as ev
from tocsin.pipeline.facts.policy_in_force import in_force

DOCUMENT = (
    '{"aging": {"enabled": true, "threshold_s": %s, "boost_levels": 2%s},'
    ' "gaming": {"messages_min": 5, "high_priority_ratio": 0.25}, "health": {"sustained_s": 30,'
    ' "limits": {"critical_delivery_s": 0.01, "blocking_delivery_s": 0.05}}}'
)


def test_a_policy_is_in_force_until_the_next() -> None:
    first, second = (DOCUMENT % ("60", "")).encode(), (DOCUMENT % ("0.5", ', "top": "Blocking"')).encode()
    happened = [
        ev.PolicyAdopted(T, "tocsin", 1, "start", first),
        ev.MessageReady(T + 1, 7),
        ev.PolicyAdopted(T + 9 * S, "boss", 2, "faster", second),
    ]
    judged = {
        "aging_enabled": True,
        "aging_boost_levels": 2,
        "gaming_messages_min": 5,
        "gaming_ratio": 0.25,
        "critical_delivery_us": 10_000,
        "blocking_delivery_us": 50_000,
        "breach_sustained_us": 30 * S,
    }
    wanted = [
        {
            "project": "p",
            "version": 1,
            "adopted_seq": 1,
            "adopted_at": T,
            "replaced_at": T + 9 * S,
            "by": "tocsin",
            "reason": "start",
            **judged,
            "aging_threshold_us": 60 * S,
            "aging_top": 3,
            "policy": first.decode(),
        },
        {
            "project": "p",
            "version": 2,
            "adopted_seq": 3,
            "adopted_at": T + 9 * S,
            "replaced_at": None,
            "by": "boss",
            "reason": "faster",
            **judged,
            "aging_threshold_us": S // 2,
            "aging_top": 2,
            "policy": second.decode(),
        },
    ]
    assert made("policy_span", events(*happened)) == wanted
    moments = lives(*(life(number, at) for number, at in enumerate((T - 1, T, T + 9 * S - 1, T + 9 * S))))
    with opened(moments, events(*happened), only=["policy_span"]) as tables:
        found = tables.execute(
            f"SELECT aging_threshold_us FROM {in_force('message', 'created_at')} ORDER BY message"
        ).fetchall()
    assert [row[0] for row in found] == [None, 60 * S, 60 * S, S // 2]
