"""Limits on requests in progress: in all, for each agent, and after requests that failed."""

import pytest

from tocsin.core.errors import TocsinError
from tocsin.hub.request_limits import RequestLimits


def test_an_agent_has_a_limit_of_its_own() -> None:
    limits = RequestLimits(10, 2)
    with limits.one_of("ada"), limits.one_of("ada"):
        with pytest.raises(TocsinError, match="ada has 2 requests") as refused, limits.one_of("ada"):
            pass
        assert refused.value.code == "E_ADMISSION_008"
        with limits.one_of("bob"):
            pass
    with limits.one_of("ada"), limits.one_of("ada"):
        pass


def test_all_agents_share_a_limit() -> None:
    limits = RequestLimits(2, 2)
    with limits.one_of("ada"), limits.one_of("bob"), pytest.raises(TocsinError, match="the hub has 2 requests"):
        limits.begin("eve")
    with limits.one_of("eve"), limits.one_of("eve"):
        pass


def test_a_request_that_fails_is_no_longer_in_progress() -> None:
    limits = RequestLimits(1, 1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), limits.one_of("ada"):
            raise ZeroDivisionError
