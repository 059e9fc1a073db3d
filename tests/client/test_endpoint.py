"""Where the hub is, who one is there, what a client goes by, and what works without the library for sockets."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.grounds import POLICY, hub_ground
from tests.patience import PATIENCE_S
from tocsin.client import Agent, client_config
from tocsin.client.connection.endpoint import token_from
from tocsin.client.connection.websocket import WebSocketTransport, socket_url
from tocsin.core.errors import NotPermitted, PolicyRefused, RoutingFailed

NOTE = "CUSTOM_NOTE"


async def test_the_environment_says_where_and_who(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub_ground(tmp_path) as ground:
        monkeypatch.setenv("TOCSIN_URL", ground.url)
        monkeypatch.setenv("TOCSIN_TOKEN", ground.token("ada"))
        async with Agent.connect(type="AdHoc") as ada:
            assert ada.name == "ada"
        file = tmp_path / "bob.token"
        file.write_text(ground.token("bob") + "\n", encoding="utf-8")
        monkeypatch.delenv("TOCSIN_TOKEN")
        monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(file))
        async with Agent.connect(type="AdHoc") as bob:
            assert bob.name == "bob"


def test_a_token_given_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_TOKEN", "theirs")
    assert token_from("mine") == "mine"
    assert token_from(None) == "theirs"


def test_a_token_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOCSIN_TOKEN", raising=False)
    monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(NotPermitted, match="TOCSIN_TOKEN_FILE"):
        token_from(None)


async def test_nobody_is_refused_before_anything_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotPermitted, match="needs a token"):
        await Agent.connect("http://127.0.0.1:9")


async def test_a_hub_that_trusts_this_machine_takes_a_name(tmp_path: Path) -> None:
    async with (
        hub_ground(tmp_path, POLICY, options=("--insecure-loopback",)) as ground,
        Agent.connect(ground.url, agent="ada", role="director", type="Manager") as ada,
    ):
        assert (await ada.get_agent("ada")).role == "director"


@pytest.mark.parametrize(
    ("url", "socket"),
    [
        ("http://127.0.0.1:7077", ("ws://127.0.0.1:7077/v1/socket", True)),
        ("https://hub.example/team/", ("wss://hub.example/team/v1/socket", False)),
        ("ws://localhost:1", ("ws://localhost:1/v1/socket", True)),
    ],
)
def test_the_address_of_a_hub(url: str, socket: tuple[str, bool]) -> None:
    assert socket_url(url) == socket


@pytest.mark.parametrize("url", ["127.0.0.1:7077", "ftp://hub", "http://"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(RoutingFailed, match="E_ROUTING_002"):
        WebSocketTransport(url, client_config(), token=None, agent="ada")


async def test_signed_envelopes_pass_a_hub_that_wants_them(tmp_path: Path) -> None:
    async with hub_ground(tmp_path, POLICY + "security: {require_signatures: true}\n") as ground:
        async with ground.join("ada", sign=True) as ada:
            assert (await ada.send(to="ada", type=NOTE, payload={"ü": 1})).durability == "flushed"
            opened = await ada.open_discussion("tabs, or ü?", ["ada"], voters_min=1)
            await ada.speak_in_discussion(opened.discussion, "spaces")
        async with ground.join("ada") as ada:
            with pytest.raises(NotPermitted, match="E_AUTH_006"):
                await ada.speak_in_discussion(opened.discussion, "tabs")
            with pytest.raises(NotPermitted, match="E_AUTH_006"):
                await ada.send(to="ada", type=NOTE)


async def test_signing_needs_a_token() -> None:
    with pytest.raises(NotPermitted, match="signing needs a token"):
        await Agent.connect("http://127.0.0.1:9", token="nonsense", sign=True)  # noqa: S106


def test_the_configuration_is_checked() -> None:
    assert client_config(window=3).window == 3
    with pytest.raises(PolicyRefused, match="windw"):
        client_config(windw=3)
    with pytest.raises(PolicyRefused, match="window"):
        client_config(window=0)


_WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"picows", "websockets", "starlette", "uvicorn"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import asyncio, tempfile
from tocsin import Tocsin
from tocsin.client import Agent

async def main(folder):
    async with await Tocsin.open(folder) as bus, bus.join("ada") as ada:
        await ada.send(to="ada", type="CUSTOM_NOTE")
    try:
        await Agent.connect("http://127.0.0.1:9", agent="ada")
    except ModuleNotFoundError as error:
        print(error)

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
"""


def test_the_base_install_has_everything_but_sockets() -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-c", _WITHOUT], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'tocsin[client]'" in done.stdout
