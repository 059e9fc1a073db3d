"""The live socket: access, and what ends it."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.sync.connection import Connection

from tests.dashboard.stage import Stage
from tests.patience import PATIENCE_S

SERVER = "dashboard: {tick_s: 0.1, sample_s: 0.2, viewers_max: 2}\n"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A hub with room for two dashboards."""
    with Stage(tmp_path_factory.mktemp("stage"), server=SERVER) as opened:
        yield opened


def browser_session(stage: Stage, agent: str) -> str:
    """Sign in; return the cookie as a browser would send it."""
    signed = stage.client.post(
        stage.url + "/sign-in", json={"token": stage.tokens[agent]}, headers={"Tocsin-Dashboard": "1"}
    )
    assert signed.status_code == 200, signed.text
    stage.client.cookies.clear()
    return signed.headers["set-cookie"].partition(";")[0]


def listen(stage: Stage, **headers: str) -> ClientConnection:
    named = {name.title(): value for name, value in headers.items()}
    return connect(stage.url.replace("http", "ws") + "/v1/live", additional_headers=named, compression=None)


def received(socket: Connection) -> Any:
    return json.loads(socket.recv(timeout=PATIENCE_S))


def test_a_browser_session_is_accepted_only_from_the_dashboards_own_page(stage: Stage) -> None:
    cookie = browser_session(stage, "hanna")
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        with pytest.raises(InvalidStatus) as refused:
            listen(stage, cookie=cookie, origin=origin)
        assert refused.value.response.status_code == 401
    with pytest.raises(InvalidStatus):
        listen(stage, cookie=cookie)
    with listen(stage, cookie=cookie, origin=stage.url) as socket:
        first = received(socket)
        assert first["hello"]["who"]["agent"] == "hanna"
        assert first["tick"]["condition"] == "serving"
        assert set(received(socket)) == {"tick"}


def test_the_live_socket_is_for_overseers(stage: Stage) -> None:
    with pytest.raises(InvalidStatus) as refused:
        listen(stage, authorization=f"Bearer {stage.tokens['ada']}")
    assert refused.value.response.status_code == 403
    with listen(stage, authorization=f"Bearer {stage.tokens['boss']}") as socket:
        assert received(socket)["hello"]["who"]["role"] == "director"


def test_the_number_of_dashboards_is_limited(stage: Stage) -> None:
    token = f"Bearer {stage.tokens['boss']}"
    with listen(stage, authorization=token) as one, listen(stage, authorization=token) as two:
        received(one), received(two)
        with pytest.raises(InvalidStatus) as refused:
            listen(stage, authorization=token)
        assert refused.value.response.status_code == 429


def test_signing_out_and_revoking_end_it(stage: Stage) -> None:
    stage.join("guest", "human")
    for end in ("sign-out", "revoke"):
        cookie = browser_session(stage, "guest")
        with listen(stage, cookie=cookie, origin=stage.url) as socket:
            received(socket)
            if end == "sign-out":
                headers = {"Cookie": cookie, "Tocsin-Dashboard": "1"}
                assert stage.client.post(stage.url + "/sign-out", headers=headers).status_code == 204
            else:
                stage.ok("POST", "admin", "/v1/admin/tokens/guest/revoke", {})
            with pytest.raises(ConnectionClosed) as closed:
                all(received(socket) for _ in itertools.count())
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
