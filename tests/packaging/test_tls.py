"""The proxy's configuration, with a real nginx in front of a real hub: HTTP, WebSocket and the hub's own refusals."""

import os
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.peers.servers import libraries, locate

from tests.cli.processes import RunningHub
from tocsin.client import Agent
from tocsin.hub.config import load_config

CONFIG = Path(__file__).resolve().parents[2] / "packaging" / "nginx" / "tocsin.conf"


def number(pattern: str) -> int:
    found = re.search(pattern, CONFIG.read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


def test_the_proxys_limits_are_wider_than_the_hubs() -> None:
    """It is the hub that refuses, and says why."""
    assert number(r"client_max_body_size (\d+)m;") * 2**20 > load_config().batch_bytes_max
    assert (
        number(r"proxy_read_timeout (\d+)s;")
        > load_config().socket.ping_interval_s + load_config().socket.ping_timeout_s
    )


soak = pytest.mark.skipif(
    not os.environ.get("TOCSIN_SOAK"), reason="fetches nginx where it is not installed: make soak"
)


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[RunningHub, str, Path]]:
    """A hub, where nginx serves it over TLS, and the certificate."""
    nginx = locate("nginx", "nginx")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(  # noqa: S603
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    with socket.socket() as held, RunningHub(tmp_path / "hub") as hub:
        # Nobody else can take the port: it is bound here, and shared with nginx.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        text = CONFIG.read_text(encoding="utf-8")
        for old, new in (
            ("127.0.0.1:7077", hub.url.removeprefix("http://")),
            ("listen 443", f"listen 127.0.0.1:{port} reuseport"),
            ("tocsin.example;", "localhost;"),
            ("/etc/nginx/tls/tocsin.example.crt", str(certificate)),
            ("/etc/nginx/tls/tocsin.example.key", str(key)),
        ):
            assert old in text
            text = text.replace(old, new)
        paths = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        whole = f"error_log stderr;\npid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{text}\n}}\n"
        (tmp_path / "nginx.conf").write_text(whole, encoding="utf-8")
        proxy = subprocess.Popen(  # noqa: S603
            [str(nginx), "-p", str(tmp_path), "-c", "nginx.conf", "-g", "daemon off; master_process off;"],
            env={**os.environ, **libraries(nginx)},
        )
        try:
            while True:
                assert proxy.poll() is None, "nginx did not start"
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    continue
            yield hub, f"https://localhost:{port}", certificate
        finally:
            proxy.terminate()
            proxy.wait(30)


@soak
async def test_agents_talk_through_the_proxy(
    proxied: tuple[RunningHub, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, url, certificate = proxied
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tokens = [hub.json("agents", "add", name, "--type", "Manager")["token"] for name in ("ada", "bob")]
    async with (
        Agent.connect(url, token=tokens[0], type="Manager") as ada,
        Agent.connect(url, token=tokens[1], type="Manager") as bob,
    ):
        await ada.send(to="bob", type="StatusUpdate", payload={"text": "over TLS"})
        assert (await anext(bob.inbox())).payload == {"text": "over TLS"}


@soak
def test_the_hub_is_asked_and_refuses_by_itself(proxied: tuple[RunningHub, str, Path]) -> None:
    _, url, certificate = proxied
    trusted = ssl.create_default_context(cafile=str(certificate))
    with urllib.request.urlopen(f"{url}/health", context=trusted) as answer:  # noqa: S310
        assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/v1/status", context=trusted)  # noqa: S310
    assert refused.value.code == 401
    assert refused.value.headers["Content-Type"].startswith("application/problem+json")
    refused.value.close()
